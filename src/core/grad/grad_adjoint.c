/* SPDX-License-Identifier: MIT
 * Owns adjoints. The contributions of rules are summed down to a value's shape, added up, and returned thin or in full.
 * Also owns the lookup of forward values in the joint function.
 */
#include <assert.h>

#include "core/grad/grad_context.h"
#include "core/grad/rules.h"

mil_builder *grad_build(grad_context *g) { return &g->build; }

bool grad_wanted(const grad_context *g, const mil_value *forward) { return g->varied[forward->id]; }

mil_value *grad_value(grad_context *g, const mil_value *forward) {
    mil_value **slot = &g->map[forward->id];
    if (!*slot && forward->constant) *slot = mil_build_const(&g->build, NULL, &forward->type, forward->constant->data);
    return *slot;
}

mil_value *grad_sum(grad_context *g, mil_value *x, const int64_t *axes, int count) {
    return count ? mil_build_reduce(grad_build(g), MIL_OP_reduce_sum, x, axes, count, true) : x;
}

mil_value *grad_reshape(grad_context *g, mil_value *x, int rank, const int64_t *dim) {
    if (!x) return NULL;
    mil_type to = mil_type_tensor(x->type.dtype, rank, dim);
    int64_t all[MIL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (rank == 0 && x->type.rank > 0) /* a reduction needs axes, so sum the single element over all of them */
        return mil_build_reduce(grad_build(g), MIL_OP_reduce_sum, x, all, x->type.rank, false);
    return mil_shape_equal(&x->type, &to) ? x : mil_build_reshape(grad_build(g), x, dim, rank);
}

mil_value *grad_fit(grad_context *g, const mil_type *type, mil_value *adjoint) {
    if (!adjoint) return NULL;
    const mil_type from = adjoint->type;
    int64_t axes[MIL_MAX_RANK], dim[MIL_MAX_RANK];
    int count = 0, lead = from.rank - type->rank;
    for (int i = 0; i < from.rank; i++) {
        bool extra = i < lead;
        if (from.dim[i] > 1 && (extra || type->dim[i - lead] == 1)) axes[count++] = i;
    }
    if (count) adjoint = grad_sum(g, adjoint, axes, count);
    if (lead == 0) return adjoint;
    for (int i = 0; i < type->rank; i++) {
        int at = i + lead;
        dim[i] = at < 0 || type->dim[i] == 1 ? 1 : from.dim[at];
    }
    return grad_reshape(g, adjoint, type->rank, dim);
}

mil_value *grad_fill_out(grad_context *g, const mil_type *type, mil_value *adjoint) {
    if (!adjoint || mil_shape_equal(&adjoint->type, type)) return adjoint;
    assert(adjoint->type.rank == type->rank);
    int64_t reps[MIL_MAX_RANK];
    for (int i = 0; i < type->rank; i++) reps[i] = type->dim[i] / adjoint->type.dim[i];
    mil_value *list = mil_build_ints(&g->build, reps, type->rank);
    mil_op *op =
        mil_build_op(&g->build, MIL_OP_tile, NULL, (mil_argument[]){{"x", 1, &adjoint}, {"reps", 1, &list}}, 2);
    return op ? op->results[0] : NULL;
}

void grad_add(grad_context *g, const mil_value *forward, mil_value *adjoint) {
    if (!adjoint || !g->varied[forward->id]) return;
    adjoint = grad_fit(g, &forward->type, adjoint);
    if (adjoint && mil_dtype_is_float(forward->type.dtype) && adjoint->type.dtype != forward->type.dtype)
        adjoint = mil_build_cast(&g->build, adjoint, forward->type.dtype);
    mil_value **sum = &g->adjoint[forward->id];
    *sum = *sum ? mil_build_binary(&g->build, MIL_OP_add, *sum, adjoint) : adjoint;
    g->stage[forward->id] = g->build.stage;
}

mil_value *grad_of(grad_context *g, const mil_op *op, int index) {
    const mil_value *result = op->results[index];
    mil_value **adjoint = &g->adjoint[result->id];
    if (*adjoint) *adjoint = grad_fill_out(g, &result->type, *adjoint);
    return *adjoint;
}

mil_value *grad_thin(grad_context *g, const mil_op *op) {
    const mil_type *type = &op->results[0]->type;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (grad_wanted(g, v) && !mil_shape_equal(&v->type, type)) return grad_of(g, op, 0);
        }
    return g->adjoint[op->results[0]->id];
}
