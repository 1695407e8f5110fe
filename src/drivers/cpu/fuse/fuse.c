/* SPDX-License-Identifier: MIT
 * From operations to nodes. Two nodes become one when both are tile programs over the same iteration space (or one works
 * on the other's reduced values) and nothing outside lies on a way from one to the other: then one step can do the work
 * of both. Products take the sum behind them and the casts before them. The nodes are then ordered: operands first,
 * otherwise as in the text.
 */
#include <assert.h>
#include <string.h>

#include "drivers/cpu/plan/plan.h"

#define MAX_OPS_A_NODE 48

static int op_index(const planner *p, const mil_op *op) { return p->op_of[op->results[0]->id]; }

/* The operation that makes the value; -1: parameter or constant. */
static int maker(const planner *p, const mil_value *v) { return v->konst ? -1 : p->op_of[v->id]; }

/* ---- shapes ------------------------------------------------------------------------------------------------------------ */

static mil_type reduced_shape(const mil_type *shape, unsigned axes) {
    mil_type out = *shape;
    for (int d = 0; d < out.rank; d++)
        if (axes >> d & 1) out.dim[d] = 1;
    return out;
}

/* Iteration space of both together; false: they have none in common. */
static bool joint_space(const cpu_plan_node *a, const cpu_plan_node *b, mil_type *shape, unsigned *axes) {
    if (mil_shape_equal(&a->shape, &b->shape)) {
        if (a->axes && b->axes && a->axes != b->axes) return false;
        *shape = a->shape;
        *axes = a->axes | b->axes;
        return true;
    }
    for (int turn = 0; turn < 2; turn++) {
        const cpu_plan_node *large = turn ? b : a, *small = turn ? a : b;
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
    planner *p;
    int *stack, *seen, mark;
} search;

/* Pushes what the node's operations read; true: among it is `a` or `b` (and the node is neither). */
static bool push_operands(search *s, int node, int a, int b, int *depth) {
    planner *p = s->p;
    bool inside = node == a || node == b;
    for (int i = 0; i < p->nodes[node].op_count; i++) {
        const mil_op *op = p->nodes[node].ops[i];
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++) {
                int m = maker(p, op->operands[k].values[j]);
                if (m < 0) continue;
                int n = p->node_of[m];
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
static bool two_phases(planner *p, const cpu_plan_node *a, const cpu_plan_node *b, const mil_type *shape) {
    const cpu_plan_node *both[2] = {a, b};
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < both[n]->op_count; i++) {
            const mil_op *op = both[n]->ops[i];
            if (cpu_plan_binding_of(op) == &cpu_bind_softmax) return true;
            if (cpu_plan_tile_axes(op) && cpu_plan_code_of(op) == CPU_FOLD_log_sum_exp) return true;
            if (cpu_plan_tile_axes(op) || !mil_shape_equal(&op->results[0]->type, shape)) continue;
            for (int k = 0; k < op->info->param_count; k++)
                for (int j = 0; j < op->operands[k].count; j++) {
                    const mil_value *v = op->operands[k].values[j];
                    int m = maker(p, v);
                    if (m < 0 || mil_shape_equal(&v->type, shape)) continue;
                    int home = p->node_of[m];
                    if (&p->nodes[home] == a || &p->nodes[home] == b) return true;
                }
        }
    return false;
}

/* Values that pass from one operation of the pair to another must have the shape of the space or of its reduced values,
 * rank included: a reduction that drops its axes broadcasts along other ones. */
static bool operands_fit(const planner *p, int a, int b, const mil_type *shape, unsigned axes) {
    mil_type reduced = reduced_shape(shape, axes);
    for (int n = 0; n < 2; n++) {
        const cpu_plan_node *node = &p->nodes[n ? b : a];
        for (int i = 0; i < node->op_count; i++) {
            const bool picks = cpu_plan_picks_lines(node->ops[i]);
            for (int k = 0; k < node->ops[i]->info->param_count; k++)
                for (int j = 0; j < node->ops[i]->operands[k].count; j++) {
                    const mil_value *v = node->ops[i]->operands[k].values[j];
                    int m = maker(p, v);
                    if (m < 0 || (p->node_of[m] != a && p->node_of[m] != b)) continue;
                    if (picks) return false; /* other lines than the tile at hand has */
                    if (!mil_shape_equal(&v->type, shape) && !mil_shape_equal(&v->type, &reduced)) return false;
                }
        }
    }
    return true;
}

static propane_status merge(planner *p, int into, int from, const mil_type *shape, unsigned axes, propane_error *err) {
    cpu_plan_node *a = &p->nodes[into], *b = &p->nodes[from];
    mil_op **ops = ARENA_ARRAY(p->work, a->op_count + b->op_count, mil_op *);
    if (!ops) return cpu_plan_no_memory(p, err);
    int i = 0, j = 0, n = 0;
    while (i < a->op_count || j < b->op_count) {
        bool left = j == b->op_count || (i < a->op_count && op_index(p, a->ops[i]) < op_index(p, b->ops[j]));
        ops[n++] = left ? a->ops[i++] : b->ops[j++];
    }
    for (int k = 0; k < b->op_count; k++) p->node_of[op_index(p, b->ops[k])] = into;
    a->ops = ops;
    a->op_count = n;
    a->shape = *shape;
    a->axes = axes;
    a->last = op_index(p, ops[n - 1]);
    b->dead = true;
    b->op_count = 0;
    return PROPANE_OK;
}

static propane_status try_merge(planner *p, search *s, int into, int from, propane_error *err) {
    cpu_plan_node *a = &p->nodes[into], *b = &p->nodes[from];
    mil_type shape;
    unsigned axes;
    if (a->kind != CPU_PLAN_NODE_TILE || b->kind != CPU_PLAN_NODE_TILE) return PROPANE_OK;
    if (a->op_count + b->op_count > MAX_OPS_A_NODE || !joint_space(a, b, &shape, &axes)) return PROPANE_OK;
    if (axes && !cpu_plan_tile_fits(&shape, axes) && two_phases(p, a, b, &shape)) return PROPANE_OK;
    if (axes && (cpu_plan_node_picks(a) || cpu_plan_node_picks(b))) return PROPANE_OK;
    if (!operands_fit(p, into, from, &shape, axes) || path_outside(s, into, from)) return PROPANE_OK;
    return merge(p, into, from, &shape, axes, err);
}

/* Each operation in turn with the nodes that make its operands, then with those that read the same operands. */
static propane_status merge_tiles(planner *p, search *s, propane_error *err) {
    int *reader =
        ARENA_ARRAY(p->work, p->f->value_count + 1, int); /* by value id: 1 + the first operation that reads it */
    if (!reader) return cpu_plan_no_memory(p, err);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < p->op_count; i++) {
            const mil_op *op = p->ops[i];
            for (int k = 0; k < op->info->param_count; k++)
                for (int j = 0; j < op->operands[k].count; j++) {
                    const mil_value *v = op->operands[k].values[j];
                    int other = round ? reader[v->id] - 1 : maker(p, v);
                    if (round && !v->konst && !reader[v->id] && p->nodes[p->node_of[i]].kind == CPU_PLAN_NODE_TILE)
                        reader[v->id] = i + 1;
                    if (other < 0 || p->node_of[i] == p->node_of[other]) continue;
                    PROPANE_TRY(try_merge(p, s, p->node_of[other], p->node_of[i], err));
                }
        }
    return PROPANE_OK;
}

/* ---- products ---------------------------------------------------------------------------------------------------------- */

static const mil_op *only_user(const planner *p, const mil_value *v) {
    if (p->uses[v->id] != 1) return NULL;
    for (int i = p->op_of[v->id] + 1; i < p->op_count; i++) {
        const mil_op *op = p->ops[i];
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++)
                if (op->operands[k].values[j] == v) return op;
    }
    return NULL; /* a result of the function */
}

static propane_status take(planner *p, int node, const mil_op *op, propane_error *err) {
    int other = p->node_of[op_index(p, op)];
    return merge(p, node, other, &p->nodes[node].shape, 0, err);
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

static bool is_taken(const planner *p, const mil_op *op) {
    cpu_plan_node_kind kind = p->nodes[p->node_of[op_index(p, op)]].kind;
    return kind == CPU_PLAN_NODE_GEMM || kind == CPU_PLAN_NODE_ATTENTION || kind == CPU_PLAN_NODE_LAYER;
}

/* The sum of all squares of the product's result, or of another shape of it. */
static const mil_op *squares_of(const planner *p, const mil_value *v) {
    for (int i = p->op_of[v->id] + 1; i < p->op_count; i++) {
        const mil_op *op = p->ops[i];
        if (op->info->param_count == 0 || op->operands[0].count != 1 || op->operands[0].values[0] != v) continue;
        if (op->info->code == MIL_OP_reduce_sum_square && mil_type_count(&op->results[0]->type) == 1) return op;
        const mil_op *behind = cpu_plan_keeps_order(op) ? squares_of(p, op->results[0]) : NULL;
        if (behind) return behind;
    }
    return NULL;
}

static void take_squares(planner *p, cpu_plan_node *node, const mil_op *product, const mil_value *result) {
    const mil_type *t = &(node->folded ? node->folded : product)->results[0]->type;
    if (product->info->code != MIL_OP_matmul || t->rank < 2 || result->type.dtype != MIL_fp32) return;
    if (mil_type_count(t) != t->dim[t->rank - 1] * t->dim[t->rank - 2]) return; /* a batch */
    node->squares = squares_of(p, result);
    if (node->squares) p->nodes[p->node_of[op_index(p, node->squares)]].kind = CPU_PLAN_NODE_ABSORBED;
}

/* What is done to a product's result while it is there: the sum over the batch, then the sum with something else. Becomes
 * the last value that the node makes. */
static propane_status take_sums(planner *p, int index, const mil_op *op, const mil_value **result, propane_error *err) {
    cpu_plan_node *node = &p->nodes[index];
    const mil_value *v = op->results[0];
    const mil_op *user = only_user(p, v);
    if (user && op->info->code == MIL_OP_matmul && sums_the_batch(user, v)) {
        PROPANE_TRY(take(p, index, user, err));
        node->folded = user;
        v = user->results[0];
        user = only_user(p, v);
    }
    *result = v;
    if (op->info->code != MIL_OP_matmul && mil_in(op, "bias")) return PROPANE_OK; /* the bias has taken that place */
    const mil_op *add = user;
    while (add && cpu_plan_keeps_order(add)) add = only_user(p, add->results[0]);
    /* the first of two products takes their sum */
    if (!add || !adds_same_shape(add) || is_taken(p, add)) return PROPANE_OK;
    for (; user != add; user = only_user(p, user->results[0])) PROPANE_TRY(take(p, index, user, err));
    PROPANE_TRY(take(p, index, add, err));
    node->added = add;
    *result = add->results[0];
    return PROPANE_OK;
}

static propane_status fuse_products(planner *p, propane_error *err) {
    for (int i = 0; i < p->op_count; i++) {
        const mil_op *op = p->ops[i];
        cpu_plan_node *node = &p->nodes[p->node_of[i]];
        if (!cpu_plan_is_product(op) || node->kind == CPU_PLAN_NODE_ATTENTION || node->kind == CPU_PLAN_NODE_LAYER)
            continue;
        node->kind = CPU_PLAN_NODE_GEMM;
        if (!p->options.fuse || p->options.round_each) continue;
        const mil_value *result = NULL;
        PROPANE_TRY(take_sums(p, p->node_of[i], op, &result, err));
        take_squares(p, node, op, result);
    }
    return PROPANE_OK;
}

/* fp16 to fp32 in front of products alone: they read fp16 as it is. */
static void absorb_casts(planner *p) {
    for (int i = 0; i < p->op_count && p->options.fuse; i++) {
        const mil_op *op = p->ops[i];
        if (op->info->code != MIL_OP_cast) continue;
        const mil_value *from = mil_in(op, "x"), *to = op->results[0];
        if (from->type.dtype != MIL_fp16 || to->type.dtype != MIL_fp32 || from->konst) continue;
        int by_products = 0;
        for (int j = i + 1; j < p->op_count; j++)
            for (int k = 0; cpu_plan_is_product(p->ops[j]) && k < 2; k++)
                by_products += p->ops[j]->operands[k].count == 1 && p->ops[j]->operands[k].values[0] == to;
        if (!by_products || by_products != p->uses[to->id]) continue;
        p->absorbed[to->id] = true;
        p->nodes[p->node_of[i]].kind = CPU_PLAN_NODE_ABSORBED;
    }
}

/* ---- order ---------------------------------------------------------------------------------------------------------------- */

/* Depth first from each node in the order of the text, operands before users; the graph of nodes has no cycles. */
static propane_status order_nodes(planner *p, propane_error *err) {
    int *stack = ARENA_ARRAY(p->work, p->node_count + 1, int);
    int *state = ARENA_ARRAY(p->work, p->node_count + 1, int); /* 0 new, 1 open, 2 done */
    p->order = ARENA_ARRAY(p->work, p->node_count + 1, int);
    if (!stack || !state || !p->order) return cpu_plan_no_memory(p, err);
    for (int i = 0; i < p->op_count; i++) {
        int root = p->node_of[i], depth = 0;
        if (p->nodes[root].last != i || state[root] == 2) continue;
        stack[depth++] = root;
        while (depth > 0) {
            int n = stack[depth - 1];
            state[n] = 1;
            int next = -1;
            for (int q = 0; q < p->nodes[n].op_count && next < 0; q++) {
                const mil_op *op = p->nodes[n].ops[q];
                for (int k = 0; k < op->info->param_count && next < 0; k++)
                    for (int j = 0; j < op->operands[k].count && next < 0; j++) {
                        int m = maker(p, op->operands[k].values[j]);
                        if (m >= 0 && state[p->node_of[m]] == 0) next = p->node_of[m];
                    }
            }
            if (next >= 0) {
                stack[depth++] = next;
                continue;
            }
            state[n] = 2;
            p->order[p->order_count++] = n;
            depth--;
        }
    }
    return PROPANE_OK;
}

/* ---- the stage --------------------------------------------------------------------------------------------------------- */

static void start_node(cpu_plan_node *n, mil_op **op, int index) {
    const cpu_plan_binding *b = cpu_plan_binding_of(*op);
    n->ops = op;
    n->op_count = 1;
    n->last = index;
    if (b->tile && b->tile(*op)) {
        n->kind = CPU_PLAN_NODE_TILE;
        n->axes = cpu_plan_tile_axes(*op);
        n->shape = n->axes ? (*op)->operands[0].values[0]->type : (*op)->results[0]->type;
    }
}

propane_status cpu_plan_fuse(planner *p, propane_error *err) {
    search s = {.p = p};
    p->node_count = p->op_count;
    p->nodes = ARENA_ARRAY(p->work, p->op_count + 1, cpu_plan_node);
    p->node_of = ARENA_ARRAY(p->work, p->op_count + 1, int);
    s.stack = ARENA_ARRAY(p->work, p->op_count + 1, int);
    s.seen = ARENA_ARRAY(p->work, p->op_count + 1, int);
    if (!p->nodes || !p->node_of || !s.stack || !s.seen) return cpu_plan_no_memory(p, err);
    for (int i = 0; i < p->op_count; i++) {
        start_node(&p->nodes[i], &p->ops[i], i);
        p->node_of[i] = i;
    }
    if (p->options.fuse && !p->options.round_each) PROPANE_TRY(cpu_plan_find_attention(p, err));
    if (p->options.fuse) PROPANE_TRY(cpu_plan_find_layers(p, err));
    PROPANE_TRY(cpu_plan_take_weights(p, err));
    absorb_casts(p);
    PROPANE_TRY(fuse_products(p, err));
    if (p->options.fuse) PROPANE_TRY(merge_tiles(p, &s, err));
    return order_nodes(p, err);
}
