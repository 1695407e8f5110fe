/* SPDX-License-Identifier: MIT
 * Owns the rule "residual": the sum of a matrix product and another tensor of its type, possibly with reshapes between
 * the product and the sum. The product adds the tensor to its accumulators.
 *
 * The rule refuses a product with a bias, which already uses that place, and a sum that another product has absorbed.
 */
#include "core/mil/ops.h"
#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"

enum { RESIDUAL_MOST_RESHAPES = 16 };

static bool fuse_residual_adds(const mil_op *op) {
    if (op->info->code != MIL_OP_add) return false;
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    return x != y && mil_type_equal(&x->type, &y->type);
}

static bool fuse_residual_is_free(const cpu_graph *g, const mil_op *op) {
    const cpu_node_kind kind = cpu_graph_node(g, op)->kind;
    return kind == CPU_NODE_OP || kind == CPU_NODE_TILE || kind == CPU_NODE_ABSORBED;
}

static propane_status fuse_residual_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const mil_op *ops[RESIDUAL_MOST_RESHAPES + 2] = {g->ops[i]}, *add;
    int count = 1;
    const mil_value *v = cpu_fuse_product_result(g, g->ops[i]);
    if (!v || (g->ops[i]->info->code != MIL_OP_matmul && mil_in(g->ops[i], "bias"))) return PROPANE_OK;
    while ((add = cpu_graph_only_reader(g, v)) && cpu_plan_keeps_order(add) && count <= RESIDUAL_MOST_RESHAPES) {
        ops[count++] = add;
        v = add->results[0];
    }
    if (!add || !fuse_residual_adds(add) || !fuse_residual_is_free(g, add)) return PROPANE_OK;
    ops[count++] = add;
    cpu_node *node = cpu_graph_merge(g, ops, count);
    if (!node) return cpu_program_no_memory(err);
    node->added = add;
    *fired = true;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_residual = {
    .name = "residual", .not_with = CPU_FUSE_NOT_ROUNDED, .apply = fuse_residual_apply};
