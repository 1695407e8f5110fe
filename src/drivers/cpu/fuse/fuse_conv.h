/* SPDX-License-Identifier: MIT
 * What the planning of layers with constant weights shares: fuse_conv.c finds them, fuse_bottleneck.c joins
 * some, conv_*.c make their steps.
 */
#ifndef CPU_FUSE_FUSE_CONV_H
#define CPU_FUSE_FUSE_CONV_H

#include "drivers/cpu/conv/conv.h"
#include "drivers/cpu/plan/plan.h"
#include "drivers/cpu/simd/elementwise.h"
#include "mil/ops/shape_util.h"

/* A layer and what is done to its results before they are stored: see cpu_conv_finish; then `map`. */
typedef struct cpu_plan_layer {
    const mil_op *op;        /* conv or linear */
    const mil_value *x;      /* what it reads, */
    const mil_value *gate;   /* times this, a factor for each channel of it, [N or 1, C, 1, 1]; NULL: nothing */
    const mil_value *other;  /* added to it; NULL: nothing */
    const mil_value *result; /* of the last operation */
    bool depthwise, swish;
    int map; /* cpu_elementwise_code; -1: none */
    double least, p, q, low, high;
    /* A depthwise layer that is a step together with others (fuse_bottleneck.c): the convolution that makes x (NULL: alone),
     * the 1x1 convolution of its results and their mean over lines and columns (NULL: not wanted). */
    const struct cpu_plan_layer *first, *last;
    const mil_value *mean;
} cpu_plan_layer;

/* Up to `most` operations that read the value; -1: more, or it is a result of the function. */
int cpu_plan_readers(const planner *p, const mil_value *v, const mil_op **out, int most);
/* An elementwise operation or a reduction that is not part of something yet. */
bool cpu_plan_op_is_free(const planner *p, const mil_op *op);
PROPANE_CHECK propane_status cpu_plan_find_blocks(planner *p, propane_error *err);

/* A convolution of images with constant weights that the kernels take, a pool that they take. */
bool cpu_plan_is_image_conv(const mil_op *op, mil_conv *c);
bool cpu_plan_is_image_pool(const mil_op *op, mil_conv *c);
bool cpu_view_is_channels_last(const cpu_view *v);
cpu_conv_finish cpu_plan_finish_of(const cpu_plan_layer *l);
/* `v` with its channels next to one another: itself, or a copy. */
PROPANE_CHECK propane_status cpu_plan_as_channels(planner *p, const mil_value *makes, const mil_type *type, cpu_view *v,
                                                  propane_error *err);
/* Where the result belongs, and where a kernel writes it: there, or, where its channels are not neighbours there, into
 * memory of its own that the caller copies from. */
PROPANE_CHECK propane_status cpu_plan_channels_result(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                                      propane_error *err);
/* A constant of that many floats, zeros, to be filled now. */
PROPANE_CHECK propane_status cpu_plan_channels_constant(planner *p, int64_t floats, float **out, cpu_plan_ref *at,
                                                        propane_error *err);

PROPANE_CHECK propane_status cpu_conv_emit_direct(planner *p, const cpu_plan_layer *l, propane_error *err);
/* 3x3 convolutions of stride 1 by minimal filtering, where that pays; all three in channels-last form. */
bool cpu_conv_winograd_pays(const mil_conv *c);
PROPANE_CHECK propane_status cpu_conv_emit_winograd(planner *p, const cpu_plan_layer *l, const mil_conv *c,
                                                    const cpu_view *x, const cpu_view *other, const cpu_view *y,
                                                    propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_depthwise(planner *p, const cpu_plan_layer *l, propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_pool(planner *p, const mil_op *op, propane_error *err);
/* A convolution and the depthwise one behind it, with or without a 1x1 convolution (`last`), as one step. */
bool cpu_conv_bottleneck_pays(const planner *p, const mil_conv *first, const mil_conv *window, bool last);
PROPANE_CHECK propane_status cpu_conv_emit_bottleneck(planner *p, const cpu_plan_layer *l, propane_error *err);

#endif
