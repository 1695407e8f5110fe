/* SPDX-License-Identifier: MIT
 * Owns the meanings of elementwise ops, casts and quantisation. maximum, relu, clip and similar ops propagate NaN, as
 * in numpy. Ops with an epsilon add the epsilon before they divide or take the logarithm.
 */
#include <math.h>
#include <string.h>

#include "core/base/modulo.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* ---- two operands --------------------------------------------------------------------------------------------------- */

typedef double (*binary)(double x, double y);

static propane_status eval_map_map2(const mil_eval_args *a, binary f) {
    const mil_tensor *x = mil_eval_in(a, "x"), *y = mil_eval_in(a, "y");
    const mil_type *type = &a->out[0].type;
    const int64_t count = mil_type_count(type);
    int64_t step_x[MIL_MAX_RANK], step_y[MIL_MAX_RANK];
    mil_walk w;
    mil_broadcast_strides(&x->type, type, step_x);
    mil_broadcast_strides(&y->type, type, step_y);
    mil_walk_begin(&w, type->rank, type->dim);
    mil_walk_add(&w, step_x);
    mil_walk_add(&w, step_y);
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) a->out[0].data[i] = f(x->data[w.at[0]], y->data[w.at[1]]);
    return PROPANE_OK;
}

#define BINARY(name, expression)                                                                                       \
    static double name##_of(double x, double y) { return expression; }                                                 \
    propane_status mil_eval_##name(const mil_eval_args *a, propane_error *err) { return eval_map_map2(a, name##_of); }

BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, (x * y))
BINARY(real_div, x / y)
BINARY(floor_div, floor_quotient(x, y))
BINARY(mod, floor_remainder(x, y))
BINARY(pow, pow(x, y))
BINARY(maximum, isnan(x) || x > y ? x : y)
BINARY(minimum, isnan(x) || x < y ? x : y)
BINARY(equal, x == y)
BINARY(not_equal, x != y)
BINARY(less, x < y)
BINARY(less_equal, x <= y)
BINARY(greater, x > y)
BINARY(greater_equal, x >= y)
BINARY(logical_and, x != 0.0 && y != 0.0)
BINARY(logical_or, x != 0.0 || y != 0.0)
BINARY(logical_xor, (x != 0.0) != (y != 0.0))

propane_status mil_eval_select(const mil_eval_args *a, propane_error *err) {
    static const char *const names[3] = {"cond", "a", "b"};
    const mil_type *type = &a->out[0].type;
    const int64_t count = mil_type_count(type);
    const mil_tensor *in[3];
    int64_t step[3][MIL_MAX_RANK];
    mil_walk w;
    mil_walk_begin(&w, type->rank, type->dim);
    for (int k = 0; k < 3; k++) {
        in[k] = mil_eval_in(a, names[k]);
        mil_broadcast_strides(&in[k]->type, type, step[k]);
        mil_walk_add(&w, step[k]);
    }
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) {
        const int k = in[0]->data[w.at[0]] != 0.0 ? 1 : 2;
        a->out[0].data[i] = in[k]->data[w.at[k]];
    }
    return PROPANE_OK;
}

/* ---- one operand ---------------------------------------------------------------------------------------------------- */

/* Up to two numbers that an op has in addition to its operand. */
typedef struct numbers {
    double alpha, beta;
} numbers;
typedef double (*unary)(double x, numbers n);

static propane_status eval_map_map1(const mil_eval_args *a, unary f, const char *alpha, const char *beta,
                                    propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const int64_t count = mil_type_count(&x->type);
    numbers n = {0.0, 0.0};
    if (alpha) PROPANE_TRY(mil_attr_float(a->op, alpha, &n.alpha, err));
    if (beta) PROPANE_TRY(mil_attr_float(a->op, beta, &n.beta, err));
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = f(x->data[i], n);
    return PROPANE_OK;
}

static double eval_map_clamp(double x, double low, double high) {
    if (x < low) x = low; /* the upper bound is applied last and wins if the bounds cross */
    return x > high ? high : x;
}

/* Returns x * sigmoid(slope * x), or its limit at minus infinity. */
static double eval_map_swish(double x, double slope) { return x == -INFINITY ? -0.0 : x / (1.0 + exp(-slope * x)); }

#define UNARY(name, alpha, beta, expression)                                                                           \
    static double name##_of(double x, numbers n) {                                                                     \
        (void)n;                                                                                                       \
        return expression;                                                                                             \
    }                                                                                                                  \
    propane_status mil_eval_##name(const mil_eval_args *a, propane_error *err) {                                       \
        return eval_map_map1(a, name##_of, alpha, beta, err);                                                          \
    }

UNARY(abs, NULL, NULL, fabs(x))
UNARY(sign, NULL, NULL, isnan(x) ? x : (x > 0.0) - (x < 0.0))
UNARY(ceil, NULL, NULL, ceil(x))
UNARY(floor, NULL, NULL, floor(x))
UNARY(round, NULL, NULL, nearbyint(x)) /* halves round to even, as in numpy and coremltools */
UNARY(square, NULL, NULL, (x * x))
UNARY(sqrt, NULL, NULL, sqrt(x))
UNARY(rsqrt, "epsilon", NULL, 1.0 / sqrt(x + n.alpha))
UNARY(inverse, "epsilon", NULL, 1.0 / (x + n.alpha))
/* The default 1e-45 is the fp32 number 0x1p-149. */
UNARY(log, "epsilon", NULL, log(x + (double)(float)n.alpha))
UNARY(exp, NULL, NULL, exp(x))
UNARY(exp2, NULL, NULL, exp2(x))
UNARY(sin, NULL, NULL, sin(x))
UNARY(cos, NULL, NULL, cos(x))
UNARY(tanh, NULL, NULL, tanh(x))
UNARY(erf, NULL, NULL, erf(x))
UNARY(sigmoid, NULL, NULL, 1.0 / (1.0 + exp(-x)))
UNARY(relu, NULL, NULL, x < 0.0 ? 0.0 : x)
UNARY(relu6, NULL, NULL, x < 0.0 ? 0.0 : x > 6.0 ? 6.0 : x)
UNARY(silu, NULL, NULL, eval_map_swish(x, 1.0))
UNARY(softplus, NULL, NULL, log1p(exp(-fabs(x))) + (x < 0.0 ? 0.0 : x))
UNARY(softsign, NULL, NULL, x / (1.0 + fabs(x)))
UNARY(leaky_relu, "alpha", NULL, x < 0.0 ? n.alpha * x : x)
UNARY(elu, "alpha", NULL, x < 0.0 ? n.alpha * expm1(x) : x)
UNARY(clip, "alpha", "beta", eval_map_clamp(x, n.alpha, n.beta))
UNARY(logical_not, NULL, NULL, x == 0.0)
UNARY(copy, NULL, NULL, x)

static double eval_map_hard_line(double y) { return y < 0.0 ? 0.0 : y > 1.0 ? 1.0 : y; }
UNARY(sigmoid_hard, "alpha", "beta", eval_map_hard_line(n.beta + n.alpha * x))

/* Uses erfc, which keeps the digits that 1 + erf loses for negative x. All three variants return their limit at minus
 * infinity. */
static double eval_map_gelu_exact(double x, numbers n) {
    return x == -INFINITY ? -0.0 : 0.5 * x * erfc(-x / sqrt(2.0));
}
static double eval_map_gelu_tanh(double x, numbers n) {
    const double u = sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x); /* (1 + tanh(u)) / 2 = sigmoid(2u) */
    return x == -INFINITY ? -0.0 : x / (1.0 + exp(-2.0 * u));
}
static double eval_map_gelu_sigmoid(double x, numbers n) { return eval_map_swish(x, 1.702); }

propane_status mil_eval_gelu(const mil_eval_args *a, propane_error *err) {
    const char *mode = NULL;
    PROPANE_TRY(mil_attr_text(a->op, "mode", &mode, err));
    unary f = !strcmp(mode, "EXACT")                ? eval_map_gelu_exact
              : !strcmp(mode, "TANH_APPROXIMATION") ? eval_map_gelu_tanh
                                                    : eval_map_gelu_sigmoid;
    return eval_map_map1(a, f, NULL, NULL, err);
}

/* To an integer type, a cast rounds toward zero, and values out of range become the nearest value in range (mil_eval_op
 * does both). Between float types the number stays the same; rounding to the narrower type is left to the caller. */
propane_status mil_eval_cast(const mil_eval_args *a, propane_error *err) { return mil_eval_copy(a, err); }

/* ---- quantisation --------------------------------------------------------------------------------------------------- */

typedef double (*quant)(double x, double zero, double scale);
/* mil_eval_op keeps the result within the range of the integer type. */
static double eval_map_quantize_of(double x, double zero, double scale) { return nearbyint(x / scale) + zero; }
static double eval_map_dequantize_of(double x, double zero, double scale) { return scale * (x - zero); }

/* Applies f with scale and zero_point. Each is a single number or has one number per element along `axis`. */
static propane_status eval_map_quant(const mil_eval_args *a, const char *input, quant f, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, input), *scale = mil_eval_in(a, "scale"), *zero = mil_eval_in(a, "zero_point");
    const int64_t count = mil_type_count(&x->type);
    int axis = 0;
    int64_t inner = 1, size = 1;
    if (mil_in(a->op, "axis")) {
        PROPANE_TRY(mil_attr_axis(a->op, "axis", x->type.rank, &axis, err));
        size = x->type.dim[axis];
        for (int d = axis + 1; d < x->type.rank; d++) inner *= x->type.dim[d];
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i / inner % size;
        const double zero_at = !zero ? 0.0 : zero->data[zero->type.rank ? at : 0];
        a->out[0].data[i] = f(x->data[i], zero_at, scale->data[scale->type.rank ? at : 0]);
    }
    return PROPANE_OK;
}

propane_status mil_eval_quantize(const mil_eval_args *a, propane_error *err) {
    return eval_map_quant(a, "input", eval_map_quantize_of, err);
}
propane_status mil_eval_dequantize(const mil_eval_args *a, propane_error *err) {
    return eval_map_quant(a, "input", eval_map_dequantize_of, err);
}
propane_status mil_eval_constexpr_affine(const mil_eval_args *a, propane_error *err) {
    return eval_map_quant(a, "quantized_data", eval_map_dequantize_of, err);
}

/* ---- further activations -------------------------------------------------------------------------------------------- */

UNARY(acos, NULL, NULL, acos(x))
UNARY(asin, NULL, NULL, asin(x))
UNARY(atan, NULL, NULL, atan(x))
UNARY(atanh, NULL, NULL, atanh(x))
UNARY(cosh, NULL, NULL, cosh(x))
UNARY(sinh, NULL, NULL, sinh(x))
UNARY(tan, NULL, NULL, tan(x))
UNARY(linear_activation, "alpha", "beta", n.alpha *x + n.beta)
UNARY(scaled_tanh, "alpha", "beta", n.alpha *tanh(n.beta *x))
UNARY(thresholded_relu, "alpha", NULL, x < n.alpha ? 0.0 : x)

static double eval_map_clamped_line(double y, double beta) { return y > beta ? beta : y; }
UNARY(clamped_relu, "alpha", "beta", eval_map_clamped_line(x < 0.0 ? n.alpha * x : x, n.beta))

/* alpha may be an integer, like x. */
propane_status mil_eval_threshold(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const double alpha = mil_eval_in(a, "alpha")->data[0];
    const int64_t count = mil_type_count(&x->type);
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = x->data[i] < alpha ? alpha : x->data[i];
    return PROPANE_OK;
}

/* alpha and beta have one number per element of dimension 1 of x. */
typedef double (*channel_function)(double x, double alpha, double beta);

static propane_status eval_map_channels(const mil_eval_args *a, channel_function f, const mil_tensor *beta) {
    const mil_tensor *x = mil_eval_in(a, "x"), *alpha = mil_eval_in(a, "alpha");
    const int64_t count = mil_type_count(&x->type), channels = x->type.dim[1];
    int64_t inner = 1;
    for (int d = 2; d < x->type.rank; d++) inner *= x->type.dim[d];
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i / inner % channels;
        a->out[0].data[i] = f(x->data[i], alpha->data[c], beta ? beta->data[c] : 0.0);
    }
    return PROPANE_OK;
}

static double eval_map_prelu_of(double x, double alpha, double beta) { return x < 0.0 ? alpha * x : x; }
static double eval_map_softplus_parametric_of(double x, double alpha, double beta) {
    const double y = beta * x;
    return alpha * (y > 0.0 ? y + log1p(exp(-y)) : log1p(exp(y)));
}

propane_status mil_eval_prelu(const mil_eval_args *a, propane_error *err) {
    return eval_map_channels(a, eval_map_prelu_of, NULL);
}
propane_status mil_eval_softplus_parametric(const mil_eval_args *a, propane_error *err) {
    return eval_map_channels(a, eval_map_softplus_parametric_of, mil_eval_in(a, "beta"));
}
