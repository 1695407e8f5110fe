/* SPDX-License-Identifier: MIT
 * Lowers elementwise operations: the planar engine computes arithmetic of one or two operands, and the neural engine
 * computes ReLU, tables and copies. Planes too large for the on-chip buffer are processed by rows (TileHeight), and
 * rows of too many channels are split into several tasks.
 */
#include "ane/h13/lower_parts.h"
#include "core/base/int_math.h"

/* Returns how many channels of x a task processes, so that one row of every source and of the result fits on chip. */
static int64_t lower_slab(const emit_tensor *x, bool neural, int sources) {
    int64_t channel = emit_channel(x->w, neural), most = ENGINE_BUFFER / (sources + 2) / channel;
    return x->c <= most ? x->c : max_i64(16, most / 16 * 16);
}

static emit_tensor lower_part(const emit_tensor *x, int64_t from, int64_t count) {
    emit_tensor part = *x;
    part.base += from * x->plane;
    part.c = count;
    return part;
}

/* Views tensors of one row and more than `slab` channels as rows of fewer channels, which one task processes row by row
 * (TileHeight). `shape` is the tensor with all channels. Changes nothing if a tensor has several rows, or the channels
 * do not divide evenly into at most 64 rows. */
static void lower_fold(int64_t slab, const emit_tensor *shape, emit_tensor *const *tensors, int count) {
    enum { MOST_ROWS = 64 };
    int64_t c = shape->c, rows = div_up(c, slab);
    while (rows <= MOST_ROWS && c % rows) rows++;
    bool flat = rows > 1 && rows <= MOST_ROWS;
    for (int i = 0; i < count; i++) flat = flat && tensors[i]->h == 1 && (tensors[i]->c == c || tensors[i]->c == 1);
    for (int i = 0; flat && i < count; i++) {
        emit_tensor *x = tensors[i];
        if (x->c == c) x->c = c / rows, x->h = rows, x->row = x->c * x->plane;
    }
}

static int64_t lower_second(int64_t bytes) { return bytes % 0x400 >= 0x40 ? bytes : bytes - bytes % 0x400 + 0x40; }

static void lower_binary_part(emitter *e, uint32_t op, const emit_tensor *a, const emit_tensor *b, bool relu2,
                              const emit_tensor *y) {
    emitted *t = emit_task(e, false);
    emit_l2 first = emit_planar_l2(0, a->c, a->w), second = first;
    int64_t tile = emit_tile(a->h, first.row, 2), bytes = tile * first.row;
    second.base = a->bar == b->bar && a->base == b->base ? bytes : lower_second(bytes);
    emit_dims(t, a->c, a->h, a->w);
    emit_set(t, 0x28, tile);
    emit_set(t, 0x2c, emit_patch(a->h, a->w, true));
    emit_set(t, 0x34, 0x33);
    emit_source(t, a, &first, 2);
    emit_source2(t, b, &second);
    if (relu2) emit_set(t, 0x4800, 0x10);
    emit_store(t, y, second.base + bytes, 1);
    emit_set(t, 0x8800, op);
}

propane_status lower_binary(emitter *e, uint32_t op, const emit_tensor *a, const emit_tensor *b, bool relu2,
                            const emit_tensor *y, propane_error *err) {
    int64_t slab = lower_slab(a, false, 2);
    emit_tensor first = *a, second = *b, result = *y;
    lower_fold(slab, a, (emit_tensor *[]){&first, &second, &result}, 3);
    for (int64_t c = 0; c < first.c; c += slab) {
        int64_t count = min_i64(slab, first.c - c);
        emit_tensor pa = lower_part(&first, c, count), pb = lower_part(&second, c, count);
        emit_tensor py = lower_part(&result, c, count);
        lower_binary_part(e, op, &pa, &pb, relu2, &py);
    }
    return PROPANE_OK;
}

propane_status lower_scaled(emitter *e, uint32_t op, const emit_tensor *x, uint16_t scale, uint16_t bias,
                            const emit_tensor *y, propane_error *err) {
    int64_t slab = lower_slab(x, false, 1);
    emit_tensor source = *x, result = *y;
    lower_fold(slab, x, (emit_tensor *[]){&source, &result}, 2);
    for (int64_t c = 0; c < source.c; c += slab) {
        int64_t count = min_i64(slab, source.c - c);
        emit_tensor px = lower_part(&source, c, count), py = lower_part(&result, c, count);
        emitted *t = emit_task(e, false);
        emit_l2 at = emit_planar_l2(0, count, px.w);
        int64_t tile = emit_tile(px.h, at.row, 1);
        emit_dims(t, count, px.h, px.w);
        emit_set(t, 0x28, tile);
        emit_set(t, 0x2c, emit_patch(px.h, px.w, false));
        emit_source(t, &px, &at, 2);
        emit_store(t, &py, tile * at.row, 1);
        emit_set(t, 0x8800, op);
        emit_set(t, 0x8804, (int64_t)scale << 16 | bias);
    }
    return PROPANE_OK;
}

/* ---- a smaller second operand is brought on chip first ----------------------------------------------------------- */

/* Returns the padding after each row of the copy's source. Rows of an odd number of 16-byte units, at least three, are
 * spread over all banks. Only a single channel needs this; several channels are spread anyway.
 * (joshuaswarren/mil-hwx-compiler research/oracles/h13/env_bcast_*) */
static int64_t lower_bring_pad(const emit_tensor *b, int64_t channel) {
    if (b->c > 1 || b->h == 1 || channel >= 0x80) return 0;
    return max_i64(channel / 0x10 | 1, 3) * 0x10 - channel;
}

/* Sets the words with which a copying task applies the table at offset `at` of the constants. */
static void lower_table_words(emitted *t, const engine_table *table, int lanes, int64_t at) {
    emit_lanes(t, ENGINE_BAR_CONSTANTS, lanes, at, 0, ENGINE_TABLE_BYTES);
    emit_set(t, 0xc804, table->bias ? 0x121c08 : 0x121c0c);
    emit_set(t, 0xc80c, table->bias);
    emit_set(t, 0xc810, table->scale);
    emit_set(t, 0x3c, table->power);
    t->root = table->root;
}

/* Copies b to the start of the on-chip buffer, where the copy stays, and applies `table` unless it is NULL. *bytes
 * receives the size of the copy. Padding keeps several rows out of the same banks (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/binary_real_div_c512_constant_scalar.json). */
static emit_l2 lower_bring(emitter *e, const emit_tensor *b, const engine_table *table, int64_t *bytes) {
    emitted *t = emit_task(e, true);
    int64_t channel = emit_channel(b->w, true), row = b->c * channel, wide = round_up(2 * b->w, 16);
    int64_t pad = lower_bring_pad(b, channel), dense = b->c * wide, stride = dense + (b->h > 1 ? emit_pad(dense) : 0);
    *bytes = b->h * stride;
    emit_l2 source = {*bytes, channel, row + pad, row, row}, kept = {0, wide, stride, dense, 0};
    emit_dims(t, b->c, b->h, b->w);
    emit_set(t, 0x24, 0x14001);
    emit_or(t, 0x34, (int64_t)emit_shape(b->h, b->w) << 16);
    emit_active(t, emit_lane_count(b->c));
    emit_source(t, b, &source, 2);
    emit_keep(t, &kept, 0x500170);
    emit_set(t, 0xc804, 0x101c0c);
    int lanes = emit_lane_count(b->c);
    if (table) lower_table_words(t, table, lanes, lower_table(e, table, lanes));
    return kept;
}

/* Makes the planar task y = x op b, where b occupies the first `bytes` bytes on chip. */
static void lower_against(emitter *e, uint32_t op, const emit_tensor *x, const emit_l2 *b, int64_t bytes, uint32_t mode,
                          uint32_t flags, const emit_tensor *y) {
    emitted *t = emit_task(e, false);
    emit_l2 at = emit_planar_l2(bytes, x->c, x->w);
    int64_t tile = emit_tile(x->h, at.row, 1);
    emit_dims(t, x->c, x->h, x->w);
    emit_set(t, 0x28, tile);
    emit_set(t, 0x2c, emit_patch(x->h, x->w, false));
    emit_set(t, 0x30, flags);
    emit_set(t, 0x34, mode);
    emit_source(t, x, &at, 2);
    emit_set(t, 0x4804, 0x172);
    emit_source2_l2(t, b);
    emit_store(t, y, bytes + tile * at.row, 1);
    emit_set(t, 0x4830, 0x14a);
    emit_set(t, 0x8800, op);
}

propane_status lower_broadcast(emitter *e, uint32_t op, const emit_tensor *x, const emit_tensor *b,
                               const engine_table *table, const emit_tensor *y, propane_error *err) {
    int64_t bytes, slab = lower_slab(x, false, 2);
    emit_tensor source = *x, small = *b, result = *y;
    lower_fold(slab, x, (emit_tensor *[]){&source, &small, &result}, 3);
    uint32_t flags = (small.w == 1 ? 0x10u : 0) | (small.h == 1 ? 0x20u : 0) | (small.c == 1 ? 0x80u : 0);
    if (b->h * b->c * round_up(2 * b->w, 16) > 0x100000)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "the smaller operand, [%lld, %lld, %lld], does not fit on chip", (long long)b->c,
                            (long long)b->h, (long long)b->w);
    for (int64_t c = 0; c < source.c; c += slab) {
        int64_t count = min_i64(slab, source.c - c);
        emit_tensor px = lower_part(&source, c, count), py = lower_part(&result, c, count);
        emit_tensor pb = small.c == 1 ? small : lower_part(&small, c, count);
        emit_l2 kept = lower_bring(e, &pb, table, &bytes);
        lower_against(e, op, &px, &kept, bytes, 0x31, flags, &py);
    }
    return PROPANE_OK;
}

propane_status lower_channels(emitter *e, const emit_tensor *x, const uint16_t *bias, const uint16_t *scale,
                              const emit_tensor *y, propane_error *err) {
    int64_t bytes, at = lower_constants(e, bias, (size_t)x->c * 2);
    text_append_n(&e->constants, scale, (size_t)x->c * 2);
    emit_tensor pair = {ENGINE_BAR_CONSTANTS, at, 1, 2, x->c, 2 * x->c, 4 * x->c, 4 * x->c};
    if (lower_slab(x, false, 1) < x->c || x->c > 0x7fff)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "constants for %lld channels of %lld pixels in a row",
                            (long long)x->c, (long long)x->w);
    emit_l2 kept = lower_bring(e, &pair, NULL, &bytes);
    lower_against(e, LOWER_ADD, x, &kept, bytes, 0x41, 0x200, y);
    return PROPANE_OK;
}

/* ---- neural engine: channel by channel ------------------------------------------------------------------------------------------ */

/* Makes a neural task that streams x channel by channel, with `pad` bytes after each row on chip. *tile receives the
 * number of rows that are processed at a time. */
static emitted *lower_unicast(emitter *e, const emit_tensor *x, int64_t pad, int64_t *tile) {
    emitted *t = emit_task(e, true);
    int64_t channel = emit_channel(x->w, true), raw = x->c * channel, row = raw + pad;
    emit_l2 at = {0, channel, row, raw, raw};
    *tile = emit_tile(x->h, row, 1);
    emit_dims(t, x->c, x->h, x->w);
    emit_set(t, 0x28, *tile);
    emit_set(t, 0x24, 0x14001);
    emit_active(t, emit_lane_count(x->c));
    emit_source(t, x, &at, 2);
    return t;
}

/* Returns the neural engine's work unit for planes. *pad receives the padding after each row: the bytes of the unit's
 * width plus 16, or 0 (joshuaswarren/mil-hwx-compiler research/oracles/h13/env_act_gelu_1x64x8x8_exact.json and the
 * same files for h14). */
static uint32_t lower_activation_shape(const emitter *e, const emit_tensor *x, int64_t *pad) {
    bool small = e->subtype == ENGINE_H14 && x->h <= 8 && x->w <= 8 && x->h * x->w > 1;
    uint32_t code = small ? 4 : emit_shape(x->h, x->w);
    int64_t wide = 2 * (128 >> code);
    *pad = x->h > 1 && emit_channel(x->w, true) < 0x80 && x->c > 1 ? wide + 0x10 : 0;
    return code;
}

propane_status lower_activation(emitter *e, const emit_tensor *x, const engine_table *table, const emit_tensor *y,
                                propane_error *err) {
    int64_t slab = lower_slab(x, true, 1), tile, pad;
    emit_tensor source = *x, result = *y;
    lower_fold(slab, x, (emit_tensor *[]){&source, &result}, 2);
    uint32_t shape = lower_activation_shape(e, &source, &pad);
    int lanes = emit_lane_count(min_i64(slab, source.c));
    int64_t at = table ? lower_table(e, table, lanes) : 0;
    for (int64_t c = 0; c < source.c; c += slab) {
        int64_t count = min_i64(slab, source.c - c);
        emit_tensor px = lower_part(&source, c, count), py = lower_part(&result, c, count);
        emitted *t = lower_unicast(e, &px, pad, &tile);
        emit_or(t, 0x34, (int64_t)shape << 16);
        emit_store(t, &py, tile * (count * emit_channel(x->w, true) + pad), 1);
        if (table)
            lower_table_words(t, table, emit_lane_count(count), at);
        else
            emit_set(t, 0xc804, 0x111c0c);
    }
    return PROPANE_OK;
}

propane_status lower_copy(emitter *e, const emit_tensor *x, const emit_tensor *y, propane_error *err) {
    int64_t slab = lower_slab(x, true, 1), tile;
    emit_tensor source = *x, result = *y;
    lower_fold(slab, x, (emit_tensor *[]){&source, &result}, 2);
    for (int64_t c = 0; c < source.c; c += slab) {
        int64_t count = min_i64(slab, source.c - c);
        emit_tensor px = lower_part(&source, c, count), py = lower_part(&result, c, count);
        emitted *t = lower_unicast(e, &px, 0, &tile);
        emit_or(t, 0x34, (int64_t)emit_shape(px.h, px.w) << 16);
        emit_store(t, &py, tile * count * emit_channel(x->w, true), 1);
        emit_set(t, 0xc804, 0x101c0c);
    }
    return PROPANE_OK;
}
