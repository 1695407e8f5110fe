/* SPDX-License-Identifier: MIT
 * Lowers reductions and layer normalisation. The planar engine reduces the plane (and depth) of each channel. Other
 * axes need different strides in memory, groups, or a transpose. The statistics of layer normalisation stay on chip.
 */
#include <string.h>

#include "ane/h13/lower_matmul.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"

static int64_t lower_reduce_final(lower_reduction kind, int64_t count) {
    float scale = kind == LOWER_MEAN ? (float)(1.0 / (double)count) : 1;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    return bits;
}

/* Makes a planar task that reduces the plane of each channel. */
static emitted *lower_reduce_task(emitter *e, lower_reduction kind, int64_t c, int64_t h, int64_t w, int64_t count) {
    emitted *t = emit_task(e, false);
    emit_dims(t, c, h, w);
    emit_set(t, 0x2c, emit_patch(h, w, false));
    emit_set(t, 0x34, 0x51);
    emit_set(t, 0x8800, kind == LOWER_MAXIMUM ? LOWER_POOL_MAX : 0);
    emit_set(t, 0x4800, kind == LOWER_MAXIMUM ? 4 : 0);
    emit_set(t, 0x880c, lower_reduce_final(kind, count));
    return t;
}

/* Returns the place on chip of a streamed reduction's source, and sets the task's patch. Neither is wider than 64
 * pixels (joshuaswarren/mil-hwx-compiler research/oracles/h13/reduce_probe_sum_ax3_1x1x1x512.json). */
static emit_l2 lower_reduce_stream(emitted *t, int64_t c, int64_t h, int64_t w) {
    int64_t wide = min_i64(w, 64), channel = emit_channel(wide, false), raw = c * channel;
    emit_set(t, 0x2c, emit_patch(h, wide, false));
    return (emit_l2){0, channel, raw + emit_pad(raw), raw, raw};
}

/* Reduces the planes of a tensor in memory. */
static void lower_reduce_plane(emitter *e, lower_reduction kind, const emit_tensor *x, const emit_tensor *y,
                               int64_t count) {
    emitted *t = lower_reduce_task(e, kind, x->c, x->h, x->w, count);
    emit_l2 at = lower_reduce_stream(t, x->c, x->h, x->w);
    int64_t tile = emit_tile(x->h, at.row, 1);
    emit_set(t, 0x28, tile);
    emit_source(t, x, &at, 2);
    t->channel_visits = 0;
    emit_store(t, y, tile * at.row, 1);
}

/* Reduces channels, height and width, with the height as depth and the channels as height. */
static void lower_reduce_all(emitter *e, lower_reduction kind, const emit_tensor *x, const emit_tensor *y) {
    emit_tensor view = {x->bar, x->base, 1, x->c, x->w, x->plane, x->total, x->total};
    emitted *t = lower_reduce_task(e, kind, 1, x->c, x->w, x->c * x->h * x->w);
    emit_l2 at = lower_reduce_stream(t, x->h, x->c, x->w);
    emit_source(t, &view, &at, 2);
    t->bytes = x->c * x->h * round_up(2 * x->w, 64);
    emit_set(t, 0x04, x->h);
    emit_set(t, 0x18, x->h);
    emit_set(t, 0x13814, x->row);
    emit_set(t, 0x4814, at.channel);
    emit_store(t, y, x->c * at.row, 1);
}

/* Reduces only the width, with rows as groups. */
static void lower_reduce_width(emitter *e, lower_reduction kind, const emit_tensor *x, const emit_tensor *y) {
    emit_tensor view = {x->bar, x->base, x->c, 1, x->w, x->total, x->plane, x->total};
    emitted *t = lower_reduce_task(e, kind, x->c, 1, x->w, x->w);
    emit_l2 at = lower_reduce_stream(t, x->c, 1, x->w);
    emit_source(t, &view, &at, 2);
    emit_tensor result = {y->bar, y->base, y->c, 1, 1, y->total, y->plane, y->total};
    emit_store(t, &result, at.row, 1);
    t->bytes = x->c * x->h * round_up(2 * x->w, 64) + y->c * y->h * 64;
    emit_set(t, 0x24, 0x10000 | x->h);
    emit_set(t, 0x13818, x->row);
    emit_set(t, 0x17814, y->row);
}

/* Sets all three fields of a neural task's work unit: ShPref, ShMin and ShMax. */
static void lower_reduce_unit(emitted *t, int64_t h, int64_t w) {
    int64_t code = emit_shape(h, w);
    emit_or(t, 0x34, code << 16 | code << 12 | code << 8);
}

/* Returns the bytes from row to row of a value whose channels and width are exchanged. Padding after `dense` bytes
 * keeps rows out of the same banks (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/reduce_probe_max_ax2_1x32x4x4.json, ..._1x64x8x8.json, ..._1x128x16x16.json,
 * reduce_probe_sum_ax1_1x32x4x4.json). */
static int64_t lower_reduce_row(int64_t dense) {
    int64_t pad = emit_pad(dense);
    return dense + (pad || dense % 0x80 ? pad : 0x10);
}

/* Returns the number of lanes that exchange channels and width: at least eight, at most `most`. */
static int lower_reduce_lanes(int64_t channels, int most) {
    enum { LEAST = 8 };
    int lanes = emit_lane_count(channels);
    return lanes < LEAST ? LEAST : lanes > most ? most : lanes;
}

/* Exchanges the reduced values, which are stored as w channels of c rows, back to c rows of w pixels. Eight lanes make
 * eight channels at a time. A row of at most eight pixels is complete at once and streams out; a longer row is
 * assembled on chip. */
static void lower_reduce_height_back(emitter *e, const emit_tensor *x, const emit_tensor *y, const emit_l2 *reduced) {
    enum { LANES = 8 };
    int64_t line = round_up(2 * x->w, 16), base = reduced->base + reduced->row;
    emitted *t = emit_task(e, true);
    emit_dims(t, x->w, x->c, 1);
    emit_set(t, 0x28, min_i64(x->c, 16));
    emit_set(t, 0x24, 0x14001);
    emit_or(t, 0x34, 0x10000000);
    emit_active(t, lower_reduce_lanes(x->w, LANES));
    emit_l2 back = {reduced->base, x->c * 0x10, 0x10, x->c * 0x10, 0}, out = {base, line, line, line, line};
    emit_source_l2(t, &back, 0x400100);
    emit_tensor result = {y->bar, y->base, 1, y->c, y->w, y->plane, y->row, y->total};
    emit_store(t, &result, base, 1);
    emit_set(t, 0x4830, LOWER_STREAM_LATER);
    if (x->w <= LANES)
        lower_reduce_unit(t, x->c, 1);
    else {
        emit_or(t, 0x34, (int64_t)emit_shape(x->c, 1) << 16);
        emit_set(t, 0x17800, 0xc1);
        emit_keep(t, &out, 0x142);
    }
    emit_set(t, 0xc804, 0x101c0c);
}

/* Reduces only the height: reads memory with height and channels exchanged, exchanges channels and width on chip,
 * reduces the width, and exchanges back (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/reduce_probe_max_ax2_1x64x8x8.json and ..._1x128x16x16.json). */
static void lower_reduce_height(emitter *e, lower_reduction kind, const emit_tensor *x, const emit_tensor *y) {
    int64_t channel = emit_channel(x->w, true), raw = x->h * channel, wide = round_up(2 * x->h, 16);
    int64_t dense = x->w * wide, row = lower_reduce_row(dense);
    emit_tensor view = {x->bar, x->base, x->h, x->c, x->w, x->plane, x->row, x->total};
    emit_l2 source = {x->c * row, channel, raw + (raw % 0x200 ? 0 : 0x20), raw, raw}, kept = {0, wide, row, dense, 0};
    emitted *t = emit_task(e, true);
    emit_dims(t, x->h, x->c, x->w);
    emit_set(t, 0x24, 0x14001);
    emit_or(t, 0x34, 0x10000000);
    lower_reduce_unit(t, x->c, x->w);
    emit_active(t, lower_reduce_lanes(x->h, 16));
    emit_source(t, &view, &source, 2);
    emit_keep(t, &kept, LOWER_KEEP);
    emit_set(t, 0xc804, 0x101c0c);
    t = lower_reduce_task(e, kind, x->c, 1, x->h, x->h);
    emit_set(t, 0x24, 0x10000 | x->w);
    emit_l2 rows = {0, row, dense, dense, wide},
            reduced = {x->c * row, 0x10, x->w * x->c * 0x10, x->c * 0x10, x->c * 0x10};
    emit_source_l2(t, &rows, 0x120);
    emit_keep(t, &reduced, LOWER_KEEP_LATER);
    lower_reduce_height_back(e, x, y, &reduced);
}

static void lower_reduce_channel_maximum(emitter *e, const emit_tensor *x, const emit_tensor *y) {
    emitted *t = emit_task(e, true);
    int64_t channel = emit_channel(x->w, true), raw = x->c * channel, tile = emit_tile(x->h, raw, 1);
    emit_l2 at = {0, channel, raw, raw, raw};
    emit_dims(t, x->c, x->h, x->w);
    emit_out(t, 1, x->h, x->w);
    emit_set(t, 0x28, tile);
    emit_set(t, 0x24, x->c << 16 | 0x4001);
    emit_set(t, 0x4800, 4);
    emit_source(t, x, &at, 2);
    emit_store(t, y, tile * raw, 1);
    emit_set(t, 0xc804, 0x101c0b);
}

/* Reduces the channels of a single row: exchanges channels and width on chip, as a product with a constant does, and
 * reduces the rows of channels (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/reduce_probe_sum_ax1_1x64x1x64.json). */
static void lower_reduce_channel_row(emitter *e, lower_reduction kind, const emit_tensor *x, const emit_tensor *y) {
    int64_t line = round_up(2 * x->w, 16);
    emit_tensor rows = {x->bar, x->base, 1, x->c, x->w, x->plane, x->total, x->total}, staged;
    emit_l2 kept = lower_matmul_stage(e, &rows, 0, &staged);
    emitted *t = lower_reduce_task(e, kind, x->w, 1, x->c, x->c);
    emit_set(t, 0x30, 0x400);
    lower_matmul_source_staged(t, &staged, &kept);
    emit_l2 out = {kept.row, line, line, line, line};
    emit_tensor result = {y->bar, y->base, 1, 1, y->w, y->total, y->total, y->total};
    emit_store(t, &result, 0, 1);
    emit_set(t, 0x17800, 0xc1);
    emit_keep(t, &out, 0x141);
}

/* Reduces the channels of each pixel: channels and width are exchanged on chip, and then rows of channels are reduced,
 * with the image's rows as groups (joshuaswarren/mil-hwx-compiler research/oracles/h13/reduce_sum_axes_1.json). Returns
 * false if the values do not fit on chip, or if there are more than 0x7fff channels. */
static bool lower_reduce_channel_rows(emitter *e, lower_reduction kind, const emit_tensor *x, const emit_tensor *y) {
    enum { LANES = 8 };
    bool newer = e->subtype == ENGINE_H14;
    int64_t channel = emit_channel(x->w, true), raw = x->c * channel, wide = round_up(2 * x->c, 16);
    int64_t dense = x->w * wide, row = lower_reduce_row(dense), base = x->h * row, line = round_up(2 * x->w, 16);
    int64_t pad = raw % (newer ? 0x200 : 0x400) ? 0 : emit_pad(raw) + 0x10;
    if (base + x->h * (raw + pad) > ENGINE_BUFFER || base + x->h * line > ENGINE_BUFFER || x->c > 0x7fff) return false;
    if (x->h == 1) {
        lower_reduce_channel_row(e, kind, x, y);
        return true;
    }
    emit_l2 source = {base, channel, raw + pad, raw, raw}, kept = {0, wide, row, dense, 0};
    emitted *t = emit_task(e, true);
    emit_dims(t, x->c, x->h, x->w);
    emit_set(t, 0x24, 0x14001);
    emit_or(t, 0x34, 0x10000000);
    if (newer)
        emit_or(t, 0x34, lower_matmul_turn_shape(x));
    else if (x->c <= LANES)
        lower_reduce_unit(t, x->h, x->w);
    else
        emit_or(t, 0x34, (int64_t)emit_shape(x->h, x->w) << 16);
    emit_active(t, lower_reduce_lanes(x->c, newer ? 16 : LANES));
    emit_source(t, x, &source, 2);
    emit_keep(t, &kept, LOWER_KEEP);
    emit_set(t, 0xc804, 0x101c0c);
    t = lower_reduce_task(e, kind, x->w, 1, x->c, x->c);
    emit_set(t, 0x24, 0x10000 | x->h);
    emit_set(t, 0x30, 0x400);
    emit_l2 rows = {0, wide, dense, dense, row}, out = {base, line, x->h * line, line, 0};
    emit_source_l2(t, &rows, 0x120);
    emit_tensor result = {y->bar, y->base, 1, y->h, y->w, y->total, y->total, y->total};
    emit_store(t, &result, 0, 1);
    emit_set(t, 0x17800, 0xc1);
    emit_set(t, 0x17814, y->row);
    emit_keep(t, &out, 0x141);
    return true;
}

/* Reduces the channels of larger tensors by a convolution whose weights are all 1. [Propane's form, not a published
 * one] */
static propane_status lower_reduce_channel_sum(emitter *e, lower_reduction kind, const emit_tensor *x,
                                               const emit_tensor *y, propane_error *err) {
    uint16_t *ones = arena_alloc(e->arena, (size_t)x->c * 2);
    if (!ones) return propane_fail_memory(err, (size_t)x->c * 2);
    for (int64_t i = 0; i < x->c; i++) ones[i] = 0x3c00;
    lower_conv k = {.outputs = 1, .groups = 1, .kh = 1, .kw = 1, .stride = 1, .weight = ones, .scale = 0x3c00};
    if (kind == LOWER_MEAN) k.scale = fp16_from_f64(1.0 / (double)x->c);
    return lower_convolution(e, &k, x, y, err);
}

/* Folds one row per channel into a plane of four rows if each of the four is a multiple of 64 bytes. A row of 128
 * becomes 4 rows of 32, and a row of 512 becomes 4 rows of 128 (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/reduce_probe_sum_ax3_1x1x1x128.json, ..._1x8x1x128.json, ..._512.json). */
static emit_tensor lower_reduce_fold(const emit_tensor *x) {
    emit_tensor folded = *x;
    if (x->h == 1 && x->w % 128 == 0) folded.h = 4, folded.w = x->w / 4, folded.row = x->w / 2;
    return folded;
}

propane_status lower_reduce(emitter *e, lower_reduction kind, int axes, const emit_tensor *x, const emit_tensor *y,
                            propane_error *err) {
    enum { C = 1, H = 2, W = 4 };
    if (x->c == 1 && axes != C) axes &= ~C;
    if (x->h == 1) axes |= axes & W ? H : 0; /* a dimension of 1 can be added to the axes */
    if (x->w == 1) axes |= axes & H ? W : 0;
    bool vector = x->h == 1 && x->w == 1;
    if (vector && axes & C && kind != LOWER_MAXIMUM) {
        emit_tensor view = {x->bar, x->base, 1, x->c, 1, x->plane, x->plane, x->total};
        emit_tensor at = emit_surface(y->bar, y->base, 1, 1, 1);
        emitted *t = lower_reduce_task(e, kind, 1, x->c, 1, x->c);
        emit_l2 l2 = emit_planar_l2(0, 1, 1);
        emit_source(t, &view, &l2, 2);
        emit_store(t, &at, x->c * l2.row, 1);
        return PROPANE_OK;
    }
    if (axes & C && kind == LOWER_MAXIMUM && (vector || !(axes & (H | W)))) {
        lower_reduce_channel_maximum(e, x, y);
        return PROPANE_OK;
    }
    if (axes == C && lower_reduce_channel_rows(e, kind, x, y)) return PROPANE_OK;
    if (axes == C) return lower_reduce_channel_sum(e, kind, x, y, err);
    if ((axes & (H | W)) == (H | W) && !(axes & C)) {
        emit_tensor folded = lower_reduce_fold(x);
        lower_reduce_plane(e, kind, &folded, y, x->h * x->w);
        return PROPANE_OK;
    }
    if (axes == (C | H | W)) {
        if (x->c == 1)
            lower_reduce_plane(e, kind, x, y, x->h * x->w);
        else
            lower_reduce_all(e, kind, x, y);
        return PROPANE_OK;
    }
    if (axes == W) {
        lower_reduce_width(e, kind, x, y);
        return PROPANE_OK;
    }
    if (axes == H) {
        lower_reduce_height(e, kind, x, y);
        return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a reduction of [%lld, %lld, %lld] over these axes",
                        (long long)x->c, (long long)x->h, (long long)x->w);
}

/* ---- layer normalisation -------------------------------------------------------------------------------------------------------- */

enum { NORM_VALUES = 0x40, NORM_DEVIATION = 0x20, NORM_PAIR_ROW = 0x20 }; /* places on chip; the mean is at 0 */

/* Makes a planar task for one channel of h rows of w pixels. */
static emitted *lower_reduce_norm_task(emitter *e, int64_t h, int64_t w, bool two, uint32_t mode, uint32_t flags,
                                       uint32_t hand) {
    emitted *t = emit_task(e, false);
    emit_dims(t, 1, h, w);
    emit_set(t, 0x2c, emit_patch(h, w, two && h > 1));
    emit_set(t, 0x30, flags);
    emit_set(t, 0x34, mode);
    emit_set(t, 0xc800, hand);
    return t;
}

/* Computes 1 / sqrt(variance + epsilon). `one` is the bit of the axis along which the mean is repeated. */
static void lower_reduce_norm_deviation(emitter *e, int64_t h, int64_t w, const emit_l2 *values, double epsilon,
                                        uint32_t one, uint32_t config) {
    emit_l2 mean = {0, 0x10, NORM_PAIR_ROW, 0x10, 0}, deviation = mean;
    deviation.base = NORM_DEVIATION;
    emitted *t = lower_reduce_norm_task(e, h, w, true, 0x61, one, LOWER_HAND_OVER);
    emit_source_l2(t, &mean, config);
    emit_source2_l2(t, values);
    emit_keep(t, &deviation, LOWER_KEEP_LATER);
    emit_set(t, 0x8800, 0x92010);
    emit_set(t, 0x8808, 0x3c000000 | fp16_from_f64(epsilon));
    emit_set(t, 0x880c, lower_reduce_final(LOWER_MEAN, h * w));
}

/* Normalises a vector of channels over the channels alone: turns the vector into a row, and the result back into a
 * vector. */
static void lower_layer_norm_turned(emitter *e, double epsilon, const emit_tensor *x, const emit_tensor *y) {
    int64_t bytes = round_up(2 * x->c, 16);
    emit_l2 at = emit_planar_l2(NORM_VALUES + bytes, x->c, 1), row = {NORM_VALUES, bytes, bytes, bytes, 0};
    emit_l2 mean = {0, 0x10, NORM_PAIR_ROW, 0x10, 0};
    uint32_t exchanged = e->subtype == ENGINE_H14 ? 0x108 : 0x400100; /* alias bits if the form changes */
    emitted *t = emit_task(e, false);
    emit_dims(t, x->c, 1, 1);
    emit_set(t, 0x2c, emit_patch(1, 1, false));
    emit_set(t, 0x30, 0x400);
    emit_set(t, 0xc800, LOWER_HAND_ON);
    emit_source(t, x, &at, 2);
    emit_keep(t, &row, LOWER_KEEP);
    t = lower_reduce_norm_task(e, 1, x->c, false, 0x51, 0, LOWER_HAND_OVER);
    emit_source_l2(t, &row, exchanged);
    emit_keep(t, &mean, LOWER_KEEP_LATER);
    emit_set(t, 0x880c, lower_reduce_final(LOWER_MEAN, x->c));
    lower_reduce_norm_deviation(e, 1, x->c, &row, epsilon, 1, 0x108);
    t = lower_reduce_norm_task(e, 1, x->c, true, 0x41, 0x200, LOWER_HAND_OVER);
    emit_source_l2(t, &row, 0x400100);
    emit_source2_l2(t, &mean);
    emit_set(t, 0x8800, LOWER_SUB);
    emit_keep(t, &row, LOWER_KEEP_LATER);
    t = emit_task(e, false);
    emit_dims(t, x->c, 1, 1);
    emit_set(t, 0x2c, emit_patch(1, 1, false));
    emit_set(t, 0x30, 0x100);
    emit_set(t, 0xc800, LOWER_TAKE_OVER);
    emit_source_l2(t, &row, exchanged);
    emit_store(t, y, NORM_VALUES + bytes, 1);
    emit_set(t, 0x4830, LOWER_STREAM_LATER);
}

/* Normalises one row over its width. If the axes include the channels, the pair of mean and deviation is repeated along
 * the channels, too (joshuaswarren/mil-hwx-compiler research/oracles/h13/norm_layer_norm_ax3_1x1x1x64.json and
 * ..._ax1_2_3_1x1x1x64.json). */
static void lower_layer_norm_row(emitter *e, bool channels, double epsilon, const emit_tensor *x,
                                 const emit_tensor *y) {
    int64_t bytes = round_up(2 * x->w, 16);
    emit_l2 row = {NORM_VALUES, bytes, bytes, bytes, 0}, source = row, mean = {0, 0x10, NORM_PAIR_ROW, 0x10, 0};
    source.group = bytes;
    emitted *t = lower_reduce_norm_task(e, 1, x->w, false, 0x51, 0, LOWER_HAND_ON);
    emit_source(t, x, &source, 1);
    emit_keep(t, &mean, LOWER_KEEP);
    emit_set(t, 0x880c, lower_reduce_final(LOWER_MEAN, x->w));
    lower_reduce_norm_deviation(e, 1, x->w, &row, epsilon, 1, 0x400100);
    t = lower_reduce_norm_task(e, 1, x->w, true, 0x41, channels ? 0x80 : 0, LOWER_TAKE_OVER);
    emit_source_l2(t, &row, 0x400100);
    emit_source2_l2(t, &mean);
    emit_set(t, 0x8800, LOWER_SUB);
    emit_store(t, y, NORM_VALUES + bytes, 1);
    emit_set(t, 0x4830, LOWER_STREAM_LATER);
}

/* Normalises a vector of channels over all dimensions: the statistics are those of a plane with the channels as rows,
 * and the vector is then read again (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/norm_layer_norm_ax1_2_3_1x64x1x1.json, 1x4096x1x1). */
static void lower_layer_norm_plane(emitter *e, double epsilon, const emit_tensor *x, const emit_tensor *y) {
    enum { FIRST_OF_TWO = 0x3bb81, SECOND_OF_TWO = 0x33b01, TILE = 32 };
    emit_tensor view = {x->bar, x->base, 1, x->c, 1, x->plane, x->total, x->total};
    emit_l2 rows = emit_planar_l2(NORM_VALUES, 1, 1), vector = emit_planar_l2(NORM_VALUES, x->c, 1);
    emit_l2 mean = {0, 0x10, NORM_PAIR_ROW, 0x10, 0};
    emitted *t = lower_reduce_norm_task(e, x->c, 1, false, 0x51, 0, LOWER_HAND_ON);
    emit_set(t, 0x28, min_i64(TILE, x->c));
    emit_source(t, &view, &rows, 1);
    emit_set(t, 0x13800, FIRST_OF_TWO);
    emit_set(t, 0x13814, x->row);
    emit_keep(t, &mean, LOWER_KEEP);
    emit_set(t, 0x880c, lower_reduce_final(LOWER_MEAN, x->c));
    rows.group = 0;
    lower_reduce_norm_deviation(e, x->c, 1, &rows, epsilon, 2, 0x400100);
    t = lower_reduce_norm_task(e, 1, 1, true, 0x41, 0x80, LOWER_TAKE_OVER);
    emit_dims(t, x->c, 1, 1);
    emit_source(t, x, &vector, 2);
    emit_set(t, 0x13800, SECOND_OF_TWO);
    emit_set(t, 0x4804, 0x400142);
    emit_source2_l2(t, &mean);
    emit_set(t, 0x8800, LOWER_SUB);
    emit_store(t, y, NORM_VALUES + vector.row, 1);
    emit_set(t, 0x4830, LOWER_STREAM_LATER);
}

propane_status lower_layer_norm(emitter *e, int axes, double epsilon, const emit_tensor *x, const emit_tensor *y,
                                propane_error *err) {
    enum { C = 1, H = 2, W = 4, MOST = 0x7fff };
    bool vector = x->w == 1 && x->h == 1 && x->c > 1;
    /* On chip, a vector read as a plane has 32 bytes per row; the plain vector needs no more. */
    if (vector && axes & (H | W) && x->c <= MOST && NORM_VALUES + 0x20 * x->c <= ENGINE_BUFFER) {
        lower_layer_norm_plane(e, epsilon, x, y);
        return PROPANE_OK;
    }
    if (vector && x->c <= MOST) {
        lower_layer_norm_turned(e, epsilon, x, y);
        return PROPANE_OK;
    }
    if (x->h == 1 && x->c == 1 && x->w <= MOST) {
        lower_layer_norm_row(e, axes & C, epsilon, x, y);
        return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "layer_norm of [%lld, %lld, %lld]", (long long)x->c,
                        (long long)x->h, (long long)x->w);
}
