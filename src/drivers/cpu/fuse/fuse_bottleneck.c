/* SPDX-License-Identifier: MIT
 * Which layers become one step (conv_bottleneck.c): a convolution whose results only a depthwise one reads, that one, and a
 * 1x1 convolution that alone reads its results (the convolution's own may be added to that one's), or else the mean of each
 * channel of them. Works on the layers that fuse_conv.c has found.
 */
#include "drivers/cpu/conv/conv_layers.h"
#include "drivers/cpu/cpu_program.h"
#include "drivers/cpu/fuse/fuse.h"
#include "drivers/cpu/plan/facts.h"

enum { MOST_READERS = 4 };

/* The convolution that makes the value, alone in its node; NULL: something else does. */
static const cpu_fused_conv *layer_of(const cpu_graph *g, const mil_value *v) {
    if (v->konst || g->op_of[v->id] < 0) return NULL;
    const cpu_node *n = &g->nodes[g->node_of[g->op_of[v->id]]];
    if (n->kind != CPU_NODE_FUSED_CONV || n->conv->first || n->conv->op->info->code != MIL_OP_conv) return NULL;
    return n->conv->result == v ? n->conv : NULL;
}

static bool is_mean(const cpu_graph *g, const mil_op *op) {
    if (op->info->code != MIL_OP_reduce_mean || !cpu_graph_is_free(g, op)) return false;
    return cpu_plan_tile_axes(op) == (1u << 2 | 1u << 3) && op->results[0]->type.dtype == MIL_fp32;
}

/* A 1x1 convolution of each point that reads `v`. */
static const cpu_fused_conv *projection(const cpu_graph *g, const mil_op *op, const mil_value *v) {
    mil_conv c;
    const cpu_node *n = &g->nodes[g->node_of[g->op_of[op->results[0]->id]]];
    if (n->kind != CPU_NODE_FUSED_CONV || n->conv->first || n->conv->op != op || n->conv->depthwise) return NULL;
    if (n->conv->x != v || n->conv->other == v || !cpu_plan_is_image_conv(op, &c)) return NULL;
    for (int d = 0; d < 2; d++)
        if (c.kernel[d] != 1 || c.stride[d] != 1 || c.before[d] || c.after[d]) return NULL;
    return n->conv;
}

/* All operations of the nodes to the first of them. */
static propane_status join(cpu_graph *g, const mil_op *const *nodes, int count, const cpu_fused_conv *layer,
                           propane_error *err) {
    const int into = g->node_of[g->op_of[nodes[0]->results[0]->id]];
    int total = 0, most = 0;
    for (int i = 0; i < count; i++) total += g->nodes[g->node_of[g->op_of[nodes[i]->results[0]->id]]].op_count;
    mil_op **ops = ARENA_ARRAY(g->work, total, mil_op *);
    if (!ops) return cpu_program_no_memory(err);
    total = 0;
    for (int i = 0; i < count; i++) {
        cpu_node *n = &g->nodes[g->node_of[g->op_of[nodes[i]->results[0]->id]]];
        for (int k = 0; k < n->op_count; k++) {
            int at = total++;
            const int place = g->op_of[n->ops[k]->results[0]->id];
            for (; at > 0 && g->op_of[ops[at - 1]->results[0]->id] > place; at--) ops[at] = ops[at - 1];
            ops[at] = n->ops[k];
            if (place > most) most = place;
        }
        n->dead = true;
        n->op_count = 0;
    }
    for (int i = 0; i < total; i++) g->node_of[g->op_of[ops[i]->results[0]->id]] = into;
    g->nodes[into] =
        (cpu_node){.kind = CPU_NODE_FUSED_CONV, .op_count = total, .ops = ops, .last = most, .conv = layer};
    return PROPANE_OK;
}

static propane_status try_block(cpu_graph *g, const mil_op *op, const cpu_fused_conv *window, propane_error *err) {
    const cpu_fused_conv *first = layer_of(g, window->x), *last = NULL;
    const mil_op *users[MOST_READERS], *nodes[3] = {first ? first->op : NULL, op};
    mil_conv c, w;
    if (!first || first->depthwise || first->other || !cpu_plan_is_image_conv(first->op, &c)) return PROPANE_OK;
    if (cpu_conv_winograd_pays(&c) || !cpu_plan_is_image_conv(op, &w)) return PROPANE_OK;
    const int behind = cpu_graph_readers(g, window->result, users, MOST_READERS);
    if (behind == 1) last = projection(g, users[0], window->result);
    if (last && !cpu_conv_bottleneck_pays(g->options.isa, g->threads, &c, &w, true)) last = NULL;
    const mil_op *mean = NULL;
    for (int i = 0; i < behind && !last && !mean; i++)
        if (is_mean(g, users[i])) mean = users[i];
    const bool adds = last && last->other == first->result;
    if (cpu_graph_readers(g, first->result, users, MOST_READERS) != 1 + adds) return PROPANE_OK;
    if (!last && !cpu_conv_bottleneck_pays(g->options.isa, g->threads, &c, &w, false)) return PROPANE_OK;
    cpu_fused_conv *all = arena_copy(g->work, window, sizeof *window);
    if (!all) return cpu_program_no_memory(err);
    all->first = first;
    all->last = last;
    all->mean = mean ? mean->results[0] : NULL;
    nodes[2] = last ? last->op : mean;
    return join(g, nodes, 2 + (nodes[2] != NULL), all, err);
}

propane_status cpu_fuse_bottlenecks(cpu_graph *g, propane_error *err) {
    for (int i = 0; i < g->op_count; i++) {
        const cpu_node *n = &g->nodes[g->node_of[i]];
        if (n->kind != CPU_NODE_FUSED_CONV || n->conv->first || !n->conv->depthwise || n->conv->op != g->ops[i])
            continue;
        PROPANE_TRY(try_block(g, g->ops[i], n->conv, err));
    }
    return PROPANE_OK;
}
