/* SPDX-License-Identifier: MIT
 * A layer as planned and what it needs while it runs, shared by the steps that have one layer (conv_direct.c,
 * conv_depthwise.c, conv_winograd.c) and the one that has several (conv_bottleneck.c). Strides are in floats.
 */
#ifndef CPU_CONV_CONV_LAYERS_H
#define CPU_CONV_CONV_LAYERS_H

#include "drivers/cpu/plan/emit.h"
#include "drivers/cpu/plan/facts.h"
#include "drivers/cpu/simd/kernels.h"

/* What happens to a layer's sums. */
typedef struct cpu_conv_end {
    cpu_conv_finish finish;
    cpu_elementwise_unary map; /* NULL: none */
    float p, q;
    bool has_bias;
    cpu_ref bias; /* [a multiple of what it was rounded up to] */
} cpu_conv_end;

/* Packs the bias of `channels` rounded up to `multiple`. */
PROPANE_CHECK propane_status cpu_conv_plan_end(planner *p, const cpu_fused_conv *l, int64_t channels, int64_t multiple,
                                               cpu_conv_end *out, propane_error *err);
static inline const float *cpu_conv_bias(const cpu_run *run, const cpu_conv_end *e) {
    return e->has_bias ? cpu_ref_at(run, e->bias) : NULL;
}
static inline void cpu_conv_map(const cpu_conv_end *e, float *point, int64_t step, int64_t points, int64_t n) {
    for (int64_t i = 0; e->map && i < points; i++, point += step) e->map(point, point, n, e->p, e->q);
}

/* ---- convolutions over all channels --------------------------------------------------------------------------------- */

typedef struct cpu_conv_direct {
    const cpu_conv_kernels *k;
    int64_t images, c_in, c_out, in_h, in_w, out_h, out_w, stride_h, stride_w, before_h, before_w;
    int64_t x_image, x_line, x_col, x_channel; /* of the operand */
    bool copied, apart;                        /* apart: the tiles read each channel's lines by themselves */
    int64_t plane_h, plane_w, pitch, reach_h;  /* reach: lines that a line of results reads */
    int64_t a_image, a_line, a_col;            /* what the tiles read: from result to result */
    int taps;
    const int64_t *tap;
    int64_t depth, pass; /* elements of a tap; how many of them at once */
    int64_t panels, panel_floats;
    int64_t line_runs, runs; /* of a line; all */
    int64_t y_image, y_line, y_col, other_image, other_line, other_col, gate_image;
    cpu_conv_end end;
    bool has_other, has_gate;
    cpu_ref x, y, other, gate, weights;
} cpu_conv_direct;

typedef struct cpu_conv_direct_call {
    const cpu_conv_direct *a;
    const float *x, *points, *weights, *bias, *other, *gate; /* points: x or its copy */
    float *y, *plane;
} cpu_conv_direct_call;

/* All but where things lie in memory that the caller decides on; `y` and `other` (NULL: none) tell their strides. */
PROPANE_CHECK propane_status cpu_conv_plan_direct(planner *p, const cpu_fused_conv *l, const mil_conv *c,
                                                  const cpu_view *x, const cpu_view *other, const cpu_view *y,
                                                  cpu_conv_direct *a, propane_error *err);
cpu_conv_direct_call cpu_conv_direct_at(const cpu_run *run, const cpu_conv_direct *a);
/* Line `h` of an image's copy with padding, to `to`. */
void cpu_conv_copy_line(const cpu_conv_direct_call *call, int64_t image, int64_t h, float *to);
/* Runs and panels [from, to). */
void cpu_conv_direct_part(const cpu_conv_direct_call *call, int64_t run_from, int64_t run_to, int64_t panel_from,
                          int64_t panel_to);
double cpu_conv_flops(const mil_conv *c);

/* ---- windows -------------------------------------------------------------------------------------------------------- */

typedef struct cpu_conv_window {
    mil_conv c;
    const cpu_conv_kernels *k;
    cpu_conv_kind kind;
    int64_t x_image, x_line, x_col, y_image, y_line, y_col, w_row;
    const float *parts; /* average: [out_h][out_w] elements of a window that count; NULL: another kind */
    cpu_conv_end end;
    cpu_ref x, y, w;
} cpu_conv_window;

typedef struct cpu_conv_window_call {
    const cpu_conv_window *a;
    const float *x, *w, *bias;
    float *y;
    int64_t channels;
} cpu_conv_window_call;

PROPANE_CHECK propane_status cpu_conv_plan_depthwise(planner *p, const cpu_fused_conv *l, cpu_conv_window *a,
                                                     propane_error *err);
cpu_conv_window_call cpu_conv_window_at(const cpu_run *run, const cpu_conv_window *a);
/* Line `h` of an image's results. */
void cpu_conv_window_line(const cpu_conv_window_call *call, int64_t image, int64_t h);

/* ---- steps ----------------------------------------------------------------------------------------------------------- */

PROPANE_CHECK propane_status cpu_conv_emit_direct(planner *p, const cpu_fused_conv *l, propane_error *err);
/* 3x3 convolutions of stride 1 by minimal filtering, where that pays; all three in channels-last form. */
bool cpu_conv_winograd_pays(const mil_conv *c);
PROPANE_CHECK propane_status cpu_conv_emit_winograd(planner *p, const cpu_fused_conv *l, const mil_conv *c,
                                                    const cpu_view *x, const cpu_view *other, const cpu_view *y,
                                                    propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_depthwise(planner *p, const cpu_fused_conv *l, propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_pool(planner *p, const mil_op *op, propane_error *err);
/* A convolution and the depthwise one behind it, with or without a 1x1 convolution (`last`), as one step. */
bool cpu_conv_bottleneck_pays(const cpu_kernels *kernels, int threads, const mil_conv *first, const mil_conv *window,
                              bool last);
PROPANE_CHECK propane_status cpu_conv_emit_bottleneck(planner *p, const cpu_fused_conv *l, propane_error *err);

cpu_conv_finish cpu_plan_finish_of(const cpu_fused_conv *l);

#endif
