/* SPDX-License-Identifier: MIT
 * Owns the short names with which gradient rules emit MIL. In every binary op the tensor comes first and the scalar
 * second, and every mask is a comparison and a select, because all chips accept these forms.
 */
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

static mil_value *backward_emit_first_result(mil_op *op) { return op ? op->results[0] : NULL; }

mil_value *grad_arg(grad_context *g, const mil_op *op, const char *param) {
    const mil_value *v = mil_in(op, param);
    mil_value *here = v ? grad_value(g, v) : NULL;
    const mil_class type_class = op->info->params[mil_op_param(op->info, param)].type_class;
    const mil_dtype dtype = op->result_count ? op->results[0]->type.dtype : MIL_DTYPE_NONE;
    if (!here || (type_class != MIL_CLASS_WEIGHT && type_class != MIL_CLASS_FACTOR) || here->type.dtype == dtype)
        return here;
    return mil_build_cast(grad_build(g), here, dtype);
}

bool grad_wants(const grad_context *g, const mil_op *op, const char *param) {
    const mil_value *v = mil_in(op, param);
    return v && grad_wanted(g, v);
}

void grad_give(grad_context *g, const mil_op *op, const char *param, mil_value *adjoint) {
    grad_add(g, mil_in(op, param), adjoint);
}

mil_value *grad_result(grad_context *g, const mil_op *op) { return grad_value(g, op->results[0]); }

mil_value *grad_mul(grad_context *g, mil_value *x, mil_value *y) {
    return mil_build_binary(grad_build(g), MIL_OP_mul, x, y);
}
mil_value *grad_div(grad_context *g, mil_value *x, mil_value *y) {
    return mil_build_binary(grad_build(g), MIL_OP_real_div, x, y);
}
mil_value *grad_plus(grad_context *g, mil_value *x, mil_value *y) {
    return mil_build_binary(grad_build(g), MIL_OP_add, x, y);
}
mil_value *grad_minus(grad_context *g, mil_value *x, mil_value *y) {
    return mil_build_binary(grad_build(g), MIL_OP_sub, x, y);
}
mil_value *grad_scale(grad_context *g, mil_value *x, double k) {
    return k == 1.0 ? x : mil_build_binary_scalar(grad_build(g), MIL_OP_mul, x, k);
}
mil_value *grad_shift(grad_context *g, mil_value *x, double k) {
    return k == 0.0 ? x : mil_build_binary_scalar(grad_build(g), MIL_OP_add, x, k);
}
mil_value *grad_unary(grad_context *g, mil_opcode code, mil_value *x) {
    return mil_build_unary(grad_build(g), code, x);
}

mil_value *grad_compare(grad_context *g, mil_opcode code, mil_value *x, double y) {
    return mil_build_binary_scalar(grad_build(g), code, x, y);
}

mil_value *grad_zero(grad_context *g, mil_dtype dtype) { return mil_build_scalar(grad_build(g), dtype, 0.0); }

mil_value *grad_select(grad_context *g, mil_value *condition, mil_value *a, mil_value *b) {
    return backward_emit_first_result(mil_build_op(
        grad_build(g), MIL_OP_select, NULL, (mil_argument[]){{"cond", 1, &condition}, {"a", 1, &a}, {"b", 1, &b}}, 3));
}

mil_value *grad_with_float(grad_context *g, mil_opcode code, mil_value *x, const char *param, double value) {
    if (!x) return NULL;
    mil_value *k = mil_build_scalar(grad_build(g), x->type.dtype, value);
    return backward_emit_first_result(
        mil_build_op(grad_build(g), code, NULL, (mil_argument[]){{"x", 1, &x}, {param, 1, &k}}, 2));
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

mil_value *grad_reshape_as(grad_context *g, mil_value *x, const mil_type *type) {
    return grad_reshape(g, x, type->rank, type->dim);
}

mil_value *grad_pad(grad_context *g, mil_value *x, int rank, const int64_t *before, const int64_t *after) {
    int64_t amount[2 * MIL_MAX_RANK];
    bool any = false;
    for (int i = 0; i < rank; i++) {
        amount[2 * i] = before[i];
        amount[2 * i + 1] = after[i];
        any |= before[i] != 0 || after[i] != 0;
    }
    if (!any || !x) return x;
    mil_builder *b = grad_build(g);
    int skip = 0; /* the list applies to the last dimensions, so leave out leading ones without padding */
    while (amount[2 * skip] == 0 && amount[2 * skip + 1] == 0) skip++;
    mil_value *pad = mil_build_ints(b, amount + 2 * skip, 2 * (rank - skip)), *mode = mil_build_text(b, "constant");
    mil_value *zero = grad_zero(g, x->type.dtype);
    return backward_emit_first_result(mil_build_op(
        b, MIL_OP_pad, NULL,
        (mil_argument[]){{"x", 1, &x}, {"pad", 1, &pad}, {"mode", 1, &mode}, {"constant_val", 1, &zero}}, 4));
}

mil_value *grad_slice_step(grad_context *g, mil_value *x, int rank, const int64_t *begin, const int64_t *end,
                           const int64_t *stride) {
    if (!x) return NULL;
    mil_builder *b = grad_build(g);
    bool whole = true, plain = true;
    int64_t size[MIL_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        whole &= begin[i] == 0 && end[i] == x->type.dim[i] && (!stride || stride[i] == 1);
        plain &= !stride || stride[i] == 1;
        size[i] = end[i] - begin[i];
    }
    if (whole) return x;
    if (plain) return mil_build_slice(b, x, begin, size);
    mil_value *from = mil_build_ints(b, begin, rank), *to = mil_build_ints(b, end, rank);
    mil_value *step = mil_build_ints(b, stride, rank);
    return backward_emit_first_result(
        mil_build_op(b, MIL_OP_slice_by_index, NULL,
                     (mil_argument[]){{"x", 1, &x}, {"begin", 1, &from}, {"end", 1, &to}, {"stride", 1, &step}}, 4));
}

mil_value *grad_reverse(grad_context *g, mil_value *x, const int64_t *axes, int count) {
    if (!count) return x;
    mil_value *list = mil_build_ints(grad_build(g), axes, count);
    return backward_emit_first_result(
        mil_build_op(grad_build(g), MIL_OP_reverse, NULL, (mil_argument[]){{"x", 1, &x}, {"axes", 1, &list}}, 2));
}

mil_value *grad_join(grad_context *g, mil_opcode code, mil_value *const *values, int count, int axis) {
    if (code == MIL_OP_concat) return count == 1 ? values[0] : mil_build_concat(grad_build(g), values, count, axis);
    mil_value *at = mil_build_int(grad_build(g), axis);
    return backward_emit_first_result(
        mil_build_op(grad_build(g), code, NULL, (mil_argument[]){{"values", count, values}, {"axis", 1, &at}}, 2));
}

mil_value *grad_spread(grad_context *g, mil_value *x, int rank, int64_t *dim, int axis, int64_t step) {
    if (step == 1 || dim[axis] == 1) return x;
    int64_t pre = grad_product(dim, 0, axis), post = grad_product(dim, axis + 1, rank), n = dim[axis];
    x = grad_reshape(g, x, 4, (int64_t[]){pre, n, 1, post});
    x = grad_pad(g, x, 4, (int64_t[]){0, 0, 0, 0}, (int64_t[]){0, 0, step - 1, 0});
    x = grad_reshape(g, x, 3, (int64_t[]){pre, n * step, post});
    dim[axis] = (n - 1) * step + 1;
    x = grad_slice_step(g, x, 3, (int64_t[]){0, 0, 0}, (int64_t[]){pre, dim[axis], post}, NULL);
    return grad_reshape(g, x, rank, dim);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

int64_t grad_product(const int64_t *dim, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= dim[i];
    return n;
}

void grad_axes_set(grad_axes *out, const mil_type *x) {
    out->count = 0;
    out->elements = 1;
    for (int i = 0; i < x->rank; i++) {
        out->kept[i] = out->on[i] ? 1 : x->dim[i];
        if (!out->on[i]) continue;
        out->list[out->count++] = i;
        out->elements *= x->dim[i];
    }
}

propane_status grad_axes_get(const mil_op *op, const char *param, const mil_type *x, grad_axes *out,
                             propane_error *err) {
    *out = (grad_axes){0};
    PROPANE_TRY(mil_attr_axes(op, param, x->rank, out->on, err));
    grad_axes_set(out, x);
    return PROPANE_OK;
}

propane_status grad_axis_get(const mil_op *op, const mil_type *x, int *out, propane_error *err) {
    return mil_attr_axis(op, "axis", x->rank, out, err);
}
