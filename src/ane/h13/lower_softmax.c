/* SPDX-License-Identifier: MIT
 * Lowers softmax over the width: maximum, difference, exponential, sum and product. All intermediate values stay on
 * chip.
 */
#include "ane/h13/lower_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"

/* The places of values on chip. With one row per channel, the statistics are at 0, followed by the exponentials and x.
 * With several rows, x is brought to 0, followed by the exponentials and the maximums; the sums later replace x at
 * 0. */
typedef struct softmax_plan {
    int64_t c, h, w;
    emit_l2 x, rows; /* x as stored, and x with the rows as groups */
    emit_l2 exponent, exponent_rows;
    emit_l2 maximum, maximum_rows, sum, sum_rows;
    int64_t end;   /* where the result would be if it stayed on chip */
    uint32_t swap; /* 1 if the statistics of several channels with one row each are stored as one row */
} softmax_plan;

/* Returns the place `at` with its rows as groups, or as channels if the value has one channel
 * (joshuaswarren/mil-hwx-compiler research/oracles/h13/norm_softmax_a3_1x1x64x64.json). */
static emit_l2 lower_softmax_by_row(const softmax_plan *p, const emit_l2 *at, int64_t raw) {
    return p->c == 1 ? (emit_l2){at->base, at->row, raw, raw, 0} : (emit_l2){at->base, at->channel, raw, raw, at->row};
}

/* Sets the places of *p for x. Returns false if the values do not fit on chip. */
static bool lower_softmax_places(softmax_plan *p, const emit_tensor *x) {
    int64_t channel = round_up(2 * x->w, 16), raw = x->c * channel, line = round_up(2 * x->c, 16);
    *p = (softmax_plan){.c = x->c, .h = x->h, .w = x->w, .swap = x->c > 1 && x->h == 1 ? 1 : 0};
    if (x->h == 1) {
        p->maximum = p->sum = p->maximum_rows = p->sum_rows = (emit_l2){0, line, line, line, 0};
        p->exponent = p->exponent_rows = (emit_l2){line, channel, raw, raw, 0};
        p->x = p->rows = (emit_l2){line + raw, channel, raw, raw, 0};
        p->end = line + raw;
        return p->end + raw <= ENGINE_BUFFER;
    }
    int64_t pad = raw % 0x400 == 0 ? 0x80 : 0, pad2 = emit_pad(raw);
    int64_t second = x->h * (raw + pad), third = second + x->h * (raw + pad2), stat = x->c * 0x10;
    p->x = (emit_l2){0, channel, raw + pad, raw, 0};
    p->exponent = (emit_l2){second, channel, raw + pad2, raw, 0};
    p->rows = lower_softmax_by_row(p, &p->x, raw);
    p->exponent_rows = lower_softmax_by_row(p, &p->exponent, raw);
    p->maximum = (emit_l2){third, 0x10, stat, stat, 0};
    p->maximum_rows = (emit_l2){third, 0x10, x->h * stat, stat, stat};
    if (x->c == 1) {
        p->maximum = (emit_l2){third, x->h * stat, stat, x->h * stat, 0};
        p->maximum_rows = (emit_l2){third, stat, x->h * stat, x->h * stat, 0};
    }
    p->sum = p->maximum, p->sum_rows = p->maximum_rows;
    p->sum.base = p->sum_rows.base = 0;
    p->end = third;
    return third + x->h * stat <= ENGINE_BUFFER;
}

static emitted *lower_softmax_planar(emitter *e, const softmax_plan *p, bool reduces, uint32_t mode, uint32_t flags,
                                     uint32_t hand) {
    emitted *t = emit_task(e, false);
    bool grouped = reduces && p->h > 1;
    emit_dims(t, grouped && p->c == 1 ? p->h : p->c, grouped ? 1 : p->h, p->w);
    if (grouped && p->c > 1) emit_set(t, 0x24, 0x10000 | p->h);
    emit_set(t, 0x2c, emit_patch(grouped ? 1 : p->h, p->w, p->h > 1));
    emit_set(t, 0x30, flags);
    emit_set(t, 0x34, mode);
    emit_set(t, 0xc800, hand);
    return t;
}

static void lower_softmax_exponent(emitter *e, const softmax_plan *p, int64_t table) {
    emitted *t = emit_task(e, true);
    int lanes = emit_lane_count(p->c);
    emit_dims(t, p->c, p->h, p->w);
    emit_set(t, 0x24, 0x14001);
    uint32_t code = 0;
    while (code < 4 && (p->h > 1 || p->w < 128 >> code)) code++;
    emit_or(t, 0x34, code << 16 | code << 12 | code << 8);
    emit_active(t, lanes);
    emit_lanes(t, ENGINE_BAR_CONSTANTS, lanes, table, 0, ENGINE_TABLE_BYTES);
    emit_source_l2(t, &p->exponent, 0x108);
    emit_keep(t, &p->exponent, LOWER_KEEP_LATER);
    emit_set(t, 0xc804, 0x121c0c);
}

/* Copies x, which has several rows, to its place on chip. */
static void lower_softmax_bring(emitter *e, const softmax_plan *p, const emit_tensor *x) {
    emitted *t = emit_task(e, true);
    int64_t channel = emit_channel(p->w, true), raw = p->c * channel;
    emit_l2 source = {p->exponent.base, channel, raw, raw, raw};
    emit_dims(t, p->c, p->h, p->w);
    emit_set(t, 0x24, 0x14001);
    emit_or(t, 0x34, (int64_t)emit_shape(p->h, p->w) << 16);
    emit_active(t, emit_lane_count(p->c));
    emit_source(t, x, &source, 2);
    emit_keep(t, &p->x, LOWER_KEEP);
    emit_set(t, 0xc804, 0x101c0c);
}

/* Computes the maximum of each row. */
static void lower_softmax_maximum(emitter *e, const softmax_plan *p, const emit_tensor *x) {
    emitted *t;
    if (p->h > 1) lower_softmax_bring(e, p, x);
    t = lower_softmax_planar(e, p, true, 0x51, p->swap ? 0x400 : 0, LOWER_HAND_ON);
    if (p->h > 1) {
        emit_source_l2(t, &p->rows, 0x120);
        emit_keep(t, &p->maximum_rows, LOWER_KEEP_LATER);
    } else {
        emit_l2 kept = p->x;
        kept.group = kept.row;
        emit_source(t, x, &kept, 1);
        emit_keep(t, &p->maximum, LOWER_KEEP);
    }
    emit_set(t, 0x4800, 4);
    emit_set(t, 0x8800, LOWER_POOL_MAX);
}

/* Computes (x - maximum) * log2(e). */
static void lower_softmax_difference(emitter *e, const softmax_plan *p) {
    emitted *t = lower_softmax_planar(e, p, false, 0x31, p->swap ? 0x210 : 0x10, LOWER_TAKE_OVER);
    if (p->h > 1) emit_set(t, 0x2c, emit_patch(p->h, 16, true));
    if (p->h == 1) { /* a patch of 128 pixels */
        int64_t a = min_i64(7, max_i64(4, emit_log2(p->w)));
        emit_set(t, 0x2c, a | (7 - a) << 4);
    }
    emit_source_l2(t, &p->x, 0x400100);
    emit_source2_l2(t, &p->maximum);
    emit_keep(t, &p->exponent, LOWER_KEEP_LATER);
    emit_set(t, 0x8800, LOWER_SUB);
    emit_set(t, 0x8804, (int64_t)engine_table_find("exp")->scale << 16);
}

/* Computes the reciprocal of each row's sum, and multiplies the exponentials by it. The caller sets the place of the
 * result. */
static emitted *lower_softmax_scaled(emitter *e, const softmax_plan *p) {
    emitted *t = lower_softmax_planar(e, p, true, 0x51, p->swap ? 0x400 : 0, LOWER_HAND_ON);
    emit_source_l2(t, &p->exponent_rows, p->h > 1 ? 0x120 : 0x400104);
    emit_keep(t, &p->sum_rows, LOWER_KEEP_LATER);
    emit_set(t, 0x8800, LOWER_RECIPROCAL);
    t = lower_softmax_planar(e, p, false, 0x31, p->swap ? 0x101 : 0x1, LOWER_TAKE_OVER);
    emit_source_l2(t, &p->sum, p->h > 1 ? 0x400100 : 0x108);
    emit_source2_l2(t, &p->exponent);
    emit_set(t, 0x8800, LOWER_MUL);
    return t;
}

static void lower_softmax_part(emitter *e, const softmax_plan *p, const emit_tensor *x, const emit_tensor *y,
                               int64_t table) {
    lower_softmax_maximum(e, p, x);
    lower_softmax_difference(e, p);
    lower_softmax_exponent(e, p, table);
    emitted *t = lower_softmax_scaled(e, p);
    emit_store(t, y, p->end, 1);
    emit_set(t, 0x4830, LOWER_STREAM_LATER);
}

void lower_softmax_on_chip(emitter *e, const emit_l2 *at, const emit_tensor *to, int il) {
    softmax_plan p = {.c = to->c, .h = 1, .w = to->w, .swap = 1, .x = *at, .rows = *at, .exponent = *at};
    p.exponent_rows = *at;
    p.maximum = p.sum = p.maximum_rows = p.sum_rows = (emit_l2){0, at->base, at->base, at->base, 0};
    p.end = at->base + at->row;
    emitted *t = lower_softmax_planar(e, &p, true, 0x51, 0x400, LOWER_HAND_ON);
    if (p.w == 64) emit_set(t, 0x2c, 0x16);
    emit_source_l2(t, at, 0x104);
    emit_keep(t, &p.maximum, LOWER_KEEP_LATER);
    emit_set(t, 0x4800, 4);
    emit_set(t, 0x8800, LOWER_POOL_MAX);
    lower_softmax_difference(e, &p);
    lower_softmax_exponent(e, &p, lower_table(e, engine_table_find("exp"), emit_lane_count(p.c)));
    t = lower_softmax_scaled(e, &p);
    emit_store(t, to, p.end, il);
    emit_set(t, 0x4830, 0x4a | il << 8);
    emit_set(t, 0x17800, 0x050803c1);
}

propane_status lower_softmax(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err) {
    softmax_plan p;
    int64_t slab = x->c;
    emit_tensor px = *x, py = *y;
    while (!lower_softmax_places(&p, &px)) { /* fewer channels at a time */
        if (slab == 1)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "softmax of %lld rows of %lld does not fit on chip",
                                (long long)x->h, (long long)x->w);
        px.c = slab = slab / 2;
    }
    int64_t table = lower_table(e, engine_table_find("exp"), emit_lane_count(slab));
    for (int64_t c = 0; c < x->c; c += slab) {
        px.c = py.c = min_i64(slab, x->c - c);
        px.base = x->base + c * x->plane;
        py.base = y->base + c * y->plane;
        if (!lower_softmax_places(&p, &px))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "softmax does not fit on chip");
        lower_softmax_part(e, &p, &px, &py, table);
    }
    return PROPANE_OK;
}
