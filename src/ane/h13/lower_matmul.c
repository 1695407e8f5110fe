/* SPDX-License-Identifier: MIT
 * Lowers matrix products with a constant operand to 1x1 convolutions. The constant becomes the kernel, and x is
 * transposed on chip so that the rows of x are pixels. Products of two computed operands are in lower_product.c.
 */
#include "ane/h13/lower_matmul.h"

#include "ane/h13/kernel.h"
#include "core/base/int_math.h"

/* ---- transposes --------------------------------------------------------------------------------------------------------------- */

int64_t lower_matmul_channel(int64_t n) {
    int64_t channel = round_up(2 * n, 16);
    return channel % 0x40 ? channel : channel + 0x10;
}

int64_t lower_matmul_turn_shape(const emit_tensor *x) {
    int64_t rows = 1, code, least = 0;
    while (rows < 8 && 32 * rows <= x->c) rows *= 2;
    code = min_i64(3, 4 - emit_log2(rows));
    while (least < code && x->w < 128 >> least) least++;
    return code << 16 | least << 12 | code << 8;
}

emitted *lower_matmul_turn(emitter *e, const emit_tensor *x, int64_t base, int64_t shape) {
    emitted *t = emit_task(e, true);
    int64_t rows = x->c, channel = emit_channel(x->w, true), raw = rows * channel;
    emit_l2 at = {base, channel, raw, raw, raw};
    emit_dims(t, rows, x->h, x->w);
    emit_set(t, 0x28, max_i64(1, min_i64(x->h, (ENGINE_BUFFER - base) / raw)));
    emit_set(t, 0x24, 0x14001);
    if (e->subtype == ENGINE_H14) shape = x->h > 1 ? 0 : lower_matmul_turn_shape(x);
    emit_or(t, 0x34, 0x10000000 | shape);
    emit_active(t, 16);
    emit_source(t, x, &at, 2);
    emit_set(t, 0xc804, 0x101c0c);
    return t;
}

emit_tensor lower_matmul_rows_as_channels(const emit_tensor *x) {
    return (emit_tensor){x->bar, x->base, x->h, x->c, x->w, x->plane, x->row, x->total};
}

propane_status lower_transpose(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err) {
    int64_t channel = emit_channel(x->w, true), raw = x->c * channel;
    int64_t wide = round_up(2 * x->c, 16), rows = x->w * wide, most = ENGINE_BUFFER / (raw + rows);
    if (!most)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a transpose of [%lld, %lld] does not fit on chip",
                            (long long)x->c, (long long)x->w);
    for (int64_t done = 0; done < x->h; done += most) { /* as many rows in each task as fit */
        emit_tensor from = *x, to = *y;
        from.h = to.h = min_i64(most, x->h - done);
        from.base += done * x->row, to.base += done * y->row;
        emitted *t = lower_matmul_turn(e, &from, 0, 0);
        emit_store(t, &to, from.h * raw, 1);
        emit_set(t, 0x17800, 0xc1);
        emit_l2 kept = {from.h * raw, wide, rows, rows, rows};
        emit_keep(t, &kept, 0x500172);
    }
    return PROPANE_OK;
}

/* ---- constant operand ----------------------------------------------------------------------------------------------------------- */

static engine_kernel lower_matmul_kernel(const lower_product *p) {
    engine_kernel k = {.outputs = p->n, .inputs = p->k, .groups = 1, .taps = 1, .interleave = 1};
    int64_t most = min_i64(16, p->n / 16);
    if (p->m > 128) most = min_i64(most, max_i64(1, 32768 / p->k));
    while (2 * k.interleave <= most) k.interleave *= 2;
    k.lanes = (int)min_i64(16, p->n);
    k.bias = p->bias != NULL;
    k.table = p->table != NULL;
    return k;
}

static propane_status lower_matmul_constant_lanes(emitter *e, emitted *t, const lower_product *p, propane_error *err) {
    const engine_kernel kernel = lower_matmul_kernel(p);
    const lower_kernel from = {p->weight, p->bias, p->table, p->weight_from, p->bias_from};
    PROPANE_TRY(lower_kernel_lanes(e, t, &kernel, &from, err));
    emit_or(t, 0x1c, (int64_t)emit_log2(kernel.interleave) << 10);
    emit_active(t, emit_lane_count(p->n));
    return PROPANE_OK;
}

void lower_matmul_product_words(emitted *t, const lower_product *p) {
    emit_set(t, 0xc804, 0x101c00 | (p->bias ? 0x10 : 0) | (p->table ? 0x20000 : p->relu ? 0x10000 : 0));
    emit_set(t, 0xc810, p->scale);
}

/* Returns the scheduling bits for few pixels, or 0 for more. H14 uses the bits for up to 64 pixels unless the kernel is
 * large. */
static int64_t lower_matmul_small(const emitter *e, const lower_product *p) {
    if (e->subtype == ENGINE_H14) return p->m <= 64 && p->k * p->n <= 1 << 19 ? 4 : 0;
    return p->m <= 8 && p->k <= 512 ? 0x44404 : 0;
}

/* Lowers a product as a plain convolution: x is stored transposed, so its columns are already channels in memory. */
static propane_status lower_matmul_constant_plain(emitter *e, const lower_product *p, const emit_tensor *x,
                                                  const emit_tensor *y, propane_error *err) {
    emitted *t = emit_task(e, true);
    int64_t channel = emit_channel(p->m, true), raw = p->k * channel, row = raw + (channel >= 0x40 ? 0 : 0x30);
    emit_tensor source = {x->bar, x->base, p->k, 1, p->m, x->total, x->row, x->total};
    emit_tensor result = lower_matmul_rows_as_channels(y);
    emit_l2 at = {0, channel, row, raw, raw};
    emit_dims(t, p->k, 1, p->m);
    emit_out(t, p->n, 1, p->m);
    emit_or(t, 0x34, 0x10000000 | lower_matmul_small(e, p));
    emit_source(t, &source, &at, 2);
    emit_store(t, &result, row, 1);
    lower_matmul_product_words(t, p);
    return lower_matmul_constant_lanes(e, t, p, err);
}

emit_l2 lower_matmul_stage(emitter *e, const emit_tensor *x, int64_t base, emit_tensor *staged) {
    int64_t k = x->w, m = x->h, channel = lower_matmul_channel(m), row = k * channel, d = round_up(2 * m, 64);
    emit_tensor rows = lower_matmul_rows_as_channels(x);
    emit_l2 kept = {base, channel, row, row, 0};
    *staged = (emit_tensor){ENGINE_BAR_SCRATCH, 0, k, 1, m, d, d, k * d};
    e->scratch = max_i64(e->scratch, round_up(max_i64(2 * m * k, 64 * k), ENGINE_PAGE));
    emitted *t = lower_matmul_turn(e, &rows, base + row, m <= 8 ? 0x30300 : 0);
    emit_keep(t, &kept, 0x500170);
    emit_result_words(t, ENGINE_BAR_SCRATCH, d, d, k * d);
    return kept;
}

void lower_matmul_source_staged(emitted *t, const emit_tensor *staged, const emit_l2 *kept) {
    int64_t bytes = t->bytes, visits = t->channel_visits;
    emit_source(t, staged, kept, 0);
    t->bytes = bytes, t->channel_visits = visits;
    emit_set(t, 0x13800, 0x48880);
    emit_source_l2(t, kept, 0x160);
}

/* Makes the task of a product whose first operand is on chip at `source`. The caller sets the place of the result. */
static emitted *lower_matmul_on_chip(emitter *e, const lower_product *p, const emit_l2 *source, uint32_t config) {
    emitted *t = emit_task(e, true);
    emit_dims(t, p->k, 1, p->m);
    emit_out(t, p->n, 1, p->m);
    emit_or(t, 0x34, lower_matmul_small(e, p));
    emit_source_l2(t, source, config);
    lower_matmul_product_words(t, p);
    return t;
}

/* Makes the task of a product whose first operand is staged, including the words of that operand's DMA. */
static emitted *lower_matmul_from_staged(emitter *e, const lower_product *p, const emit_l2 *kept,
                                         const emit_tensor *staged) {
    emitted *t = lower_matmul_on_chip(e, p, kept, 0x160);
    lower_matmul_source_staged(t, staged, kept);
    return t;
}

static void lower_matmul_store_turned(emitted *t, const emit_tensor *y, int64_t base) {
    emit_tensor result = lower_matmul_rows_as_channels(y);
    emit_or(t, 0x34, 0x10000000);
    emit_store(t, &result, base, 1);
    emit_set(t, 0x4830, 0x14a);
}

static bool lower_matmul_same(const emit_tensor *a, const emit_tensor *b) {
    return a->bar == b->bar && a->base == b->base && a->h == b->h && a->w == b->w && a->row == b->row;
}

static propane_status lower_matmul_constant(emitter *e, const lower_product *p, const emit_tensor *x,
                                            const emit_tensor *y, propane_error *err) {
    int64_t row = p->k * lower_matmul_channel(p->m);
    if (row + p->m * emit_channel(p->k, true) > 0x200000)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the transpose of [%lld, %lld] does not fit on chip",
                            (long long)p->m, (long long)p->k);
    emit_turned *at = &e->turned;
    if (!at->count || at->count != e->count || !lower_matmul_same(x, &at->x)) {
        at->x = *x;
        at->kept = lower_matmul_stage(e, x, 0, &at->staged);
    }
    emitted *t = lower_matmul_from_staged(e, p, &at->kept, &at->staged);
    lower_matmul_store_turned(t, y, row);
    at->count = e->count; /* the next product may use the same operand */
    return lower_matmul_constant_lanes(e, t, p, err);
}

/* Returns the place on chip of the first product's result, which the second product reads: n channels of width m. */
static emit_l2 lower_matmul_between(const lower_product *p) {
    int64_t channel = round_up(2 * p->m, 16), row = p->n * channel;
    return (emit_l2){0, channel, row, row, 0};
}

bool lower_matmul_two_fit(const lower_product *p, const lower_product *q) {
    int64_t staged = p->k * lower_matmul_channel(p->m) + p->m * emit_channel(p->k, true);
    return p->weight && q->weight && !p->transpose_x && !q->transpose_x && p->m == q->m && p->n == q->k &&
           lower_matmul_between(p).row + staged <= 0x200000;
}

propane_status lower_matmul_two(emitter *e, const lower_product *p, const lower_product *q, const emit_tensor *x,
                                const emit_tensor *y, propane_error *err) {
    emit_tensor staged;
    emit_l2 between = lower_matmul_between(p), kept = lower_matmul_stage(e, x, between.row, &staged);
    emitted *t = lower_matmul_from_staged(e, p, &kept, &staged);
    if (e->subtype == ENGINE_H14) emit_set(t, 0x4804, 0x104); /* as in attention, where the result also stays on chip */
    emit_keep(t, &between, 0x140);
    PROPANE_TRY(lower_matmul_constant_lanes(e, t, p, err));
    t = lower_matmul_on_chip(e, q, &between, 0x120);
    lower_matmul_store_turned(t, y, between.row);
    return lower_matmul_constant_lanes(e, t, q, err);
}

propane_status lower_matmul_by_constant(emitter *e, const lower_product *p, const emit_tensor *x, const emit_tensor *y,
                                        propane_error *err) {
    return p->transpose_x ? lower_matmul_constant_plain(e, p, x, y, err) : lower_matmul_constant(e, p, x, y, err);
}
