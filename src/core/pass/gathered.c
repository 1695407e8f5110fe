/* SPDX-License-Identifier: MIT
 * Owns replacing slices of known size whose begin is computed. They become gathers along each dimension, which have
 * gradients and whose shapes are known without a run: index k of a dimension's slice is its begin plus k.
 *
 * Refuses other operations whose shapes depend on values.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/function_copy.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops/shape_util.h"
#include "core/mil/read_slices.h"
#include "core/pass/pass.h"

/* Returns the first parameter whose operand must be known and is not, or -1 if there is none. */
static int gathered_unknown(const mil_op *op, mil_value *const *map) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (!v->is_inline && mil_operand_unknown(op, p, map[v->id])) return p;
        }
    return -1;
}

static mil_value *gathered_operand(const mil_op *op, mil_value *const *map, const char *param) {
    mil_value *v = mil_op_param(op->info, param) < 0 ? NULL : mil_in(op, param);
    return v && !v->is_inline ? map[v->id] : v;
}

/* Returns the indices begin[d] + 0, 1, ..., count - 1, or begin[d] as a scalar if `count` is 0. */
static mil_value *gathered_indices(mil_builder *b, mil_value *begin, int d, int64_t count) {
    mil_value *at = mil_build_slice(b, begin, (int64_t[]){d}, (int64_t[]){1});
    int64_t *steps = mem_array((size_t)count + 1, sizeof *steps);
    mil_value *axes = mil_build_ints(b, (int64_t[]){0}, 1), *made = NULL;
    if (!at || !axes || !steps) {
        mem_free(steps);
        return NULL;
    }
    if (at->type.dtype != MIL_int32) at = mil_build_cast(b, at, MIL_int32);
    for (int64_t k = 0; k < count; k++) steps[k] = k;
    if (count) {
        made = mil_build_binary(b, MIL_OP_add, at, mil_build_ints(b, steps, (int)count));
    } else {
        const mil_op *op =
            mil_build_op(b, MIL_OP_squeeze, NULL, (mil_argument[]){{"x", 1, &at}, {"axes", 1, &axes}}, 2);
        made = op ? op->results[0] : NULL;
    }
    mem_free(steps);
    return made;
}

/* Works from the last dimension to the first, so that dropped dimensions do not shift the others. */
static mil_value *gathered_slice(mil_builder *b, const mil_op *op, mil_value *const *map, const int64_t *count) {
    mil_value *y = gathered_operand(op, map, "x"), *begin = gathered_operand(op, map, "begin");
    for (int d = y->type.rank - 1; d >= 0 && y; d--) {
        if (count[d] < 0) continue;
        mil_value *indices = gathered_indices(b, begin, d, count[d]), *axis = mil_build_int(b, d);
        if (!indices || !axis) return NULL;
        const mil_argument arguments[] = {{"x", 1, &y}, {"indices", 1, &indices}, {"axis", 1, &axis}};
        const mil_op *made = mil_build_op(b, MIL_OP_gather, NULL, arguments, 3);
        y = made ? made->results[0] : NULL;
    }
    if (!y) return NULL;
    const mil_op *named = mil_build_op(b, MIL_OP_identity, op->results[0]->name, (mil_argument[]){{"x", 1, &y}}, 1);
    return named ? named->results[0] : NULL;
}

static propane_status gathered_copy(mil_builder *b, const mil_op *op, mil_value **map, propane_error *err) {
    int64_t count[MIL_MAX_RANK];
    const int p = gathered_unknown(op, map);
    if (p < 0) {
        (void)mil_build_copy(b, op, map);
        return PROPANE_OK; /* the builder remembers its error */
    }
    const mil_value *x = gathered_operand(op, map, "x");
    const bool begins = strcmp(op->info->params[p].name, "begin") == 0 && x && x->type.rank <= MIL_MAX_RANK;
    if (!begins || op->result_count != 1 ||
        !mil_slice_counts(op, &x->type, gathered_operand(op, map, "begin"), gathered_operand(op, map, "size"),
                          gathered_operand(op, map, "stride"), count))
        return mil_op_fail(
            op, err, PROPANE_ERR_UNSUPPORTED,
            "its shape depends on a run-time value, %s, but gradients need known shapes: make it a constant%s",
            op->info->params[p].name, begins ? ", or slice with a constant size" : "");
    map[op->results[0]->id] = gathered_slice(b, op, map, count);
    return PROPANE_OK;
}

propane_status pass_gather_slices(const mil_function *late, mil_module *m, mil_function **out, propane_error *err) {
    mil_builder b;
    PROPANE_TRY(mil_function_load(late, err));
    mil_value **map = mem_array((size_t)late->value_count + 1, sizeof *map);
    propane_status status = map ? PROPANE_OK : propane_fail_memory(err, (size_t)late->value_count);
    if (status) return status;
    mil_build_begin(&b, m, late->name, late->opset);
    for (int i = 0; i < late->param_count; i++)
        map[late->params[i]->id] = mil_build_param(&b, late->params[i]->name, late->params[i]->type);
    for (const mil_op *op = late->first; op && !status && !b.err.status; op = op->next)
        status = gathered_copy(&b, op, map, err);
    for (int i = 0; i < late->result_count && !status; i++) mil_build_result(&b, map[late->results[i]->id]);
    *out = b.function;
    mem_free(map);
    return status ? status : mil_build_end(&b, err);
}
