/* SPDX-License-Identifier: MIT
 * Owns slices in the blocks of loops and branches. Converters write x[i], where the loop counts i, as a slice from i to
 * i + 1 whose dimension is removed. One idea: the size is known, so the slice becomes a gather, and no shape in the
 * block depends on a value.
 */
#include "core/mil/read_slices.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops/shape_util.h"

static bool slices_is_known(const mil_value *v) { return v->constant && v->constant->data; }

/* Returns whether element d of a vector is zero in every run. The vector may be a concatenation of known and computed
 * numbers. */
static bool slices_is_zero(const mil_value *v, int64_t d) {
    mil_value *const *values;
    if (slices_is_known(v)) return mil_const_i64(v->constant, d) == 0;
    const int count = v->def && v->def->info->code == MIL_OP_concat ? mil_in_list(v->def, "values", &values) : 0;
    for (int i = 0; i < count; i++) {
        const int64_t here = mil_type_count(&values[i]->type);
        if (d < here) return slices_is_known(values[i]) && mil_const_i64(values[i]->constant, d) == 0;
        d -= here;
    }
    return false;
}

bool mil_slice_counts(const mil_op *op, const mil_type *x, const mil_value *begin, const mil_value *size,
                      const mil_value *stride, int64_t *count) {
    bool from_edge[MIL_MAX_RANK], to_edge[MIL_MAX_RANK], squeeze[MIL_MAX_RANK];
    if (size) {
        if (!slices_is_known(size) || mil_type_count(&size->type) != x->rank) return false;
        for (int d = 0; d < x->rank; d++) {
            count[d] = mil_const_i64(size->constant, d);
            if (count[d] < 1 || count[d] > x->dim[d]) return false;
            if (count[d] == x->dim[d]) count[d] = -1;
        }
        return true;
    }
    if (op->info->code != MIL_OP_slice_by_index || mil_attr_bools(op, "begin_mask", x->rank, from_edge, NULL) ||
        mil_attr_bools(op, "end_mask", x->rank, to_edge, NULL) ||
        mil_attr_bools(op, "squeeze_mask", x->rank, squeeze, NULL))
        return false;
    for (int d = 0; d < x->rank; d++) {
        const bool step = !stride || (slices_is_known(stride) && mil_const_i64(stride->constant, d) == 1);
        from_edge[d] |= !squeeze[d] && slices_is_zero(begin, d);
        if (!squeeze[d] && !(from_edge[d] && to_edge[d] && step)) return false;
        if (squeeze[d] && from_edge[d]) return false;
        count[d] = squeeze[d] ? 0 : -1;
    }
    return true;
}

/* ---- gathers ------------------------------------------------------------------------------------------------------- */

/* Makes a literal of the int32 numbers first, first + 1, ...; count 0 makes a scalar. */
static mil_value *slices_literal(mil_function *f, int32_t first, int64_t count) {
    arena *a = f->module->arena;
    const mil_type type = mil_type_tensor(MIL_int32, count > 0, &count);
    int32_t *data = ARENA_ARRAY(a, count + 1, int32_t);
    mil_const *c = ARENA_NEW(a, mil_const);
    mil_value *v = mil_make_value(f, NULL, &type);
    if (!data || !c || !v) return NULL;
    data[0] = first;
    for (int64_t i = 1; i < count; i++) data[i] = first + (int32_t)i;
    *c = (mil_const){.type = type, .data = data, .bytes = mil_type_bytes(&type)};
    v->constant = c;
    v->is_inline = true;
    return v;
}

static bool slices_give(mil_op *op, const char *param, mil_value *v) {
    return v && mil_make_operand(op, mil_op_param(op->info, param), &v, 1);
}

static bool slices_give_gather(mil_op *op, mil_value *x, mil_value *indices, int axis) {
    return slices_give(op, "x", x) && slices_give(op, "indices", indices) &&
           slices_give(op, "axis", slices_literal(op->function, axis, 0));
}

/* Appends the op to the function; the name of its result begins with `name`. */
static propane_status slices_finish(mil_op *op, const char *name, mil_value **out, propane_error *err) {
    mil_function *f = op->function;
    mil_type type;
    int count = 0;
    const char *own = arena_printf(f->module->arena, "%s_begin_%s", name, op->info->name);
    op->label = own;
    PROPANE_TRY(mil_verify_operands(op, err));
    PROPANE_TRY(op->info->rule(op, &type, &count, err));
    own = own ? mil_scope_unique(f, own) : NULL;
    mil_value *v = own && mil_make_results(op, 1) ? mil_make_value(f, own, &type) : NULL;
    if (!v) return propane_fail_memory(err, 0);
    v->def = op;
    op->results[0] = v;
    op->label = NULL;
    mil_make_insert(op, NULL);
    *out = v;
    return PROPANE_OK;
}

/* Computes the indices of dimension d: begin[d] if count is 0, otherwise begin[d] + 0, 1, ..., count - 1. */
static propane_status slices_indices(const mil_op *slice, const char *name, mil_value *begin, int d, int64_t count,
                                     mil_value **out, propane_error *err) {
    mil_function *f = slice->function;
    mil_op *at = mil_make_op(f, mil_op_get(MIL_OP_gather)), *add;
    if (!at || !slices_give_gather(at, begin, slices_literal(f, d, count > 0), 0)) return propane_fail_memory(err, 0);
    PROPANE_TRY(slices_finish(at, name, out, err));
    if (!count) return PROPANE_OK;
    add = mil_make_op(f, mil_op_get(MIL_OP_add));
    if (!add || !slices_give(add, "x", *out) || !slices_give(add, "y", slices_literal(f, 0, count)))
        return propane_fail_memory(err, 0);
    return slices_finish(add, name, out, err);
}

/* Turns the operation into a gather from `x`. */
static propane_status slices_become(mil_op *op, mil_value *x, mil_value *indices, int axis, propane_error *err) {
    op->info = mil_op_get(MIL_OP_gather);
    op->operands = ARENA_ARRAY(op->function->module->arena, op->info->param_count, mil_operand);
    if (!op->operands || !slices_give_gather(op, x, indices, axis)) return propane_fail_memory(err, 0);
    return PROPANE_OK;
}

propane_status mil_read_slice(mil_op *op, const char *name, propane_error *err) {
    const mil_opcode code = op->info->code;
    int64_t count[MIL_MAX_RANK];
    mil_value *indices = NULL, *x = mil_op_param(op->info, "x") < 0 ? NULL : mil_in(op, "x");
    int left = 0;
    if (!op->function->owner || (code != MIL_OP_slice_by_index && code != MIL_OP_slice_by_size) || !x)
        return PROPANE_OK;
    mil_value *begin = mil_in(op, "begin");
    const bool by_size = code == MIL_OP_slice_by_size;
    if (!begin || mil_know(begin) || begin->type.dtype != MIL_int32 || mil_type_is_open(&begin->type) ||
        mil_type_is_open(&x->type) || mil_type_count(&begin->type) != x->type.rank)
        return PROPANE_OK;
    if (!mil_slice_counts(op, &x->type, begin, by_size ? mil_in(op, "size") : NULL,
                          by_size ? NULL : mil_in(op, "stride"), count))
        return PROPANE_OK; /* the operation's own check will refuse the slice */
    for (int d = 0; d < x->type.rank; d++) left += count[d] >= 0;
    for (int d = x->type.rank - 1; d >= 0; d--) { /* backwards, so that removed dimensions do not move the others */
        if (count[d] < 0) continue;
        PROPANE_TRY(slices_indices(op, name, begin, d, count[d], &indices, err));
        if (--left == 0) return slices_become(op, x, indices, d, err);
        mil_op *gather = mil_make_op(op->function, mil_op_get(MIL_OP_gather));
        if (!gather || !slices_give_gather(gather, x, indices, d)) return propane_fail_memory(err, 0);
        PROPANE_TRY(slices_finish(gather, name, &x, err));
    }
    return PROPANE_OK;
}
