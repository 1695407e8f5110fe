/* SPDX-License-Identifier: MIT
 * Owns the gradients of elementwise operations. They use the forward result if that saves work or digits (exp, tanh,
 * sigmoid, rsqrt, real_div). In fp16 they stay finite wherever the true gradient is: products start with the adjoint,
 * which is small where a power is large, and no infinity is multiplied by zero.
 *
 * At a kink, relu and relu6 pass 0, leaky_relu and elu use the slope on the left, and clip passes the adjoint at its
 * bounds. On a tie, maximum and minimum give the whole adjoint to x.
 */
#include <math.h>
#include <string.h>

#include "core/grad/rules.h"

/* ---- two operands ------------------------------------------------------------------------------------------------ */

GRADIENT(add) {
    mil_value *dz = grad_thin(g, op);
    grad_give(g, op, "x", dz);
    grad_give(g, op, "y", dz);
    return PROPANE_OK;
}

GRADIENT(sub) {
    mil_value *dz = grad_thin(g, op);
    grad_give(g, op, "x", dz);
    if (grad_wants(g, op, "y")) grad_give(g, op, "y", grad_scale(g, grad_fit(g, &mil_in(op, "y")->type, dz), -1));
    return PROPANE_OK;
}

GRADIENT(mul) {
    if (grad_norm_spelt_out(g, op)) return PROPANE_OK;
    mil_value *dz = grad_thin(g, op);
    if (grad_wants(g, op, "x")) grad_give(g, op, "x", grad_mul(g, dz, grad_arg(g, op, "y")));
    if (grad_wants(g, op, "y")) grad_give(g, op, "y", grad_mul(g, dz, grad_arg(g, op, "x")));
    return PROPANE_OK;
}

GRADIENT(real_div) {
    mil_value *t = grad_div(g, grad_thin(g, op), grad_arg(g, op, "y"));
    grad_give(g, op, "x", t);
    if (grad_wants(g, op, "y")) {
        mil_value *sum = grad_fit(g, &mil_in(op, "y")->type, grad_mul(g, t, grad_result(g, op)));
        grad_give(g, op, "y", grad_scale(g, sum, -1));
    }
    return PROPANE_OK;
}

/* Here z = x - floor(x / y) * y. */
GRADIENT(mod) {
    mil_value *dz = grad_thin(g, op);
    grad_give(g, op, "x", dz);
    if (grad_wants(g, op, "y")) {
        mil_value *whole =
            mil_build_binary(grad_build(g), MIL_OP_floor_div, grad_arg(g, op, "x"), grad_arg(g, op, "y"));
        grad_give(g, op, "y", grad_scale(g, grad_mul(g, dz, whole), -1));
    }
    return PROPANE_OK;
}

static bool backward_elementwise_uniform_constant(const mil_value *v, double *out) {
    if (!v->constant || !v->constant->data) return false;
    int64_t count = mil_type_count(&v->type);
    *out = count > 0 ? mil_const_f64(v->constant, 0) : 0;
    for (int64_t i = 1; i < count; i++)
        if (mil_const_f64(v->constant, i) != *out) return false;
    return count > 0;
}

/* Computes the gradient of x^p for a constant p, as cheaply as p allows. */
static mil_value *backward_elementwise_power_gradient(grad_context *g, mil_value *dz, mil_value *x, mil_value *r,
                                                      double p) {
    if (p == 0) return NULL;
    if (p == 1) return dz;
    if (p == 2) return grad_mul(g, grad_scale(g, dz, 2), x);
    if (p == 3) return grad_mul(g, grad_mul(g, grad_scale(g, dz, 3), x), x);
    if (p == 0.5) return grad_div(g, grad_scale(g, dz, 0.5), r);
    if (p == -1) return grad_scale(g, grad_mul(g, grad_mul(g, dz, r), r), -1);
    if (p == -0.5) return grad_scale(g, grad_mul(g, grad_mul(g, grad_mul(g, dz, r), r), r), -0.5);
    return grad_scale(g, grad_mul(g, dz, mil_build_binary_scalar(grad_build(g), MIL_OP_pow, x, p - 1)), p);
}

GRADIENT(pow) {
    mil_value *dz = grad_thin(g, op), *x = grad_arg(g, op, "x"), *r = grad_result(g, op);
    double p;
    if (grad_wants(g, op, "x")) {
        if (backward_elementwise_uniform_constant(mil_in(op, "y"), &p)) {
            grad_give(g, op, "x", backward_elementwise_power_gradient(g, dz, x, r, p));
        } else {
            mil_value *y = grad_arg(g, op, "y");
            mil_value *lower = mil_build_binary(grad_build(g), MIL_OP_pow, x, grad_shift(g, y, -1));
            grad_give(g, op, "x", grad_mul(g, grad_mul(g, dz, y), lower));
        }
    }
    if (grad_wants(g, op, "y")) /* for x > 0 */
        grad_give(g, op, "y", grad_mul(g, grad_mul(g, dz, r), grad_unary(g, MIL_OP_log, x)));
    return PROPANE_OK;
}

/* Gives dz to operand `yes` where the mask is true, and to operand `no` elsewhere. */
static void backward_elementwise_give_by_mask(grad_context *g, const mil_op *op, mil_value *mask, const char *yes,
                                              const char *no) {
    mil_value *dz = grad_thin(g, op), *zero = grad_zero(g, op->results[0]->type.dtype);
    if (grad_wants(g, op, yes)) grad_give(g, op, yes, grad_select(g, mask, dz, zero));
    if (grad_wants(g, op, no)) grad_give(g, op, no, grad_select(g, mask, zero, dz));
}

GRADIENT(maximum) {
    mil_value *mask = mil_build_binary(grad_build(g), MIL_OP_greater_equal, grad_arg(g, op, "x"), grad_arg(g, op, "y"));
    backward_elementwise_give_by_mask(g, op, mask, "x", "y");
    return PROPANE_OK;
}

GRADIENT(minimum) {
    mil_value *mask = mil_build_binary(grad_build(g), MIL_OP_less_equal, grad_arg(g, op, "x"), grad_arg(g, op, "y"));
    backward_elementwise_give_by_mask(g, op, mask, "x", "y");
    return PROPANE_OK;
}

GRADIENT(select) {
    mil_value *dz = grad_of(g, op, 0), *mask = grad_arg(g, op, "cond"),
              *zero = grad_zero(g, op->results[0]->type.dtype);
    if (grad_wants(g, op, "a")) grad_give(g, op, "a", grad_select(g, mask, dz, zero));
    if (grad_wants(g, op, "b")) grad_give(g, op, "b", grad_select(g, mask, zero, dz));
    return PROPANE_OK;
}

/* ---- one operand ------------------------------------------------------------------------------------------------- */

GRADIENT(identity) {
    grad_give(g, op, "x", grad_thin(g, op));
    return PROPANE_OK;
}

/* An integer x needs a gradient only if an op without a gradient has produced x. The error is reported when the walk
 * reaches that op. */
GRADIENT(cast) {
    const mil_value *x = mil_in(op, "x");
    mil_value *dz = grad_thin(g, op);
    bool same = !mil_dtype_is_float(x->type.dtype) || x->type.dtype == op->results[0]->type.dtype;
    grad_add(g, x, same ? dz : mil_build_cast(grad_build(g), dz, x->type.dtype));
    return PROPANE_OK;
}

GRADIENT(abs) {
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), grad_unary(g, MIL_OP_sign, grad_arg(g, op, "x"))));
    return PROPANE_OK;
}

/* Scales the adjoint, not x, because the adjoint may be thin (grad_thin). */
GRADIENT(square) {
    grad_give(g, op, "x", grad_mul(g, grad_scale(g, grad_thin(g, op), 2), grad_arg(g, op, "x")));
    return PROPANE_OK;
}

GRADIENT(sqrt) {
    grad_give(g, op, "x", grad_div(g, grad_scale(g, grad_thin(g, op), 0.5), grad_result(g, op)));
    return PROPANE_OK;
}

/* The slope of (x + eps)^-1/2 is -1/2 r^3. */
GRADIENT(rsqrt) {
    mil_value *r = grad_result(g, op);
    grad_give(g, op, "x", backward_elementwise_power_gradient(g, grad_thin(g, op), grad_arg(g, op, "x"), r, -0.5));
    return PROPANE_OK;
}

/* The slope of 1 / (x + eps) is -r^2. */
GRADIENT(inverse) {
    mil_value *r = grad_result(g, op);
    grad_give(g, op, "x", backward_elementwise_power_gradient(g, grad_thin(g, op), grad_arg(g, op, "x"), r, -1));
    return PROPANE_OK;
}

GRADIENT(exp) {
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), grad_result(g, op)));
    return PROPANE_OK;
}

GRADIENT(exp2) {
    grad_give(g, op, "x", grad_scale(g, grad_mul(g, grad_thin(g, op), grad_result(g, op)), 0.69314718055994530942));
    return PROPANE_OK;
}

GRADIENT(log) {
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    mil_value *x = grad_arg(g, op, "x");
    if (epsilon > 1e-30) x = grad_shift(g, x, epsilon);
    grad_give(g, op, "x", grad_div(g, grad_thin(g, op), x));
    return PROPANE_OK;
}

GRADIENT(sin) {
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), grad_unary(g, MIL_OP_cos, grad_arg(g, op, "x"))));
    return PROPANE_OK;
}

GRADIENT(cos) {
    mil_value *t = grad_mul(g, grad_thin(g, op), grad_unary(g, MIL_OP_sin, grad_arg(g, op, "x")));
    grad_give(g, op, "x", grad_scale(g, t, -1));
    return PROPANE_OK;
}

/* Computes dz (1 - r^2) as dz - dz r r. */
GRADIENT(tanh) {
    mil_value *dz = grad_thin(g, op), *r = grad_result(g, op);
    grad_give(g, op, "x", grad_minus(g, dz, grad_mul(g, grad_mul(g, dz, r), r)));
    return PROPANE_OK;
}

/* Computes exp(-x^2 / k); an infinite square becomes 0. */
static mil_value *backward_elementwise_bell(grad_context *g, mil_value *x, double k) {
    return grad_unary(g, MIL_OP_exp, grad_scale(g, grad_mul(g, x, x), -1 / k));
}

GRADIENT(erf) {
    mil_value *t = grad_mul(g, grad_thin(g, op), backward_elementwise_bell(g, grad_arg(g, op, "x"), 1));
    grad_give(g, op, "x", grad_scale(g, t, 1.12837916709551257390)); /* 2 / sqrt(pi) */
    return PROPANE_OK;
}

/* The gradient is dz r (1 - r). */
GRADIENT(sigmoid) {
    mil_value *r = grad_result(g, op), *t = grad_mul(g, grad_thin(g, op), r);
    grad_give(g, op, "x", grad_minus(g, t, grad_mul(g, t, r)));
    return PROPANE_OK;
}

/* sign(r) is 1 where x > 0 and 0 elsewhere, so no comparison is needed. */
GRADIENT(relu) {
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), grad_unary(g, MIL_OP_sign, grad_result(g, op))));
    return PROPANE_OK;
}

/* Returns dz where x is between the bounds, and 0 elsewhere. A bound that the type cannot reach is left out. */
static mil_value *backward_elementwise_inside(grad_context *g, mil_value *dz, mil_value *x, mil_dtype dtype,
                                              mil_opcode above, double low, mil_opcode below, double high) {
    double reach = dtype == MIL_fp16 ? 65504 : 1e30;
    mil_value *zero = grad_zero(g, dtype);
    if (low > -reach) dz = grad_select(g, grad_compare(g, above, x, low), dz, zero);
    if (high < reach) dz = grad_select(g, grad_compare(g, below, x, high), dz, zero);
    return dz;
}

GRADIENT(relu6) {
    mil_dtype dtype = op->results[0]->type.dtype;
    mil_value *dz = backward_elementwise_inside(g, grad_thin(g, op), grad_arg(g, op, "x"), dtype, MIL_OP_greater, 0,
                                                MIL_OP_less, 6);
    grad_give(g, op, "x", dz);
    return PROPANE_OK;
}

GRADIENT(clip) {
    double low, high;
    PROPANE_TRY(mil_attr_float(op, "alpha", &low, err));
    PROPANE_TRY(mil_attr_float(op, "beta", &high, err));
    mil_dtype dtype = op->results[0]->type.dtype;
    mil_value *x = grad_arg(g, op, "x");
    grad_give(
        g, op, "x",
        backward_elementwise_inside(g, grad_thin(g, op), x, dtype, MIL_OP_greater_equal, low, MIL_OP_less_equal, high));
    return PROPANE_OK;
}

/* Here z = clip(alpha x + beta, 0, 1). */
GRADIENT(sigmoid_hard) {
    double alpha;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    mil_dtype dtype = op->results[0]->type.dtype;
    mil_value *r = grad_result(g, op);
    grad_give(g, op, "x",
              backward_elementwise_inside(g, grad_scale(g, grad_thin(g, op), alpha), r, dtype, MIL_OP_greater, 0,
                                          MIL_OP_less, 1));
    return PROPANE_OK;
}

/* Computes s + k r (1 - s), with r = x s, as s + k (r - r s), which is finite for every finite x. */
static mil_value *backward_elementwise_swish_slope(grad_context *g, mil_value *s, mil_value *r, double k) {
    mil_value *rest = grad_minus(g, r, grad_mul(g, r, s));
    return grad_plus(g, grad_scale(g, rest, k), s);
}

GRADIENT(silu) {
    mil_value *s = grad_unary(g, MIL_OP_sigmoid, grad_arg(g, op, "x"));
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), backward_elementwise_swish_slope(g, s, grad_result(g, op), 1)));
    return PROPANE_OK;
}

/* Computes Phi(x) + x phi(x). */
static mil_value *backward_elementwise_gelu_exact(grad_context *g, mil_value *x) {
    mil_value *phi =
        grad_shift(g, grad_scale(g, grad_unary(g, MIL_OP_erf, grad_scale(g, x, 0.70710678118654752440)), 0.5), 0.5);
    mil_value *density = grad_scale(g, backward_elementwise_bell(g, x, 2), 0.39894228040143267794); /* 1 / sqrt(2 pi) */
    return grad_plus(g, grad_mul(g, x, density), phi);
}

/* Computes (1 + t)/2 + x/2 (1 - t^2) u'. Beyond +-10, t is +-1 in every precision, and clipping keeps x^3 in fp16's
 * range. */
static mil_value *backward_elementwise_gelu_tanh(grad_context *g, mil_value *x) {
    const double c = 0.79788456080286535588, k = 0.044715;
    mil_value *low = grad_with_float(g, MIL_OP_maximum, x, "y", -10),
              *near = grad_with_float(g, MIL_OP_minimum, low, "y", 10);
    mil_value *square = grad_mul(g, near, near);
    mil_value *u = grad_mul(g, near, grad_shift(g, grad_scale(g, square, c * k), c));
    mil_value *t = grad_unary(g, MIL_OP_tanh, u);
    mil_value *slope = grad_mul(g, near, grad_shift(g, grad_scale(g, square, 1.5 * c * k), 0.5 * c)); /* x u' / 2 */
    mil_value *bent = grad_minus(g, slope, grad_mul(g, grad_mul(g, slope, t), t));
    return grad_plus(g, bent, grad_shift(g, grad_scale(g, t, 0.5), 0.5));
}

GRADIENT(gelu) {
    const char *mode;
    PROPANE_TRY(mil_attr_text(op, "mode", &mode, err));
    mil_value *x = grad_arg(g, op, "x"), *slope;
    if (strcmp(mode, "EXACT") == 0) {
        slope = backward_elementwise_gelu_exact(g, x);
    } else if (strcmp(mode, "TANH_APPROXIMATION") == 0) {
        slope = backward_elementwise_gelu_tanh(g, x);
    } else if (strcmp(mode, "SIGMOID_APPROXIMATION") == 0) {
        mil_value *s = grad_unary(g, MIL_OP_sigmoid, grad_scale(g, x, 1.702));
        slope = backward_elementwise_swish_slope(g, s, grad_result(g, op), 1.702);
    } else {
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "no gradient for mode \"%s\"", mode);
    }
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), slope));
    return PROPANE_OK;
}

GRADIENT(softplus) {
    grad_give(g, op, "x", grad_mul(g, grad_thin(g, op), grad_unary(g, MIL_OP_sigmoid, grad_arg(g, op, "x"))));
    return PROPANE_OK;
}

/* The slope of x / (1 + |x|) is 1 / (1 + |x|)^2; dz is divided twice so that the square cannot overflow. */
GRADIENT(softsign) {
    mil_value *a = grad_shift(g, grad_unary(g, MIL_OP_abs, grad_arg(g, op, "x")), 1);
    grad_give(g, op, "x", grad_div(g, grad_div(g, grad_thin(g, op), a), a));
    return PROPANE_OK;
}

GRADIENT(leaky_relu) {
    double alpha;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    mil_value *dz = grad_of(g, op, 0), *right = grad_compare(g, MIL_OP_greater, grad_arg(g, op, "x"), 0);
    grad_give(g, op, "x", grad_select(g, right, dz, grad_scale(g, dz, alpha)));
    return PROPANE_OK;
}

/* On the left, alpha (exp(x) - 1) has the slope r + alpha. */
GRADIENT(elu) {
    double alpha;
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    mil_value *dz = grad_of(g, op, 0), *right = grad_compare(g, MIL_OP_greater, grad_arg(g, op, "x"), 0);
    grad_give(g, op, "x", grad_select(g, right, dz, grad_mul(g, dz, grad_shift(g, grad_result(g, op), alpha))));
    return PROPANE_OK;
}
