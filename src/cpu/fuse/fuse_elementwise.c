/* SPDX-License-Identifier: MIT
 * Owns the rules "elementwise" and "siblings". Two nodes become one fused loop if both have the same iteration space
 * (or one works on the other's reduced values) and no path between them passes through another node. The rule
 * "elementwise" merges an operation with the nodes that make its operands, and "siblings" with nodes that read the same
 * operands.
 *
 * The rules refuse reductions that are needed whole but that a tile cannot hold whole, operands that broadcast inside
 * the node, and more values than a loop has registers for.
 */
#include "core/mil/ops.h"
#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/loop/loop_draft.h"
#include "cpu/plan/facts.h"
#include "cpu/plan/table.h"
#include "cpu/signed_rows.h"

enum { ELEMENTWISE_MOST_OPS = 48 };

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static mil_type fuse_elementwise_reduced_shape(const mil_type *shape, unsigned axes) {
    mil_type out = *shape;
    for (int d = 0; d < out.rank; d++)
        if (axes >> d & 1) out.dim[d] = 1;
    return out;
}

/* Computes the common iteration space of both nodes. Returns false if there is none. */
static bool fuse_elementwise_joint_space(const cpu_node *a, const cpu_node *b, mil_type *shape, unsigned *axes) {
    if (mil_shape_equal(&a->shape, &b->shape)) {
        if (a->axes && b->axes && a->axes != b->axes) return false;
        *shape = a->shape;
        *axes = a->axes | b->axes;
        return true;
    }
    for (int turn = 0; turn < 2; turn++) {
        const cpu_node *large = turn ? b : a, *small = turn ? a : b;
        if (!large->axes || small->axes) continue;
        mil_type reduced = fuse_elementwise_reduced_shape(&large->shape, large->axes);
        if (!mil_shape_equal(&reduced, &small->shape)) continue;
        *shape = large->shape;
        *axes = large->axes;
        return true;
    }
    return false;
}

static bool fuse_elementwise_is_made_by(const cpu_graph *g, const mil_value *v, const cpu_node *a, const cpu_node *b) {
    const int maker = cpu_graph_maker(g, v);
    const cpu_node *home = maker < 0 ? NULL : &g->nodes[g->node_of[maker]];
    return home && (home == a || home == b);
}

/* Returns true if an operation needs the result of a whole reduction before it can traverse the elements again. */
static bool fuse_elementwise_needs_whole(const cpu_graph *g, const mil_op *op, const cpu_node *a, const cpu_node *b,
                                         const mil_type *shape) {
    const unsigned axes = cpu_plan_tile_axes(op);
    if (cpu_family_of(op) == CPU_FAMILY_softmax || (axes && cpu_code_of(op) == CPU_FOLD_log_sum_exp)) return true;
    if (axes || !mil_shape_equal(&op->results[0]->type, shape)) return false;
    MIL_FOR_OPERANDS (op, v)
        if (!mil_shape_equal(&v->type, shape) && fuse_elementwise_is_made_by(g, v, a, b)) return true;
    return false;
}

/* Checks the operands of `op` that one of the nodes makes. They must have the shape of the space or of its reduced
 * values, including the rank, because a reduction that drops its axes broadcasts along other axes. Rows can be picked
 * only from a value that neither node makes. */
static bool fuse_elementwise_operands_fit(const cpu_graph *g, const mil_op *op, const cpu_node *a, const cpu_node *b,
                                          const mil_type *shape, const mil_type *reduced) {
    MIL_FOR_OPERANDS (op, v) {
        if (!fuse_elementwise_is_made_by(g, v, a, b)) continue;
        if (cpu_signed_rows_is(op)) return false;
        if (!mil_shape_equal(&v->type, shape) && !mil_shape_equal(&v->type, reduced)) return false;
    }
    return true;
}

/* ---- size -------------------------------------------------------------------------------------------------------- */

/* Returns true if the operand's register class differs from the class that the operation works on, so that the operand
 * is spread to a separate register. */
static bool fuse_elementwise_is_spread(const mil_value *v, const mil_type *shape) {
    return !mil_shape_equal(&v->type, shape) || mil_type_count(shape) == 1;
}

/* Returns the most registers that the operation's instructions write (ops/emit_elementwise.c): those for its result,
 * and one for each operand that it spreads. */
static int fuse_elementwise_registers_of(const mil_op *op, bool rounds) {
    const cpu_family family = cpu_family_of(op);
    const bool reduces = family == CPU_FAMILY_reduce || family == CPU_FAMILY_softmax;
    const mil_type *shape = reduces ? &op->operands[0].values[0]->type : &op->results[0]->type;
    const int made = rounds + (op->info->code == MIL_OP_silu ? 3 : family == CPU_FAMILY_reduce ? 2 : 1);
    int spread = 0, operands = 0;
    if (family == CPU_FAMILY_pick) return made;
    MIL_FOR_OPERANDS (op, v) {
        if (v->constant && (v->constant->type.rank == 0 || family != CPU_FAMILY_map))
            continue; /* numbers, attributes */
        spread += fuse_elementwise_is_spread(v, shape);
        operands++;
    }
    /* An operation of two operands needs only one of the right class. */
    if (family == CPU_FAMILY_map && operands == 2 && spread < 2) spread = 0;
    return made + spread;
}

/* Returns true if a fused loop of both nodes has enough registers, instructions and views. It loads each value from
 * outside once, and may store each result. */
static bool fuse_elementwise_has_room(cpu_graph *g, const cpu_node *a, const cpu_node *b) {
    int registers = 0, loads = 0;
    const int ops = a->op_count + b->op_count;
    const int mark = ++g->mark;
    for (int n = 0; n < ops; n++) {
        const mil_op *op = n < a->op_count ? a->ops[n] : b->ops[n - a->op_count];
        registers += fuse_elementwise_registers_of(op, g->options.round_each);
        MIL_FOR_OPERANDS (op, v) {
            if (g->value_seen[v->id] == mark || fuse_elementwise_is_made_by(g, v, a, b)) continue;
            g->value_seen[v->id] = mark;
            loads++;
        }
    }
    return registers + loads <= LOOP_MAX_REGISTERS && loads + ops <= LOOP_MAX_REGISTERS &&
           registers + loads + ops <= LOOP_MAX_INSTRS;
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

static bool fuse_elementwise_may_merge(cpu_graph *g, const cpu_node *a, const cpu_node *b, const mil_type *shape,
                                       unsigned axes) {
    const mil_type reduced = fuse_elementwise_reduced_shape(shape, axes);
    const bool fits = !axes || cpu_loop_fits(shape, axes);
    if (axes && (cpu_graph_takes_rows(a) || cpu_graph_takes_rows(b))) return false;
    for (int n = 0; n < 2; n++) {
        const cpu_node *node = n ? b : a;
        for (int i = 0; i < node->op_count; i++) {
            if (!fits && fuse_elementwise_needs_whole(g, node->ops[i], a, b, shape)) return false;
            if (!fuse_elementwise_operands_fit(g, node->ops[i], a, b, shape, &reduced)) return false;
        }
    }
    return !cpu_graph_is_between(g, (const mil_op *[]){a->ops[0], b->ops[0]}, 2);
}

static propane_status fuse_elementwise_try_merge(cpu_graph *g, const mil_op *into, const mil_op *from, bool *fired,
                                                 propane_error *err) {
    cpu_node *a = cpu_graph_node(g, into);
    const cpu_node *b = cpu_graph_node(g, from);
    mil_type shape;
    unsigned axes;
    if (a == b || a->kind != CPU_NODE_TILE || b->kind != CPU_NODE_TILE) return PROPANE_OK;
    if (a->op_count + b->op_count > ELEMENTWISE_MOST_OPS || !fuse_elementwise_joint_space(a, b, &shape, &axes))
        return PROPANE_OK;
    if (!fuse_elementwise_has_room(g, a, b) || !fuse_elementwise_may_merge(g, a, b, &shape, axes)) return PROPANE_OK;
    if (!cpu_graph_merge(g, (const mil_op *[]){into, from}, 2)) return cpu_program_no_memory(err);
    a->shape = shape;
    a->axes = axes;
    *fired = true;
    return PROPANE_OK;
}

static propane_status fuse_elementwise_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    MIL_FOR_OPERANDS (g->ops[i], v) {
        const int maker = cpu_graph_maker(g, v);
        if (maker >= 0) PROPANE_TRY(fuse_elementwise_try_merge(g, g->ops[maker], g->ops[i], fired, err));
    }
    return PROPANE_OK;
}

/* Merges the operation with the first fused loop that reads one of its operands. */
static propane_status fuse_elementwise_siblings_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    MIL_FOR_OPERANDS (g->ops[i], v) {
        const int *readers;
        const int count = v->constant ? 0 : cpu_graph_reads(g, v, &readers);
        int first = 0;
        while (first < count && readers[first] < i && g->nodes[g->node_of[readers[first]]].kind != CPU_NODE_TILE)
            first++;
        if (first < count && readers[first] < i)
            PROPANE_TRY(fuse_elementwise_try_merge(g, g->ops[readers[first]], g->ops[i], fired, err));
    }
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_elementwise = {.name = "elementwise", .apply = fuse_elementwise_apply};
const cpu_fuse_rule cpu_fuse_siblings = {.name = "siblings", .apply = fuse_elementwise_siblings_apply};
