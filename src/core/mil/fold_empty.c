/* SPDX-License-Identifier: MIT
 * Determines which results have no elements, and resolves the operations of core/mil/empty_operands.h. Refuses other
 * operations by name.
 */
#include "core/mil/fold_empty.h"

#include "core/base/memory.h"
#include "core/mil/empty_operands.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

/* ---- operations that make empty tensors -------------------------------------------------------------------------- */

/* Returns the operand if it is known, or NULL if it is left out or waits. */
static const mil_const *fold_empty_known(const mil_op *op, mil_value *const *map, const char *param) {
    mil_value *v = mil_in(op, param);
    if (v && !v->is_inline) v = map[v->id];
    return v && mil_know(v) ? v->constant : NULL;
}

static bool fold_empty_non_zero(const mil_op *op, mil_value *const *map, mil_type *out) {
    const mil_const *x = fold_empty_known(op, map, "x");
    if (!x || !x->data || x->type.rank == 0) return false;
    for (int64_t i = 0; i < mil_type_count(&x->type); i++)
        if (mil_const_f64(x, i) != 0.0) return false;
    *out = (mil_type){.dtype = MIL_int32, .rank = 2, .dim = {0, x->type.rank}};
    return true;
}

/* ---- operations that read empty tensors -------------------------------------------------------------------------- */

/* Returns the type of a value that has no elements, or NULL if the value has elements or is not resolved. */
static const mil_type *fold_empty_type(const mil_value *v, const mil_type *empty) {
    if (v->is_inline) return v->type.container == MIL_TENSOR && mil_type_count(&v->type) == 0 ? &v->type : NULL;
    return empty[v->id].dtype ? &empty[v->id] : NULL;
}

static const mil_type *fold_empty_operand(const mil_op *op, const char *param, const mil_type *empty) {
    const mil_value *v = mil_op_param(op->info, param) < 0 ? NULL : mil_in(op, param);
    return v ? fold_empty_type(v, empty) : NULL;
}

/* Derives the type from the declared result, whose only open dimension is 0. Returns false if the type stays
 * undecided. */
static bool fold_empty_result(const mil_op *op, mil_type *out) {
    int open = 0;
    *out = op->results[0]->type;
    for (int d = 0; d < out->rank; d++) {
        if (out->dim[d] == MIL_OPEN_RANK) return false;
        if (out->dim[d] != MIL_OPEN) continue;
        out->dim[d] = 0;
        open++;
    }
    return open ? open == 1 : mil_type_count(out) == 0;
}

static mil_value *fold_empty_shape(mil_builder *b, const mil_op *op, const mil_type *x) {
    double dim[MIL_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dim[d] = (double)x->dim[d];
    const mil_type type = mil_type_tensor(op->results[0]->type.dtype, 1, &(int64_t){x->rank});
    return mil_build_const_f64(b, op->results[0]->name, &type, dim);
}

/* Returns an identity of x that has the name of op's result. */
static mil_value *fold_empty_pass(mil_builder *b, const mil_op *op, mil_value *x) {
    const mil_argument argument = {"x", 1, &x};
    mil_op *made = mil_build_op(b, MIL_OP_identity, op->results[0]->name, &argument, 1);
    return made ? made->results[0] : NULL;
}

/* Joins the operands that have elements. Fills in an entry of `map` or of `empty`, or neither if one of the operands
 * waits. */
static void fold_empty_join(mil_builder *b, const mil_op *op, mil_value **map, mil_type *empty) {
    mil_value *const *values = NULL;
    const int count = mil_in_list(op, "values", &values), id = op->results[0]->id;
    mil_value **kept = mem_array((size_t)count + 1, sizeof *kept);
    int64_t axis = 0, total = 0;
    int used = 0;
    bool waits = !kept || mil_attr_int(op, "axis", &axis, &b->err) != PROPANE_OK;
    for (int i = 0; i < count && !waits; i++) {
        const mil_type *none = fold_empty_type(values[i], empty);
        const int at = (int)(axis < 0 && none ? axis + none->rank : axis);
        if (none && at >= 0 && at < none->rank) total += none->dim[at];
        if (none) continue;
        kept[used] = values[i]->is_inline ? mil_build_const(b, NULL, &values[i]->type, values[i]->constant->data)
                                          : map[values[i]->id];
        waits = !kept[used++];
    }
    if (!waits && !used) {
        const mil_type *first = fold_empty_type(values[0], empty);
        empty[id] = *first;
        empty[id].dim[axis < 0 ? axis + first->rank : axis] = total;
    } else if (!waits && used == 1) {
        map[id] = fold_empty_pass(b, op, kept[0]);
    } else if (!waits) {
        mil_value *at = mil_build_int(b, (int32_t)axis);
        const mil_argument arguments[] = {{"values", used, kept}, {"axis", 1, &at}};
        mil_op *made = mil_build_op(b, MIL_OP_concat, op->results[0]->name, arguments, 2);
        map[id] = made ? made->results[0] : NULL;
    }
    mem_free(kept);
}

static bool fold_empty_reads(const mil_op *op, const mil_type *empty, const char **name) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            const mil_type *none = fold_empty_type(v, empty);
            if (!none || !mil_operand_computed(op, p, none)) continue;
            *name = v->name ? v->name : "a literal";
            return true;
        }
    return false;
}

bool mil_fold_empty(mil_builder *b, const mil_op *op, mil_value **map, mil_type *empty) {
    const char *name = "";
    const int id = op->result_count ? op->results[0]->id : 0;
    const bool reads = fold_empty_reads(op, empty, &name);
    if (op->result_count != 1) return reads;
    if (op->info->code == MIL_OP_const) {
        if (op->results[0]->type.container != MIL_TENSOR || mil_type_count(&op->results[0]->type)) return false;
        empty[id] = op->results[0]->type;
        return empty[id].rank != 1; /* a list of axes or sizes may be empty, so the constant stays, too */
    }
    if (!reads) return op->info->code == MIL_OP_non_zero && fold_empty_non_zero(op, map, &empty[id]);
    const mil_type *x = fold_empty_operand(op, "x", empty);
    if (op->info->code == MIL_OP_shape && x) {
        map[id] = fold_empty_shape(b, op, x);
        return true;
    }
    const char *into = op->info->code == MIL_OP_slice_update ? "x" : "data";
    if (mil_empty_scatters(op) && !fold_empty_operand(op, into, empty)) {
        mil_value *data = mil_in(op, into);
        if (!data->is_inline) data = map[data->id];
        if (data) map[id] = fold_empty_pass(b, op, data);
        return data != NULL;
    }
    if (op->info->code == MIL_OP_concat) {
        fold_empty_join(b, op, map, empty);
        return true;
    }
    if (!mil_empty_keeps(op) || !fold_empty_result(op, &empty[id])) empty[id] = (mil_type){0};
    return true;
}

propane_status mil_fold_empty_refuse(const mil_function *late, mil_value *const *map, const mil_type *empty,
                                     propane_error *err) {
    const char *name = "";
    for (int i = 0; i < late->result_count; i++)
        if (empty[late->results[i]->id].dtype)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: result '%.60s' would be empty for these inputs",
                                late->module->source, late->results[i]->name);
    for (const mil_op *op = late->first; op; op = op->next)
        if (fold_empty_reads(op, empty, &name) && op->result_count && !map[op->results[0]->id] &&
            !empty[op->results[0]->id].dtype)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                               "'%.60s' is empty for these inputs, so no result can be computed", name);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: a result depends on values that nothing produces",
                        late->module->source);
}
