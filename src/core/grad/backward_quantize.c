/* SPDX-License-Identifier: MIT
 * Owns the gradients of quantize and dequantize. Rounding has the gradient zero nearly everywhere, with which nothing would be
 * trained; so it is taken for the identity (the straight-through estimator), and what saturates gives nothing, as in PyTorch's
 * fake_quantize. Between the two, adjoints are floats although the values are bytes.
 *
 * Scale and zero point are constants and get no gradient.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

/* scale or zero_point as floats that broadcast against the input; zero_point may be left out: zeros. */
static mil_value *backward_quantize_factor(grad_context *g, const mil_op *op, const char *param, mil_dtype dtype) {
    const mil_value *v = mil_in(op, param);
    const mil_type *x = &mil_in(op, "input")->type;
    propane_error ignored = {0};
    int axis = 0;
    if (!v) return grad_zero(g, dtype);
    if (v->type.rank == 0) return mil_build_scalar(grad_build(g), dtype, mil_const_f64(v->constant, 0));
    if (mil_attr_axis(op, "axis", x->rank, &axis, &ignored)) axis = 0; /* the verifier has read it before */
    mil_type type = {.dtype = dtype, .rank = x->rank};
    for (int d = 0; d < x->rank; d++) type.dim[d] = d == axis ? x->dim[d] : 1;
    double *data = mem_array((size_t)x->dim[axis], sizeof *data);
    if (!data) return NULL;
    for (int64_t i = 0; i < x->dim[axis]; i++) data[i] = mil_const_f64(v->constant, i);
    mil_value *out = mil_build_const_f64(grad_build(g), NULL, &type, data);
    mem_free(data);
    return out;
}

/* Where the integer type holds what the quotient is rounded to. */
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
