/* SPDX-License-Identifier: MIT
 * Owns the gradients of quantize and dequantize. Rounding has a gradient of zero nearly everywhere, so nothing before
 * it could be trained. Rounding is therefore treated as the identity (the straight-through estimator), and saturated
 * elements pass nothing, as in PyTorch's fake_quantize. Between the two ops, adjoints are floats although the values
 * are bytes.
 *
 * Scale and zero point are constants and get no gradient.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

/* Returns scale or zero_point as floats that broadcast against the input. A zero_point that was left out is zero. */
static mil_value *backward_quantize_factor(grad_context *g, const mil_op *op, const char *param, mil_dtype dtype) {
    const mil_value *v = mil_in(op, param);
    const mil_type *x = &mil_in(op, "input")->type;
    propane_error ignored = {0};
    int axis = 0;
    if (!v) return grad_zero(g, dtype);
    if (v->type.rank == 0) return mil_build_scalar(grad_build(g), dtype, mil_const_f64(v->constant, 0));
    if (mil_attr_axis(op, "axis", x->rank, &axis, &ignored)) axis = 0; /* the verifier has read the axis already */
    mil_type type = {.dtype = dtype, .rank = x->rank};
    for (int d = 0; d < x->rank; d++) type.dim[d] = d == axis ? x->dim[d] : 1;
    double *data = mem_array((size_t)x->dim[axis], sizeof *data);
    if (!data) return NULL;
    for (int64_t i = 0; i < x->dim[axis]; i++) data[i] = mil_const_f64(v->constant, i);
    mil_value *out = mil_build_const_f64(grad_build(g), NULL, &type, data);
    mem_free(data);
    return out;
}

/* Returns a mask, true where the integer type can hold the rounded quotient plus the zero point. */
static mil_value *backward_quantize_inside(grad_context *g, const mil_op *op, mil_value *scale) {
    const mil_type *x = &mil_in(op, "input")->type;
    const bool is_signed = op->results[0]->type.dtype == MIL_int8;
    mil_value *q = grad_unary(g, MIL_OP_round, grad_div(g, grad_arg(g, op, "input"), scale));
    q = grad_plus(g, q, backward_quantize_factor(g, op, "zero_point", x->dtype));
    return mil_build_binary(grad_build(g), MIL_OP_logical_and,
                            grad_compare(g, MIL_OP_greater_equal, q, is_signed ? -128 : 0),
                            grad_compare(g, MIL_OP_less_equal, q, is_signed ? 127 : 255));
}

GRADIENT(quantize) {
    const mil_type *x = &mil_in(op, "input")->type;
    mil_value *scale = backward_quantize_factor(g, op, "scale", x->dtype);
    if (!scale) return propane_fail_memory(err, 0);
    mil_value *dz = grad_div(g, grad_of(g, op, 0), scale);
    grad_give(g, op, "input", grad_select(g, backward_quantize_inside(g, op, scale), dz, grad_zero(g, x->dtype)));
    return PROPANE_OK;
}

GRADIENT(dequantize) {
    mil_value *scale = backward_quantize_factor(g, op, "scale", op->results[0]->type.dtype);
    if (!scale) return propane_fail_memory(err, 0);
    grad_give(g, op, "input", grad_mul(g, grad_of(g, op, 0), scale));
    return PROPANE_OK;
}
