/* SPDX-License-Identifier: MIT
 * Owns the rule "batch_sum": the sum over all batch dimensions after a matrix product (the gradient of weights that a
 * batch shares). The product adds the terms of the sum in its accumulators.
 */
#include "core/mil/ops.h"
#include "cpu/cpu_program.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"

static bool fuse_batch_sum_matches(const mil_op *op, const mil_value *product) {
    const mil_type *t = &product->type;
    if (op->info->code != MIL_OP_reduce_sum || t->rank < 3 || t->dtype != MIL_fp32) return false;
    unsigned batch = (1u << (t->rank - 2)) - 1, axes = cpu_plan_tile_axes(op);
    for (int d = 0; d < t->rank - 2; d++)
        if (t->dim[d] == 1) batch &= ~(1u << d), axes &= ~(1u << d);
    return batch && axes == batch;
}

static propane_status fuse_batch_sum_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const mil_op *product = g->ops[i];
    if (product->info->code != MIL_OP_matmul) return PROPANE_OK;
    const mil_value *v = cpu_fuse_product_result(g, product);
    const mil_op *sum = v ? cpu_graph_only_reader(g, v) : NULL;
    if (!sum || !fuse_batch_sum_matches(sum, v)) return PROPANE_OK;
    cpu_node *node = cpu_graph_merge(g, (const mil_op *[]){product, sum}, 2);
    if (!node) return cpu_program_no_memory(err);
    node->folded = sum;
    *fired = true;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_batch_sum = {
    .name = "batch_sum", .not_with = CPU_FUSE_NOT_ROUNDED, .apply = fuse_batch_sum_apply};
