/* SPDX-License-Identifier: MIT
 * Owns the gradients of elementwise operations with parameters and of the remaining trigonometric functions. At a kink,
 * clamped_relu and prelu use the slope of x > 0, and thresholded_relu and threshold pass the adjoint. clamped_relu
 * passes nothing once its result reaches beta.
 */
#include <math.h>
#include <string.h>

#include "core/grad/rules.h"

/* ---- trigonometry ------------------------------------------------------------------------------------------------ */

static propane_status backward_activation_times(grad_context *g, const mil_op *op, mil_value *slope) {
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), slope));
    return PROPANE_OK;
}

/* The slope is 1 + y y. */
GRADIENT(tan) {
    return backward_activation_times(g, op, grad_shift(g, grad_unary(g, MIL_OP_square, grad_result(g, op)), 1));
}
GRADIENT(sinh) { return backward_activation_times(g, op, grad_unary(g, MIL_OP_cosh, grad_arg(g, op, "x"))); }
GRADIENT(cosh) { return backward_activation_times(g, op, grad_unary(g, MIL_OP_sinh, grad_arg(g, op, "x"))); }

/* Computes 1 + sign x x. */
static mil_value *backward_activation_quadratic(grad_context *g, const mil_op *op, double sign) {
    return grad_shift(g, grad_scale(g, grad_unary(g, MIL_OP_square, grad_arg(g, op, "x")), sign), 1);
}

static propane_status backward_activation_over(grad_context *g, const mil_op *op, mil_value *divisor, double sign) {
    grad_give(g, op, "x", grad_scale(g, grad_div(g, grad_thin(g, op), divisor), sign));
    return PROPANE_OK;
}

GRADIENT(asin) {
    return backward_activation_over(g, op, grad_unary(g, MIL_OP_sqrt, backward_activation_quadratic(g, op, -1)), 1);
}
GRADIENT(acos) {
    return backward_activation_over(g, op, grad_unary(g, MIL_OP_sqrt, backward_activation_quadratic(g, op, -1)), -1);
}
GRADIENT(atan) { return backward_activation_over(g, op, backward_activation_quadratic(g, op, 1), 1); }
GRADIENT(atanh) { return backward_activation_over(g, op, backward_activation_quadratic(g, op, -1), 1); }

/* ---- one number for all elements --------------------------------------------------------------------------------- */

GRADIENT(linear_activation) {
    double alpha;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    grad_give(g, op, "x", grad_scale(g, grad_thin(g, op), alpha));
    return PROPANE_OK;
}

/* The slope is alpha beta (1 - t t) with t = tanh(beta x). */
GRADIENT(scaled_tanh) {
    double alpha, beta;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    PROPANE_TRY(mil_attr_float(op, "beta", &beta, err));
    mil_value *t = grad_unary(g, MIL_OP_tanh, grad_scale(g, grad_arg(g, op, "x"), beta));
    mil_value *slope = grad_shift(g, grad_scale(g, grad_unary(g, MIL_OP_square, t), -1), 1);
    return backward_activation_times(g, op, grad_scale(g, slope, alpha * beta));
}

static mil_value *backward_activation_zero_of(grad_context *g, const mil_op *op) {
    return grad_zero(g, op->results[0]->type.dtype);
}

GRADIENT(clamped_relu) {
    double alpha, beta;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    PROPANE_TRY(mil_attr_float(op, "beta", &beta, err));
    mil_value *dz = grad_of(g, op, 0), *below = grad_compare(g, MIL_OP_less, grad_result(g, op), beta);
    mil_value *right = grad_compare(g, MIL_OP_greater_equal, grad_arg(g, op, "x"), 0);
    mil_value *slope = grad_select(g, right, dz, grad_scale(g, dz, alpha));
    grad_give(g, op, "x", grad_select(g, below, slope, backward_activation_zero_of(g, op)));
    return PROPANE_OK;
}

GRADIENT(thresholded_relu) {
    double alpha;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    mil_value *on = grad_compare(g, MIL_OP_greater_equal, grad_arg(g, op, "x"), alpha);
    grad_give(g, op, "x", grad_select(g, on, grad_of(g, op, 0), backward_activation_zero_of(g, op)));
    return PROPANE_OK;
}

GRADIENT(threshold) {
    const mil_value *alpha = mil_in(op, "alpha");
    mil_value *on = grad_compare(g, MIL_OP_greater_equal, grad_arg(g, op, "x"), mil_const_f64(alpha->constant, 0));
    grad_give(g, op, "x", grad_select(g, on, grad_of(g, op, 0), backward_activation_zero_of(g, op)));
    return PROPANE_OK;
}

/* ---- one number per channel -------------------------------------------------------------------------------------- */

/* Reshapes a vector of channels to [1, C, 1, ...], which broadcasts against x. */
static mil_value *backward_activation_beside(grad_context *g, const mil_op *op, const char *param) {
    const mil_type *x = &mil_in(op, "x")->type;
    int64_t dim[MIL_MAX_RANK];
    for (int d = 0; d < x->rank; d++) dim[d] = d == 1 ? x->dim[1] : 1;
    return grad_reshape(g, grad_arg(g, op, param), x->rank, dim);
}

/* Gives `param` the sums of `each`, which has x's shape, over each channel. */
static void backward_activation_give_channels(grad_context *g, const mil_op *op, const char *param, mil_value *each) {
    const mil_type *x = &mil_in(op, "x")->type;
    int64_t axes[MIL_MAX_RANK];
    int count = 0;
    for (int d = 0; d < x->rank; d++)
        if (d != 1) axes[count++] = d;
    mil_value *sum = grad_reshape(g, grad_sum(g, each, axes, count), 1, (int64_t[]){x->dim[1]});
    grad_give(g, op, param, sum);
}

GRADIENT(prelu) {
    mil_value *dz = grad_of(g, op, 0), *x = grad_arg(g, op, "x");
    mil_value *right = grad_compare(g, MIL_OP_greater_equal, x, 0);
    if (grad_wants(g, op, "x"))
        grad_give(g, op, "x", grad_select(g, right, dz, grad_mul(g, dz, backward_activation_beside(g, op, "alpha"))));
    if (grad_wants(g, op, "alpha"))
        backward_activation_give_channels(
            g, op, "alpha", grad_select(g, right, backward_activation_zero_of(g, op), grad_mul(g, dz, x)));
    return PROPANE_OK;
}

/* Here y = alpha softplus(beta x). */
GRADIENT(softplus_parametric) {
    mil_value *dz = grad_of(g, op, 0), *x = grad_arg(g, op, "x"), *alpha = backward_activation_beside(g, op, "alpha"),
              *beta = backward_activation_beside(g, op, "beta"), *inner = grad_mul(g, x, beta);
    mil_value *slope = grad_mul(g, grad_mul(g, dz, grad_unary(g, MIL_OP_sigmoid, inner)), alpha);
    if (grad_wants(g, op, "x")) grad_give(g, op, "x", grad_mul(g, slope, beta));
    if (grad_wants(g, op, "alpha"))
        backward_activation_give_channels(g, op, "alpha", grad_mul(g, dz, grad_unary(g, MIL_OP_softplus, inner)));
    if (grad_wants(g, op, "beta")) backward_activation_give_channels(g, op, "beta", grad_mul(g, slope, x));
    return PROPANE_OK;
}
