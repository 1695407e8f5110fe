/* SPDX-License-Identifier: MIT
 * Declarations shared by the emitters of channels-last layers (emit_conv_nhwc.c, emit_conv_direct.c,
 * emit_conv_bottleneck.c).
 */
#ifndef CPU_OPS_EMIT_CONV_NHWC_H
#define CPU_OPS_EMIT_CONV_NHWC_H

#include "cpu/conv/conv.h"
#include "cpu/plan/emit.h"
#include "cpu/plan/facts.h"

double cpu_conv_flops(const mil_conv *c);
/* Sets *out to the end of a layer: its function, and its bias for `channels`, padded to a multiple of `multiple`. */
PROPANE_CHECK propane_status cpu_conv_plan_end(planner *p, const cpu_fused_conv *l, int64_t channels, int64_t multiple,
                                               cpu_conv_end *out, propane_error *err);
/* Plans everything except the addresses, which the caller sets. Only the strides of `x`, `other` (NULL if there is
 * none) and `y` are used. */
PROPANE_CHECK propane_status cpu_conv_plan_direct(planner *p, const cpu_fused_conv *l, const mil_conv *c,
                                                  const cpu_view *x, const cpu_view *other, const cpu_view *y,
                                                  cpu_conv_direct *a, propane_error *err);
/* Packs weights and bias. The caller sets the addresses and strides of the image and the results. */
PROPANE_CHECK propane_status cpu_conv_plan_depthwise(planner *p, const cpu_fused_conv *l, cpu_conv_window *a,
                                                     propane_error *err);

PROPANE_CHECK propane_status cpu_conv_emit_direct(planner *p, const cpu_fused_conv *l, propane_error *err);
/* The operands are channels-last. */
PROPANE_CHECK propane_status cpu_conv_emit_winograd(planner *p, const cpu_fused_conv *l, const mil_conv *c,
                                                    const cpu_view *x, const cpu_view *other, const cpu_view *y,
                                                    propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_depthwise(planner *p, const cpu_fused_conv *l, propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_pool(planner *p, const mil_op *op, propane_error *err);
PROPANE_CHECK propane_status cpu_conv_emit_bottleneck(planner *p, const cpu_fused_conv *l, propane_error *err);

#endif
