/* SPDX-License-Identifier: MIT
 * Owns the gradients of reductions, softmax and normalisations. The gradient of a reduction is a thin adjoint, which
 * the op that uses it broadcasts. Elements are scaled before their squares are summed, as in the forward functions, and
 * means are sums of scaled elements. Both keep fp16 in range.
 *
 * Equal largest (or smallest) elements share their gradient evenly.
 */
#include <math.h>

#include "core/grad/rules.h"

/* The values that every reduction rule starts from. */
typedef struct reduction {
    grad_axes axes;
    mil_type type;     /* of x */
    mil_value *x, *dz; /* dz and r with the reduced dimensions kept as 1 */
    mil_value *r;
} reduction;

static propane_status backward_reduce_reduction_get(grad_context *g, const mil_op *op, reduction *out,
                                                    propane_error *err) {
    out->type = mil_in(op, "x")->type;
    PROPANE_TRY(grad_axes_get(op, "axes", &out->type, &out->axes, err));
    out->x = grad_arg(g, op, "x");
    out->dz = grad_reshape(g, grad_of(g, op, 0), out->type.rank, out->axes.kept);
    out->r = NULL;
    return PROPANE_OK;
}

static mil_value *backward_reduce_kept_result(grad_context *g, const mil_op *op, const reduction *d) {
    return grad_reshape(g, grad_result(g, op), d->type.rank, d->axes.kept);
}

static mil_value *backward_reduce_sum_again(grad_context *g, const reduction *d, mil_value *x) {
    return grad_sum(g, x, d->axes.list, d->axes.count);
}

/* Returns a number smaller than any useful divisor, but normal in the type. */
static double backward_reduce_tiny(mil_dtype dtype) { return dtype == MIL_fp16 ? 0x1p-14 : 0x1p-100; }

GRADIENT(reduce_sum) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    grad_give(g, op, "x", d.dz);
    return PROPANE_OK;
}

GRADIENT(reduce_mean) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    grad_give(g, op, "x", grad_scale(g, d.dz, 1.0 / (double)d.axes.elements));
    return PROPANE_OK;
}

static propane_status backward_reduce_extreme(grad_context *g, const mil_op *op, propane_error *err) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    mil_value *hit = mil_build_binary(grad_build(g), MIL_OP_equal, d.x, backward_reduce_kept_result(g, op, &d));
    mil_value *one = mil_build_cast(grad_build(g), hit, d.type.dtype);
    grad_give(g, op, "x", grad_mul(g, one, grad_div(g, d.dz, backward_reduce_sum_again(g, &d, one))));
    return PROPANE_OK;
}

GRADIENT(reduce_max) { return backward_reduce_extreme(g, op, err); }
GRADIENT(reduce_min) { return backward_reduce_extreme(g, op, err); }

/* Computes the product of the other elements. Let P be the product of the elements that are not 0. The result is P/x if
 * none is 0, and P at the 0 if one is; otherwise it is 0. */
GRADIENT(reduce_prod) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    mil_builder *b = grad_build(g);
    mil_value *is_zero = grad_compare(g, MIL_OP_equal, d.x, 0), *one = mil_build_scalar(b, d.type.dtype, 1);
    mil_value *zeros = backward_reduce_sum_again(g, &d, mil_build_cast(b, is_zero, d.type.dtype));
    mil_value *safe = grad_select(g, is_zero, one, d.x);
    mil_value *product = safe; /* for a scalar */
    if (d.axes.count) product = mil_build_reduce(b, MIL_OP_reduce_prod, safe, d.axes.list, d.axes.count, true);
    mil_value *none = mil_build_cast(b, grad_compare(g, MIL_OP_equal, zeros, 0), d.type.dtype);
    mil_value *single = mil_build_cast(b, grad_compare(g, MIL_OP_equal, zeros, 1), d.type.dtype);
    mil_value *share = grad_select(g, is_zero, single, grad_div(g, none, safe));
    grad_give(g, op, "x", grad_mul(g, grad_mul(g, d.dz, product), share));
    return PROPANE_OK;
}

GRADIENT(reduce_l1_norm) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    grad_give(g, op, "x", grad_mul(g, d.dz, grad_unary(g, MIL_OP_sign, d.x)));
    return PROPANE_OK;
}

/* The slope is x / r; a zero vector gets 0. */
GRADIENT(reduce_l2_norm) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    mil_value *r = grad_with_float(g, MIL_OP_maximum, backward_reduce_kept_result(g, op, &d), "y",
                                   backward_reduce_tiny(d.type.dtype));
    grad_give(g, op, "x", grad_mul(g, d.dz, grad_div(g, d.x, r)));
    return PROPANE_OK;
}

GRADIENT(reduce_sum_square) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    grad_give(g, op, "x", grad_mul(g, grad_scale(g, d.dz, 2), d.x));
    return PROPANE_OK;
}

GRADIENT(reduce_log_sum) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    grad_give(g, op, "x", grad_div(g, d.dz, backward_reduce_sum_again(g, &d, d.x)));
    return PROPANE_OK;
}

GRADIENT(reduce_log_sum_exp) {
    reduction d;
    PROPANE_TRY(backward_reduce_reduction_get(g, op, &d, err));
    mil_value *share = grad_unary(g, MIL_OP_exp, grad_minus(g, d.x, backward_reduce_kept_result(g, op, &d)));
    grad_give(g, op, "x", grad_mul(g, d.dz, share));
    return PROPANE_OK;
}

/* The gradient is the same sum, run in the opposite direction. */
GRADIENT(cumsum) {
    int axis;
    bool exclusive, reverse;
    PROPANE_TRY(grad_axis_get(op, &mil_in(op, "x")->type, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "exclusive", &exclusive, err));
    PROPANE_TRY(mil_attr_bool(op, "reverse", &reverse, err));
    mil_builder *b = grad_build(g);
    mil_value *dz = grad_of(g, op, 0), *at = mil_build_int(b, axis);
    mil_value *e = mil_build_bool(b, exclusive), *r = mil_build_bool(b, !reverse);
    mil_op *sum =
        mil_build_op(b, MIL_OP_cumsum, NULL,
                     (mil_argument[]){{"x", 1, &dz}, {"axis", 1, &at}, {"exclusive", 1, &e}, {"reverse", 1, &r}}, 4);
    grad_give(g, op, "x", sum ? sum->results[0] : NULL);
    return PROPANE_OK;
}

/* Computes P (dP - sum(P dP)). */
GRADIENT(softmax) {
    int axis;
    PROPANE_TRY(grad_axis_get(op, &mil_in(op, "x")->type, &axis, err));
    mil_value *dp = grad_of(g, op, 0), *p = grad_result(g, op);
    mil_value *dot = grad_sum(g, grad_mul(g, p, dp), (int64_t[]){axis}, 1);
    grad_give(g, op, "x", grad_mul(g, p, grad_minus(g, dp, dot)));
    return PROPANE_OK;
}

/* ---- normalisations ---------------------------------------------------------------------------------------------- */

static mil_value *backward_reduce_mean_of(grad_context *g, const grad_axes *axes, mil_value *x) {
    return grad_sum(g, grad_scale(g, x, 1.0 / (double)axes->elements), axes->list, axes->count);
}

/* Reshapes gamma [some of x's dimensions] to [1, .., C, .., 1]. */
static mil_value *backward_reduce_spread_affine(grad_context *g, const mil_op *op, const char *param, const mil_type *x,
                                                const bool on[MIL_MAX_RANK]) {
    int64_t dim[MIL_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dim[i] = on[i] ? x->dim[i] : 1;
    mil_value *v = grad_arg(g, op, param);
    return v ? grad_reshape(g, v, x->rank, dim) : NULL;
}

/* Gives gamma or beta its adjoint: the sum over the dimensions of x that `on` does not contain. */
static void backward_reduce_give_affine(grad_context *g, const mil_op *op, const char *param, const mil_type *x,
                                        const bool on[MIL_MAX_RANK], mil_value *adjoint) {
    int64_t axes[MIL_MAX_RANK];
    int count = 0;
    for (int i = 0; i < x->rank; i++)
        if (!on[i] && x->dim[i] > 1) axes[count++] = i;
    grad_give(g, op, param, grad_reshape_as(g, grad_sum(g, adjoint, axes, count), &mil_in(op, param)->type));
}

/* Handles (x - mean) / sqrt(variance + eps) over `axes`, times gamma plus beta along `affine`. */
static propane_status backward_reduce_normalised(grad_context *g, const mil_op *op, const grad_axes *axes,
                                                 const bool affine[MIL_MAX_RANK], propane_error *err) {
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    const mil_type type = mil_in(op, "x")->type;
    mil_value *dz = grad_of(g, op, 0), *x = grad_arg(g, op, "x");
    if (grad_wants(g, op, "beta")) backward_reduce_give_affine(g, op, "beta", &type, affine, dz);
    if (!grad_wants(g, op, "x") && !grad_wants(g, op, "gamma")) return PROPANE_OK;
    mil_value *centred = grad_minus(g, x, backward_reduce_mean_of(g, axes, x));
    mil_value *scaled = grad_scale(g, centred, 1.0 / sqrt((double)axes->elements));
    mil_value *variance = grad_sum(g, grad_mul(g, scaled, scaled), axes->list, axes->count);
    mil_value *r = grad_with_float(g, MIL_OP_rsqrt, variance, "epsilon", epsilon);
    mil_value *hat = grad_mul(g, centred, r);
    if (grad_wants(g, op, "gamma")) backward_reduce_give_affine(g, op, "gamma", &type, affine, grad_mul(g, dz, hat));
    if (!grad_wants(g, op, "x")) return PROPANE_OK;
    mil_value *gamma = backward_reduce_spread_affine(g, op, "gamma", &type, affine);
    mil_value *dy = gamma ? grad_mul(g, dz, gamma) : dz;
    mil_value *along = grad_mul(g, hat, backward_reduce_mean_of(g, axes, grad_mul(g, dy, hat)));
    mil_value *rest = grad_minus(g, grad_minus(g, dy, backward_reduce_mean_of(g, axes, dy)), along);
    grad_give(g, op, "x", grad_mul(g, rest, r));
    return PROPANE_OK;
}

GRADIENT(layer_norm) {
    grad_axes axes;
    PROPANE_TRY(grad_axes_get(op, "axes", &mil_in(op, "x")->type, &axes, err));
    return backward_reduce_normalised(g, op, &axes, axes.on, err);
}

GRADIENT(instance_norm) {
    const mil_type *type = &mil_in(op, "x")->type;
    grad_axes axes = {0};
    bool channel[MIL_MAX_RANK] = {0};
    for (int i = 2; i < type->rank; i++) axes.on[i] = true;
    channel[1] = true;
    grad_axes_set(&axes, type);
    return backward_reduce_normalised(g, op, &axes, channel, err);
}

/* The statistics are operands, so each has its gradient. */
GRADIENT(batch_norm) {
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    const mil_type type = mil_in(op, "x")->type;
    bool channel[MIL_MAX_RANK] = {0};
    channel[1] = true;
    mil_value *dz = grad_of(g, op, 0), *x = grad_arg(g, op, "x");
    mil_value *mean = backward_reduce_spread_affine(g, op, "mean", &type, channel),
              *gamma = backward_reduce_spread_affine(g, op, "gamma", &type, channel);
    mil_value *variance = backward_reduce_spread_affine(g, op, "variance", &type, channel);
    mil_value *r = grad_with_float(g, MIL_OP_rsqrt, variance, "epsilon", epsilon); /* [1,C,1..] */
    if (grad_wants(g, op, "beta")) backward_reduce_give_affine(g, op, "beta", &type, channel, dz);
    bool deep = grad_wants(g, op, "gamma") || grad_wants(g, op, "variance");
    mil_value *hat = deep ? grad_mul(g, grad_minus(g, x, mean), r) : NULL;
    if (grad_wants(g, op, "gamma")) backward_reduce_give_affine(g, op, "gamma", &type, channel, grad_mul(g, dz, hat));
    mil_value *slope = gamma ? grad_mul(g, r, gamma) : r;
    bool inner = grad_wants(g, op, "x") || grad_wants(g, op, "mean") || grad_wants(g, op, "variance");
    mil_value *dx = inner ? grad_mul(g, dz, slope) : NULL;
    if (grad_wants(g, op, "x")) grad_give(g, op, "x", dx);
    if (grad_wants(g, op, "mean")) backward_reduce_give_affine(g, op, "mean", &type, channel, grad_scale(g, dx, -1));
    if (grad_wants(g, op, "variance")) {
        mil_value *t = grad_mul(g, grad_mul(g, dx, hat), r); /* dz gamma (x - mean) r^3 */
        backward_reduce_give_affine(g, op, "variance", &type, channel, grad_scale(g, t, -0.5));
    }
    return PROPANE_OK;
}

/* For x / sqrt(sum of squares over the last three dimensions + eps), the gradient is r (dz - y sum(y dz)). */
GRADIENT(l2_norm) {
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    const mil_type type = mil_in(op, "x")->type;
    grad_axes axes = {0};
    for (int i = type.rank > 3 ? type.rank - 3 : 0; i < type.rank; i++) axes.on[i] = true;
    grad_axes_set(&axes, &type);
    mil_value *dz = grad_of(g, op, 0), *x = grad_arg(g, op, "x"), *y = grad_result(g, op);
    mil_value *squares = grad_sum(g, grad_mul(g, x, x), axes.list, axes.count);
    mil_value *r = grad_with_float(g, MIL_OP_rsqrt, squares, "epsilon", epsilon);
    mil_value *dot = grad_sum(g, grad_mul(g, y, dz), axes.list, axes.count);
    grad_give(g, op, "x", grad_mul(g, grad_minus(g, dz, grad_mul(g, y, dot)), r));
    return PROPANE_OK;
}

/* ---- norms that a program spells out ----------------------------------------------------------------------------- */

static const mil_op *backward_reduce_made_by(const mil_value *v, mil_opcode code) {
    return v && v->def && v->def->info->code == code ? v->def : NULL;
}

/* Returns whether `square` is (c v)^2 for a number c, which may be 1. */
static bool backward_reduce_is_square_of(const mil_value *square, const mil_value *v, double *c) {
    const mil_op *op = backward_reduce_made_by(square, MIL_OP_square);
    const mil_value *root = op ? mil_in(op, "x") : NULL;
    const mil_op *scale = backward_reduce_made_by(root, MIL_OP_mul);
    *c = 1;
    if (!root || root == v) return root != NULL;
    for (int k = 0; scale && k < 2; k++) {
        const mil_const *number = mil_in(scale, k ? "x" : "y")->constant;
        if (mil_in(scale, k ? "y" : "x") != v || !number || mil_type_count(&number->type) != 1) continue;
        *c = mil_const_f64(number, 0);
        return true;
    }
    return false;
}

/* Returns whether r is 1 / sqrt(sum of (k v)^2 + epsilon) over `axes`, which are kept with size 1. */
static bool backward_reduce_is_norm_of(const mil_value *r, const mil_value *v, grad_axes *axes, double *k) {
    const mil_op *root = backward_reduce_made_by(r, MIL_OP_rsqrt);
    const mil_op *sum = root ? backward_reduce_made_by(mil_in(root, "x"), MIL_OP_reduce_sum) : NULL;
    const mil_op *mean = root ? backward_reduce_made_by(mil_in(root, "x"), MIL_OP_reduce_mean) : NULL;
    const mil_op *op = sum ? sum : mean;
    bool kept = false;
    if (!op || !backward_reduce_is_square_of(mil_in(op, "x"), v, k)) return false;
    if (mil_attr_bool(op, "keep_dims", &kept, NULL) != PROPANE_OK || !kept) return false;
    if (grad_axes_get(op, "axes", &v->type, axes, NULL) != PROPANE_OK) return false;
    if (mean) *k /= sqrt((double)axes->elements);
    return true;
}

/* With u = k v r, whose squares have the sum 1, the gradient of v r is r (dz - u sum(u dz)). The separate rules of the
 * ops would use the slope of r, which contains r^3 and overflows fp16 where v is small. */
bool grad_norm_spelt_out(grad_context *g, const mil_op *op) {
    const mil_value *result = op->results[0];
    if (result->type.dtype != MIL_fp16) return false;
    for (int side = 0; side < 2; side++) {
        const char *param = side ? "y" : "x", *factor = side ? "x" : "y";
        const mil_value *v = mil_in(op, param);
        grad_axes axes;
        double k;
        if (!grad_wants(g, op, param) || !mil_type_equal(&v->type, &result->type)) continue;
        if (!backward_reduce_is_norm_of(mil_in(op, factor), v, &axes, &k)) continue;
        mil_value *dz = grad_of(g, op, 0), *u = grad_scale(g, grad_result(g, op), k);
        mil_value *dot = grad_sum(g, grad_mul(g, dz, u), axes.list, axes.count);
        grad_give(g, op, param, grad_mul(g, grad_minus(g, dz, grad_mul(g, u, dot)), grad_arg(g, op, factor)));
        return true;
    }
    return false;
}
