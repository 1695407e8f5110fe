/* SPDX-License-Identifier: MIT
 * Lowers convolution with constant kernels: one task, up to sixteen lanes, all known forms (dense, grouped, depthwise,
 * stride 2). The kernel is packed into the constant section in the form of ane/h13/kernel.h.
 */
#include <string.h>

#include "ane/h13/kernel.h"
#include "ane/h13/lower_parts.h"
#include "core/base/int_math.h"

static int64_t lower_conv_floor_power(int64_t n) {
    int64_t power = 1;
    while (2 * power <= n) power *= 2;
    return power;
}

static engine_kernel lower_conv_kernel(const lower_conv *k, const emit_tensor *x) {
    engine_kernel kernel = {.groups = 1, .inputs = x->c, .outputs = k->outputs, .taps = k->kh * k->kw};
    kernel.depthwise = k->groups > 1 && k->groups == x->c && k->outputs == x->c;
    bool small = x->h <= 8 && x->w <= 8;
    if (kernel.depthwise)
        kernel.inputs = 1;
    else if (k->groups > 1)
        kernel.groups = k->groups, kernel.inputs = x->c / k->groups, kernel.outputs = k->outputs / k->groups;
    int64_t most = kernel.depthwise ? 1 : min_i64(kernel.outputs / 16, small ? 32 : 16);
    kernel.interleave = (int)lower_conv_floor_power(max_i64(1, most));
    kernel.lanes = (int)min_i64(16, kernel.outputs);
    kernel.bias = k->bias != NULL;
    kernel.table = k->table != NULL;
    kernel.sparse = k->stride == 2;
    return kernel;
}

/* Returns the scheduling words of the neural engine's work unit. */
static int64_t lower_conv_shape(const emitter *e, const lower_conv *k, const emit_tensor *x, const emit_tensor *y) {
    int64_t code = emit_shape(y->h, y->w);
    if (y->w <= 8 && y->h <= 8) return e->subtype == ENGINE_H14 ? code << 16 | code << 12 | code << 8 | 4 : 0x44404;
    /* the published programs switch at a kernel size between 98,304 and 147,456 bytes */
    bool wide = k->kh > 1 && 2 * k->outputs * (x->c / k->groups) * k->kh * k->kw >= 1 << 17 && code == 3;
    return code << 16 | (wide ? code << 12 | code << 8 : 0);
}

/* Returns the padding after each row. Rows of grouped convolutions get the full padding only if they are multiples of
 * 0x400 bytes, after which the banks repeat (joshuaswarren/mil-hwx-compiler
 * research/oracles/h13/conv_probe_k3_c256_n256_s16_st1_g4_bias0_same.json). */
static int64_t lower_conv_pad(const emitter *e, const lower_conv *k, const emit_tensor *x, bool grouped, int64_t raw) {
    int64_t channel = emit_channel(x->w, true);
    if (channel > 0x40 || (x->h == 1 && e->subtype == ENGINE_H14)) return 0;
    if (channel == 0x40) return k->stride == 1 && !grouped ? 0x50 : 0;
    return k->stride == 1 && (!grouped || raw % 0x400 == 0) ? 0x30 : 0x20;
}

static propane_status lower_conv_lanes(emitter *e, emitted *t, const lower_conv *k, const engine_kernel *kernel,
                                       propane_error *err) {
    if (kernel->sparse && e->subtype == ENGINE_H14)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "H14: the format of kernels with stride 2, which are stored without zeros, is unknown");
    const lower_kernel from = {k->weight, k->bias, k->table, k->weight_from, k->bias_from};
    PROPANE_TRY(lower_kernel_lanes(e, t, kernel, &from, err));
    if (kernel->sparse) emit_set(t, 0x1f800, 0x60), emit_set(t, 0xc800, 0x182);
    return PROPANE_OK;
}

propane_status lower_convolution(emitter *e, const lower_conv *k, const emit_tensor *x, const emit_tensor *y,
                                 propane_error *err) {
    engine_kernel kernel = lower_conv_kernel(k, x);
    bool grouped = kernel.groups > 1;
    int64_t channel = emit_channel(x->w, true), raw = kernel.inputs * channel;
    if (kernel.depthwise) raw = x->c * channel;
    if (k->kh > 31 || k->kw > 31 || k->pad_h > 31 || k->pad_w > 31 || k->stride < 1 || k->stride > 2)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "kernel %lldx%lld, stride %lld, padding %lld and %lld",
                            (long long)k->kh, (long long)k->kw, (long long)k->stride, (long long)k->pad_h,
                            (long long)k->pad_w);
    int64_t row = raw + lower_conv_pad(e, k, x, grouped, raw), tile = emit_tile(x->h, row, 1);
    if (!tile)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "one row of %lld channels does not fit on chip",
                            (long long)x->c);
    emitted *t = emit_task(e, true);
    emit_l2 at = {0, channel, row, raw, raw};
    emit_dims(t, kernel.depthwise ? x->c : kernel.inputs, x->h, x->w);
    emit_out(t, kernel.outputs, y->h, y->w);
    emit_set(t, 0x1c,
             0x50000000 | k->kw | k->kh << 5 | emit_log2(kernel.interleave) << 10 | k->stride << 13 | k->stride << 15 |
                 k->pad_w << 17 | k->pad_h << 22);
    emit_set(t, 0x24, kernel.depthwise ? 0x14001 : 0x10000 | kernel.groups);
    emit_or(t, 0x34, lower_conv_shape(e, k, x, y));
    emit_active(t, emit_lane_count(kernel.outputs));
    emit_source(t, x, &at, 2);
    emit_store(t, y, tile * row, 1);
    if (grouped) emit_set(t, 0x13818, x->total / k->groups), emit_set(t, 0x17814, y->total / k->groups);
    emit_set(t, 0xc804, 0x101c00 | (k->bias ? 0x10 : 0) | (k->table ? 0x20000 : k->relu ? 0x10000 : 0));
    emit_set(t, 0xc810, k->scale);
    return lower_conv_lanes(e, t, k, &kernel, err);
}
