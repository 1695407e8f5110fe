/* SPDX-License-Identifier: MIT
 * From operations to nodes. Two nodes become one when both are tile programs over the same iteration space (or one works
 * on the other's reduced values) and nothing outside lies on a way from one to the other: then one step can do the work
 * of both. Products take the sum behind them and the casts before them. The nodes are then ordered: operands first,
 * otherwise as in the text.
 */
#include <assert.h>
#include <string.h>

#include "drivers/cpu/cpu_program.h"
#include "drivers/cpu/fuse/fuse.h"
#include "drivers/cpu/loop/loop_draft.h"
#include "drivers/cpu/plan/facts.h"
#include "drivers/cpu/plan/table.h"
#include "drivers/cpu/signed_rows.h"

#define MAX_OPS_A_NODE 48

/* ---- shapes ------------------------------------------------------------------------------------------------------------ */

static mil_type reduced_shape(const mil_type *shape, unsigned axes) {
    mil_type out = *shape;
    for (int d = 0; d < out.rank; d++)
        if (axes >> d & 1) out.dim[d] = 1;
    return out;
}

/* Iteration space of both together; false: they have none in common. */
static bool joint_space(const cpu_node *a, const cpu_node *b, mil_type *shape, unsigned *axes) {
    if (mil_shape_equal(&a->shape, &b->shape)) {
        if (a->axes && b->axes && a->axes != b->axes) return false;
        *shape = a->shape;
        *axes = a->axes | b->axes;
        return true;
    }
    for (int turn = 0; turn < 2; turn++) {
        const cpu_node *large = turn ? b : a, *small = turn ? a : b;
        if (!large->axes || small->axes) continue;
        mil_type reduced = reduced_shape(&large->shape, large->axes);
        if (!mil_shape_equal(&reduced, &small->shape)) continue;
        *shape = large->shape;
        *axes = large->axes;
        return true;
    }
    return false;
}

/* ---- cycles ------------------------------------------------------------------------------------------------------------ */

typedef struct search {
    cpu_graph *g;
    int *stack, *seen, mark;
} search;

/* Pushes what the node's operations read; true: among it is `a` or `b` (and the node is neither). */
static bool push_operands(search *s, int node, int a, int b, int *depth) {
    cpu_graph *g = s->g;
    bool inside = node == a || node == b;
    for (int i = 0; i < g->nodes[node].op_count; i++) {
        const mil_op *op = g->nodes[node].ops[i];
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++) {
                int m = cpu_graph_maker(g, op->operands[k].values[j]);
                if (m < 0) continue;
                int n = g->node_of[m];
                if (n == a || n == b) {
                    if (!inside) return true;
                    continue;
                }
                if (s->seen[n] == s->mark) continue;
                s->seen[n] = s->mark;
                s->stack[(*depth)++] = n;
            }
    }
    return false;
}

/* Whether a third node lies on a way between the two. */
static bool path_outside(search *s, int a, int b) {
    int depth = 0;
    s->mark++;
    if (push_operands(s, a, a, b, &depth) || push_operands(s, b, a, b, &depth)) return true;
    while (depth > 0)
        if (push_operands(s, s->stack[--depth], a, b, &depth)) return true;
    return false;
}

/* ---- merging ----------------------------------------------------------------------------------------------------------- */

/* Whether something in the joint space needs a whole reduction before it goes over the elements again. */
static bool two_phases(cpu_graph *g, const cpu_node *a, const cpu_node *b, const mil_type *shape) {
    const cpu_node *both[2] = {a, b};
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < both[n]->op_count; i++) {
            const mil_op *op = both[n]->ops[i];
            if (cpu_family_of(op) == CPU_FAMILY_softmax) return true;
            if (cpu_plan_tile_axes(op) && cpu_code_of(op) == CPU_FOLD_log_sum_exp) return true;
            if (cpu_plan_tile_axes(op) || !mil_shape_equal(&op->results[0]->type, shape)) continue;
            for (int k = 0; k < op->info->param_count; k++)
                for (int j = 0; j < op->operands[k].count; j++) {
                    const mil_value *v = op->operands[k].values[j];
                    int m = cpu_graph_maker(g, v);
                    if (m < 0 || mil_shape_equal(&v->type, shape)) continue;
                    int home = g->node_of[m];
                    if (&g->nodes[home] == a || &g->nodes[home] == b) return true;
                }
        }
    return false;
}

/* Values that pass from one operation of the pair to another must have the shape of the space or of its reduced values,
 * rank included: a reduction that drops its axes broadcasts along other ones. */
static bool operands_fit(const cpu_graph *g, int a, int b, const mil_type *shape, unsigned axes) {
    mil_type reduced = reduced_shape(shape, axes);
    for (int n = 0; n < 2; n++) {
        const cpu_node *node = &g->nodes[n ? b : a];
        for (int i = 0; i < node->op_count; i++) {
            const bool picks = cpu_signed_rows_is(node->ops[i]);
            for (int k = 0; k < node->ops[i]->info->param_count; k++)
                for (int j = 0; j < node->ops[i]->operands[k].count; j++) {
                    const mil_value *v = node->ops[i]->operands[k].values[j];
                    int m = cpu_graph_maker(g, v);
                    if (m < 0 || (g->node_of[m] != a && g->node_of[m] != b)) continue;
                    if (picks) return false; /* other lines than the tile at hand has */
                    if (!mil_shape_equal(&v->type, shape) && !mil_shape_equal(&v->type, &reduced)) return false;
                }
        }
    }
    return true;
}

static propane_status merge(cpu_graph *g, int into, int from, const mil_type *shape, unsigned axes,
                            propane_error *err) {
    cpu_node *a = &g->nodes[into], *b = &g->nodes[from];
    mil_op **ops = ARENA_ARRAY(g->work, a->op_count + b->op_count, mil_op *);
    if (!ops) return cpu_program_no_memory(err);
    int i = 0, j = 0, n = 0;
    while (i < a->op_count || j < b->op_count) {
        bool left =
            j == b->op_count || (i < a->op_count && cpu_graph_index(g, a->ops[i]) < cpu_graph_index(g, b->ops[j]));
        ops[n++] = left ? a->ops[i++] : b->ops[j++];
    }
    for (int k = 0; k < b->op_count; k++) g->node_of[cpu_graph_index(g, b->ops[k])] = into;
    a->ops = ops;
    a->op_count = n;
    a->shape = *shape;
    a->axes = axes;
    a->last = cpu_graph_index(g, ops[n - 1]);
    b->dead = true;
    b->op_count = 0;
    return PROPANE_OK;
}

static propane_status try_merge(cpu_graph *g, search *s, int into, int from, propane_error *err) {
    cpu_node *a = &g->nodes[into], *b = &g->nodes[from];
    mil_type shape;
    unsigned axes;
    if (a->kind != CPU_NODE_TILE || b->kind != CPU_NODE_TILE) return PROPANE_OK;
    if (a->op_count + b->op_count > MAX_OPS_A_NODE || !joint_space(a, b, &shape, &axes)) return PROPANE_OK;
    if (axes && !cpu_loop_fits(&shape, axes) && two_phases(g, a, b, &shape)) return PROPANE_OK;
    if (axes && (cpu_graph_takes_rows(a) || cpu_graph_takes_rows(b))) return PROPANE_OK;
    if (!operands_fit(g, into, from, &shape, axes) || path_outside(s, into, from)) return PROPANE_OK;
    return merge(g, into, from, &shape, axes, err);
}

/* Each operation in turn with the nodes that make its operands, then with those that read the same operands. */
static propane_status merge_tiles(cpu_graph *g, search *s, propane_error *err) {
    int *reader =
        ARENA_ARRAY(g->work, g->f->value_count + 1, int); /* by value id: 1 + the first operation that reads it */
    if (!reader) return cpu_program_no_memory(err);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < g->op_count; i++) {
            const mil_op *op = g->ops[i];
            for (int k = 0; k < op->info->param_count; k++)
                for (int j = 0; j < op->operands[k].count; j++) {
                    const mil_value *v = op->operands[k].values[j];
                    int other = round ? reader[v->id] - 1 : cpu_graph_maker(g, v);
                    if (round && !v->konst && !reader[v->id] && g->nodes[g->node_of[i]].kind == CPU_NODE_TILE)
                        reader[v->id] = i + 1;
                    if (other < 0 || g->node_of[i] == g->node_of[other]) continue;
                    PROPANE_TRY(try_merge(g, s, g->node_of[other], g->node_of[i], err));
                }
        }
    return PROPANE_OK;
}

/* ---- products ---------------------------------------------------------------------------------------------------------- */

static const mil_op *only_user(const cpu_graph *g, const mil_value *v) {
    if (g->uses[v->id] != 1) return NULL;
    for (int i = g->op_of[v->id] + 1; i < g->op_count; i++) {
        const mil_op *op = g->ops[i];
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++)
                if (op->operands[k].values[j] == v) return op;
    }
    return NULL; /* a result of the function */
}

static propane_status take(cpu_graph *g, int node, const mil_op *op, propane_error *err) {
    int other = g->node_of[cpu_graph_index(g, op)];
    return merge(g, node, other, &g->nodes[node].shape, 0, err);
}

/* The sum over all dimensions of the batch behind a product: its terms can be added up in the accumulators. */
static bool sums_the_batch(const mil_op *op, const mil_value *product) {
    if (op->info->code != MIL_OP_reduce_sum || product->type.rank < 3 || product->type.dtype != MIL_fp32) return false;
    unsigned batch = (1u << (product->type.rank - 2)) - 1;
    unsigned axes = cpu_plan_tile_axes(op);
    for (int d = 0; d < product->type.rank - 2; d++)
        if (product->type.dim[d] == 1) batch &= ~(1u << d), axes &= ~(1u << d);
    return batch && axes == batch;
}

static bool adds_same_shape(const mil_op *op) {
    if (op->info->code != MIL_OP_add) return false;
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    return x != y && mil_type_equal(&x->type, &y->type);
}

static bool is_taken(const cpu_graph *g, const mil_op *op) {
    cpu_node_kind kind = g->nodes[g->node_of[cpu_graph_index(g, op)]].kind;
    return kind == CPU_NODE_GEMM || kind == CPU_NODE_ATTENTION || kind == CPU_NODE_FUSED_CONV;
}

/* The sum of all squares of the product's result, or of another shape of it. */
static const mil_op *squares_of(const cpu_graph *g, const mil_value *v) {
    for (int i = g->op_of[v->id] + 1; i < g->op_count; i++) {
        const mil_op *op = g->ops[i];
        if (op->info->param_count == 0 || op->operands[0].count != 1 || op->operands[0].values[0] != v) continue;
        if (op->info->code == MIL_OP_reduce_sum_square && mil_type_count(&op->results[0]->type) == 1) return op;
        const mil_op *behind = cpu_plan_keeps_order(op) ? squares_of(g, op->results[0]) : NULL;
        if (behind) return behind;
    }
    return NULL;
}

static void take_squares(cpu_graph *g, cpu_node *node, const mil_op *product, const mil_value *result) {
    const mil_type *t = &(node->folded ? node->folded : product)->results[0]->type;
    if (product->info->code != MIL_OP_matmul || t->rank < 2 || result->type.dtype != MIL_fp32) return;
    if (mil_type_count(t) != t->dim[t->rank - 1] * t->dim[t->rank - 2]) return; /* a batch */
    node->squares = squares_of(g, result);
    if (node->squares) g->nodes[g->node_of[cpu_graph_index(g, node->squares)]].kind = CPU_NODE_ABSORBED;
}

/* What is done to a product's result while it is there: the sum over the batch, then the sum with something else. Becomes
 * the last value that the node makes. */
static propane_status take_sums(cpu_graph *g, int index, const mil_op *op, const mil_value **result,
                                propane_error *err) {
    cpu_node *node = &g->nodes[index];
    const mil_value *v = op->results[0];
    const mil_op *user = only_user(g, v);
    if (user && op->info->code == MIL_OP_matmul && sums_the_batch(user, v)) {
        PROPANE_TRY(take(g, index, user, err));
        node->folded = user;
        v = user->results[0];
        user = only_user(g, v);
    }
    *result = v;
    if (op->info->code != MIL_OP_matmul && mil_in(op, "bias")) return PROPANE_OK; /* the bias has taken that place */
    const mil_op *add = user;
    while (add && cpu_plan_keeps_order(add)) add = only_user(g, add->results[0]);
    /* the first of two products takes their sum */
    if (!add || !adds_same_shape(add) || is_taken(g, add)) return PROPANE_OK;
    for (; user != add; user = only_user(g, user->results[0])) PROPANE_TRY(take(g, index, user, err));
    PROPANE_TRY(take(g, index, add, err));
    node->added = add;
    *result = add->results[0];
    return PROPANE_OK;
}

static propane_status fuse_products(cpu_graph *g, propane_error *err) {
    for (int i = 0; i < g->op_count; i++) {
        const mil_op *op = g->ops[i];
        cpu_node *node = &g->nodes[g->node_of[i]];
        if (!cpu_plan_is_product(op) || node->kind == CPU_NODE_ATTENTION || node->kind == CPU_NODE_FUSED_CONV) continue;
        node->kind = CPU_NODE_GEMM;
        if (!g->options.fuse || g->options.round_each) continue;
        const mil_value *result = NULL;
        PROPANE_TRY(take_sums(g, g->node_of[i], op, &result, err));
        take_squares(g, node, op, result);
    }
    return PROPANE_OK;
}

/* fp16 to fp32 in front of products alone: they read fp16 as it is. */
static void absorb_casts(cpu_graph *g) {
    for (int i = 0; i < g->op_count && g->options.fuse; i++) {
        const mil_op *op = g->ops[i];
        if (op->info->code != MIL_OP_cast) continue;
        const mil_value *from = mil_in(op, "x"), *to = op->results[0];
        if (from->type.dtype != MIL_fp16 || to->type.dtype != MIL_fp32 || from->konst) continue;
        int by_products = 0;
        for (int j = i + 1; j < g->op_count; j++)
            for (int k = 0; cpu_plan_is_product(g->ops[j]) && k < 2; k++)
                by_products += g->ops[j]->operands[k].count == 1 && g->ops[j]->operands[k].values[0] == to;
        if (!by_products || by_products != g->uses[to->id]) continue;
        g->absorbed[to->id] = true;
        g->nodes[g->node_of[i]].kind = CPU_NODE_ABSORBED;
    }
}

/* ---- the stage --------------------------------------------------------------------------------------------------------- */

propane_status cpu_fuse(cpu_graph *g, propane_error *err) {
    search s = {.g = g};
    s.stack = ARENA_ARRAY(g->work, g->op_count + 1, int);
    s.seen = ARENA_ARRAY(g->work, g->op_count + 1, int);
    if (!s.stack || !s.seen) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_fuse_causal_bands(g, err));
    if (g->options.fuse && !g->options.round_each) PROPANE_TRY(cpu_fuse_attention(g, err));
    if (g->options.fuse) PROPANE_TRY(cpu_fuse_convs(g, err));
    PROPANE_TRY(cpu_fuse_quantized_weights(g, err));
    absorb_casts(g);
    PROPANE_TRY(fuse_products(g, err));
    return g->options.fuse ? merge_tiles(g, &s, err) : PROPANE_OK;
}
