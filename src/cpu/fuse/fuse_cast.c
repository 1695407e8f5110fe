/* SPDX-License-Identifier: MIT
 * Owns the rule "cast": a cast from fp16 to fp32 that only matrix products read costs nothing, because these products
 * read fp16 directly.
 */
#include "core/mil/ops.h"
#include "cpu/fuse/fuse.h"
#include "cpu/plan/facts.h"

static propane_status fuse_cast_apply(cpu_graph *g, int i, bool *fired, propane_error *err) {
    const mil_op *op = g->ops[i];
    const int *readers;
    if (op->info->code != MIL_OP_cast) return PROPANE_OK;
    const mil_value *from = mil_in(op, "x"), *to = op->results[0];
    if (from->type.dtype != MIL_fp16 || to->type.dtype != MIL_fp32 || from->constant) return PROPANE_OK;
    const int count = cpu_graph_reads(g, to, &readers);
    if (!count || count != g->uses[to->id]) return PROPANE_OK;
    for (int r = 0; r < count; r++) {
        const mil_op *reader = g->ops[readers[r]];
        if (!cpu_plan_is_product(reader)) return PROPANE_OK;
        /* a layer with constant weights reads fp32 */
        if (cpu_graph_node(g, reader)->kind == CPU_NODE_FUSED_CONV) return PROPANE_OK;
        for (int k = 2; k < reader->info->param_count; k++) /* the bias is not an operand of the product */
            if (reader->operands[k].count == 1 && reader->operands[k].values[0] == to) return PROPANE_OK;
    }
    g->absorbed[to->id] = *fired = true;
    g->nodes[g->node_of[i]].kind = CPU_NODE_ABSORBED;
    return PROPANE_OK;
}

const cpu_fuse_rule cpu_fuse_cast = {.name = "cast", .apply = fuse_cast_apply};
