/* SPDX-License-Identifier: MIT
 * Which layers become one step (conv_bottleneck.c): a convolution whose results only a depthwise one reads, that one, and a
 * 1x1 convolution that alone reads its results (the convolution's own may be added to that one's), or else the mean of each
 * channel of them. Works on the layers that fuse_conv.c has found.
 */
#include "drivers/cpu/fuse/fuse_conv.h"

enum { MOST_READERS = 4 };

/* The convolution that makes the value, alone in its node; NULL: something else does. */
static const cpu_plan_layer *layer_of(const planner *p, const mil_value *v) {
    if (v->konst || p->op_of[v->id] < 0) return NULL;
    const cpu_plan_node *n = &p->nodes[p->node_of[p->op_of[v->id]]];
    if (n->kind != CPU_PLAN_NODE_LAYER || n->layer->first || n->layer->op->info->code != MIL_OP_conv) return NULL;
    return n->layer->result == v ? n->layer : NULL;
}

static bool is_mean(const planner *p, const mil_op *op) {
    if (op->info->code != MIL_OP_reduce_mean || !cpu_plan_op_is_free(p, op)) return false;
    return cpu_plan_tile_axes(op) == (1u << 2 | 1u << 3) && op->results[0]->type.dtype == MIL_fp32;
}

/* A 1x1 convolution of each point that reads `v`. */
static const cpu_plan_layer *projection(const planner *p, const mil_op *op, const mil_value *v) {
    mil_conv c;
    const cpu_plan_node *n = &p->nodes[p->node_of[p->op_of[op->results[0]->id]]];
    if (n->kind != CPU_PLAN_NODE_LAYER || n->layer->first || n->layer->op != op || n->layer->depthwise) return NULL;
    if (n->layer->x != v || n->layer->other == v || !cpu_plan_is_image_conv(op, &c)) return NULL;
    for (int d = 0; d < 2; d++)
        if (c.kernel[d] != 1 || c.stride[d] != 1 || c.before[d] || c.after[d]) return NULL;
    return n->layer;
}

/* All operations of the nodes to the first of them. */
static propane_status join(planner *p, const mil_op *const *nodes, int count, const cpu_plan_layer *layer,
                           propane_error *err) {
    const int into = p->node_of[p->op_of[nodes[0]->results[0]->id]];
    int total = 0, most = 0;
    for (int i = 0; i < count; i++) total += p->nodes[p->node_of[p->op_of[nodes[i]->results[0]->id]]].op_count;
    mil_op **ops = ARENA_ARRAY(p->work, total, mil_op *);
    if (!ops) return cpu_plan_no_memory(p, err);
    total = 0;
    for (int i = 0; i < count; i++) {
        cpu_plan_node *n = &p->nodes[p->node_of[p->op_of[nodes[i]->results[0]->id]]];
        for (int k = 0; k < n->op_count; k++) {
            int at = total++;
            const int place = p->op_of[n->ops[k]->results[0]->id];
            for (; at > 0 && p->op_of[ops[at - 1]->results[0]->id] > place; at--) ops[at] = ops[at - 1];
            ops[at] = n->ops[k];
            if (place > most) most = place;
        }
        n->dead = true;
        n->op_count = 0;
    }
    for (int i = 0; i < total; i++) p->node_of[p->op_of[ops[i]->results[0]->id]] = into;
    p->nodes[into] =
        (cpu_plan_node){.kind = CPU_PLAN_NODE_LAYER, .op_count = total, .ops = ops, .last = most, .layer = layer};
    return PROPANE_OK;
}

static propane_status try_block(planner *p, const mil_op *op, const cpu_plan_layer *window, propane_error *err) {
    const cpu_plan_layer *first = layer_of(p, window->x), *last = NULL;
    const mil_op *users[MOST_READERS], *nodes[3] = {first ? first->op : NULL, op};
    mil_conv c, w;
    if (!first || first->depthwise || first->other || !cpu_plan_is_image_conv(first->op, &c)) return PROPANE_OK;
    if (cpu_conv_winograd_pays(&c) || !cpu_plan_is_image_conv(op, &w)) return PROPANE_OK;
    const int behind = cpu_plan_readers(p, window->result, users, MOST_READERS);
    if (behind == 1) last = projection(p, users[0], window->result);
    if (last && !cpu_conv_bottleneck_pays(p, &c, &w, true)) last = NULL;
    const mil_op *mean = NULL;
    for (int i = 0; i < behind && !last && !mean; i++)
        if (is_mean(p, users[i])) mean = users[i];
    const bool adds = last && last->other == first->result;
    if (cpu_plan_readers(p, first->result, users, MOST_READERS) != 1 + adds) return PROPANE_OK;
    if (!last && !cpu_conv_bottleneck_pays(p, &c, &w, false)) return PROPANE_OK;
    cpu_plan_layer *all = arena_copy(p->work, window, sizeof *window);
    if (!all) return cpu_plan_no_memory(p, err);
    all->first = first;
    all->last = last;
    all->mean = mean ? mean->results[0] : NULL;
    nodes[2] = last ? last->op : mean;
    return join(p, nodes, 2 + (nodes[2] != NULL), all, err);
}

propane_status cpu_plan_find_blocks(planner *p, propane_error *err) {
    for (int i = 0; i < p->op_count; i++) {
        const cpu_plan_node *n = &p->nodes[p->node_of[i]];
        if (n->kind != CPU_PLAN_NODE_LAYER || n->layer->first || !n->layer->depthwise || n->layer->op != p->ops[i])
            continue;
        PROPANE_TRY(try_block(p, p->ops[i], n->layer, err));
    }
    return PROPANE_OK;
}
