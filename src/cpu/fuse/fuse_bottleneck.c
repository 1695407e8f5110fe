/* SPDX-License-Identifier: MIT
 * Decides which layers become one step (conv_bottleneck.c). A step begins with a convolution whose results only a
 * depthwise convolution reads, and with that depthwise convolution. It may end with the mean of each channel, or with a
 * 1x1 convolution that is the only reader of the depthwise results and may add the results of the first convolution.
 * The rule uses the layers that fuse_conv.c has found.
 */
#include "cpu/conv/conv.h"
#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"

enum { MOST_READERS = 4 };

/* Returns the convolution that makes the value and is alone in its node; NULL if something else makes it. */
static const cpu_fused_conv *fuse_bottleneck_layer_of(const cpu_graph *g, const mil_value *v) {
    if (v->constant || g->op_of[v->id] < 0) return NULL;
    const cpu_node *n = &g->nodes[g->node_of[g->op_of[v->id]]];
    if (n->kind != CPU_NODE_FUSED_CONV || n->conv->first || n->conv->op->info->code != MIL_OP_conv) return NULL;
    return n->conv->result == v ? n->conv : NULL;
}

static bool fuse_bottleneck_is_mean(const cpu_graph *g, const mil_op *op) {
    if (op->info->code != MIL_OP_reduce_mean || !cpu_graph_is_free(g, op)) return false;
    return cpu_plan_tile_axes(op) == (1u << 2 | 1u << 3) && op->results[0]->type.dtype == MIL_fp32;
}

/* Returns the layer of `op` if it is a 1x1 convolution of `v` with stride 1, else NULL. */
static const cpu_fused_conv *fuse_bottleneck_projection(const cpu_graph *g, const mil_op *op, const mil_value *v) {
    mil_conv c;
    const cpu_node *n = &g->nodes[g->node_of[g->op_of[op->results[0]->id]]];
    if (n->kind != CPU_NODE_FUSED_CONV || n->conv->first || n->conv->op != op || n->conv->depthwise) return NULL;
    if (n->conv->x != v || n->conv->other == v || !cpu_plan_is_image_conv(op, &c)) return NULL;
    for (int d = 0; d < 2; d++)
        if (c.kernel[d] != 1 || c.stride[d] != 1 || c.before[d] || c.after[d]) return NULL;
    return n->conv;
}

static propane_status fuse_bottleneck_take_block(cpu_graph *g, const mil_op *op, const cpu_fused_conv *window,
                                                 bool *fired, propane_error *err) {
    const cpu_fused_conv *first = fuse_bottleneck_layer_of(g, window->x), *last = NULL;
    const mil_op *users[MOST_READERS], *nodes[3] = {first ? first->op : NULL, op};
    mil_conv c, w;
    if (!first || first->depthwise || first->other || !cpu_plan_is_image_conv(first->op, &c)) return PROPANE_OK;
    if (cpu_conv_winograd_pays(&c) || !cpu_plan_is_image_conv(op, &w)) return PROPANE_OK;
    const int behind = cpu_graph_readers(g, window->result, users, MOST_READERS);
    if (behind == 1) last = fuse_bottleneck_projection(g, users[0], window->result);
    if (last && !cpu_conv_bottleneck_pays(g->options.kernels, g->threads, &c, &w, true)) last = NULL;
    const mil_op *mean = NULL;
    for (int i = 0; i < behind && !last && !mean; i++)
        if (fuse_bottleneck_is_mean(g, users[i])) mean = users[i];
    const bool adds = last && last->other == first->result;
    if (cpu_graph_readers(g, first->result, users, MOST_READERS) != 1 + adds) return PROPANE_OK;
    if (!last && !cpu_conv_bottleneck_pays(g->options.kernels, g->threads, &c, &w, false)) return PROPANE_OK;
    cpu_fused_conv *all = arena_copy(g->work, window, sizeof *window);
    if (!all) return cpu_program_no_memory(err);
    all->first = first;
    all->last = last;
    all->mean = mean ? mean->results[0] : NULL;
    nodes[2] = last ? last->op : mean;
    cpu_node *node = cpu_graph_merge(g, nodes, 2 + (nodes[2] != NULL));
    if (!node) return cpu_program_no_memory(err);
    node->kind = CPU_NODE_FUSED_CONV;
    node->conv = all;
    *fired = true;
    return PROPANE_OK;
}

static propane_status fuse_bottleneck_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const cpu_node *n = &g->nodes[g->node_of[i]];
    if (n->kind != CPU_NODE_FUSED_CONV || n->conv->first || !n->conv->depthwise || n->conv->op != g->ops[i])
        return PROPANE_OK;
    return fuse_bottleneck_take_block(g, g->ops[i], n->conv, fired, err);
}

const cpu_fuse_rule cpu_fuse_bottleneck = {
    .name = "bottleneck", .not_with = CPU_FUSE_NOT_ROUNDED | CPU_FUSE_NOT_BF16, .apply = fuse_bottleneck_apply};
