/* SPDX-License-Identifier: MIT
 * Owns the rule "squares": the sum of the squares of a matrix product's whole result (the norm of a gradient). The
 * kernel that writes the elements also adds up their squares.
 */
#include "core/mil/ops.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"

/* Returns the operation that sums the squares of all elements of the value, possibly after reshapes; NULL if there is
 * none. */
static const mil_op *fuse_squares_of(const cpu_graph *g, const mil_value *v) {
    const int *readers;
    const int count = cpu_graph_reads(g, v, &readers);
    for (int i = 0; i < count; i++) {
        const mil_op *op = g->ops[readers[i]];
        if (op->operands[0].count != 1 || op->operands[0].values[0] != v) continue;
        if (op->info->code == MIL_OP_reduce_sum_square && mil_type_count(&op->results[0]->type) == 1) return op;
        const mil_op *sum = cpu_plan_keeps_order(op) ? fuse_squares_of(g, op->results[0]) : NULL;
        if (sum) return sum;
    }
    return NULL;
}

static propane_status fuse_squares_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const mil_op *product = g->ops[i];
    if (product->info->code != MIL_OP_matmul) return PROPANE_OK;
    const mil_value *result = cpu_fuse_product_result(g, product);
    if (!result || result->type.dtype != MIL_fp32) return PROPANE_OK;
    cpu_node *node = cpu_graph_node(g, product);
    const mil_type *t = &(node->folded ? node->folded : product)->results[0]->type;
    if (t->rank < 2 || mil_type_count(t) != t->dim[t->rank - 1] * t->dim[t->rank - 2]) return PROPANE_OK; /* a batch */
    node->squares = fuse_squares_of(g, result);
    if (!node->squares) return PROPANE_OK;
    cpu_graph_node(g, node->squares)->kind = CPU_NODE_ABSORBED;
    *fired = true;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_squares = {
    .name = "squares", .not_with = CPU_FUSE_NOT_ROUNDED, .apply = fuse_squares_apply};
