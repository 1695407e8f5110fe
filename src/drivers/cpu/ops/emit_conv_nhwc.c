/* SPDX-License-Identifier: MIT
 * Layers with constant weights (fuse_conv.c) as steps of the channels-last kernels (conv_ukernel.h): what the kinds of layers share.
 */
#include "drivers/cpu/conv/conv_layers.h"
#include "drivers/cpu/ops/emitters.h"

cpu_conv_finish cpu_plan_finish_of(const cpu_fused_conv *l) {
    return (cpu_conv_finish){l->swish, (float)l->least, (float)l->p, (float)l->q, (float)l->low, (float)l->high};
}

propane_status cpu_conv_plan_end(planner *p, const cpu_fused_conv *l, int64_t channels, int64_t multiple,
                                 cpu_conv_end *out, propane_error *err) {
    const mil_value *bias = mil_in(l->op, "bias");
    float *to;
    out->finish = cpu_plan_finish_of(l);
    out->map = l->map >= 0 ? p->g.options.kernels->elementwise.unary[l->map] : NULL;
    out->p = (float)l->p, out->q = (float)l->q;
    if (!bias) return PROPANE_OK;
    out->has_bias = true;
    PROPANE_TRY(cpu_emit_constant(p, (channels + multiple - 1) / multiple * multiple, &to, &out->bias, err));
    const int64_t step = mil_type_count(&bias->type) == 1 ? 0 : 1; /* one for all is allowed */
    for (int64_t c = 0; c < channels; c++) to[c] = ((const float *)bias->konst->data)[c * step];
    return PROPANE_OK;
}

propane_status cpu_emit_fused_conv(planner *p, const cpu_node *node, propane_error *err) {
    if (node->conv->first) return cpu_conv_emit_bottleneck(p, node->conv, err);
    if (node->conv->depthwise) return cpu_conv_emit_depthwise(p, node->conv, err);
    return cpu_conv_emit_direct(p, node->conv, err);
}
