/* SPDX-License-Identifier: MIT
 * Owns the choice of images with adjacent channels in memory: the results of layers with constant weights
 * (fuse_conv.c), and of elementwise operations and pools after them. Other readers of such an image use its strides, as
 * with any other view, or copy it.
 */
#include "cpu/plan/facts.h"
#include "cpu/plan/plan_stages.h"

static bool plan_channels_lies_so(const planner *p, const mil_value *v) {
    return !v->constant && p->is_placed[v->id] && cpu_view_is_channels_last(&p->placed[v->id]);
}

static propane_status plan_channels_place(planner *p, const mil_value *v, propane_error *err) {
    if (p->is_placed[v->id] || v->constant || v->type.rank != 4 || v->type.dtype != MIL_fp32) return PROPANE_OK;
    if (v->type.dim[1] < 2 || v->type.dim[2] * v->type.dim[3] < 2) return PROPANE_OK;
    int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, mil_type_count(&v->type) * cpu_view_dtype_bytes(MIL_fp32));
    if (b < 0) return cpu_program_no_memory(err);
    p->placed[v->id] = cpu_view_channels_last(&v->type, b);
    p->is_placed[v->id] = true;
    return PROPANE_OK;
}

/* Places those results of a fused loop that have its full shape, if it reads such an image with this shape. */
static propane_status plan_channels_place_tile(planner *p, const cpu_node *n, propane_error *err) {
    bool reads = false;
    for (int i = 0; i < n->op_count; i++)
        MIL_FOR_OPERANDS (n->ops[i], v) reads |= plan_channels_lies_so(p, v) && mil_shape_equal(&v->type, &n->shape);
    for (int i = 0; i < n->op_count && reads; i++)
        if (mil_shape_equal(&n->ops[i]->results[0]->type, &n->shape))
            PROPANE_TRY(plan_channels_place(p, n->ops[i]->results[0], err));
    return PROPANE_OK;
}

propane_status cpu_plan_place_channels(planner *p, propane_error *err) {
    for (int i = 0; i < p->g.order_count; i++) {
        const cpu_node *n = &p->g.nodes[p->g.order[i]];
        mil_conv c;
        if (n->kind == CPU_NODE_FUSED_CONV && n->conv->op->info->code == MIL_OP_conv)
            PROPANE_TRY(plan_channels_place(p, n->conv->last ? n->conv->last->result : n->conv->result, err));
        else if (n->kind == CPU_NODE_TILE)
            PROPANE_TRY(plan_channels_place_tile(p, n, err));
        else if (n->kind == CPU_NODE_OP && cpu_plan_is_image_pool(n->ops[0], &c) &&
                 plan_channels_lies_so(p, mil_in(n->ops[0], "x")))
            PROPANE_TRY(plan_channels_place(p, n->ops[0]->results[0], err));
    }
    return PROPANE_OK;
}
