/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of reductions, normalisations, matrix products, convolution, einsum and attention.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_reduce_type_of(const mil_op *op, const char *param) {
    const mil_value *value = mil_in(op, param);
    return value ? &value->type : NULL;
}

/* Returns the shape of `x` with the member dimensions removed, or set to 1 if `keep`. */
static mil_type shape_reduce_without(const mil_type *x, const bool member[MIL_MAX_RANK], bool keep) {
    mil_type out = {.dtype = x->dtype};
    for (int d = 0; d < x->rank; d++) {
        if (!member[d])
            out.dim[out.rank++] = x->dim[d];
        else if (keep)
            out.dim[out.rank++] = 1;
    }
    return out;
}

propane_status mil_shape_rule_reduce(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_reduce_type_of(op, "x");
    bool member[MIL_MAX_RANK], keep = false;
    PROPANE_TRY(mil_attr_axes(op, "axes", x->rank, member, err));
    PROPANE_TRY(mil_attr_bool(op, "keep_dims", &keep, err));
    out[0] = shape_reduce_without(x, member, keep);
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_reduce_arg(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_reduce_type_of(op, "x");
    bool member[MIL_MAX_RANK] = {false}, keep = false;
    const char *dtype = NULL;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "keep_dims", &keep, err));
    PROPANE_TRY(mil_attr_text(op, "output_dtype", &dtype, err));
    const bool is_short = !strcmp(dtype, "uint16");
    if (!is_short && strcmp(dtype, "int32") != 0)
        return BAD("output_dtype is \"%.40s\"; it must be int32 or uint16", dtype);
    if (is_short && x->dim[axis] > 65536)
        return BAD("output_dtype is uint16, but dimension %d has %lld elements", axis, (long long)x->dim[axis]);
    member[axis] = true;
    out[0] = shape_reduce_without(x, member, keep);
    out->dtype = is_short ? MIL_uint16 : MIL_int32;
    *out_count = 1;
    return PROPANE_OK;
}

/* Serves cumsum and softmax: the shape is unchanged, and the axis must exist. */
propane_status mil_shape_rule_softmax(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", shape_reduce_type_of(op, "x")->rank, &axis, err));
    return mil_shape_rule_same(op, out, out_count, err);
}

propane_status mil_shape_rule_cumsum(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    bool flag = false;
    PROPANE_TRY(mil_attr_bool(op, "exclusive", &flag, err));
    PROPANE_TRY(mil_attr_bool(op, "reverse", &flag, err));
    return mil_shape_rule_softmax(op, out, out_count, err);
}

/* ---- normalisation -------------------------------------------------------------------------------------------------- */

static propane_status shape_reduce_expect_shape(const mil_op *op, const char *param, const mil_type *want,
                                                propane_error *err) {
    const mil_type *type = shape_reduce_type_of(op, param);
    char have[160], wanted[160];
    if (!type || mil_shape_equal(type, want)) return PROPANE_OK;
    return BAD("%s is %s; it must be %s", param, mil_shape_print(have, type), mil_shape_print(wanted, want));
}

propane_status mil_shape_rule_layer_norm(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_reduce_type_of(op, "x");
    bool member[MIL_MAX_RANK], rest[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_axes(op, "axes", x->rank, member, err));
    for (int d = 0; d < x->rank; d++) rest[d] = !member[d];
    mil_type normal = shape_reduce_without(x, rest, false);
    PROPANE_TRY(shape_reduce_expect_shape(op, "gamma", &normal, err));
    PROPANE_TRY(shape_reduce_expect_shape(op, "beta", &normal, err));
    return mil_shape_rule_same(op, out, out_count, err);
}

static propane_status shape_reduce_channel_norm(const mil_op *op, int max_rank, const char *const *params,
                                                mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_reduce_type_of(op, "x");
    char text[160];
    if (x->rank < 3 || x->rank > max_rank)
        return BAD("x is %s; it must have rank 3 to %d: batch, channels, space", mil_shape_print(text, x), max_rank);
    mil_type channels = {.rank = 1, .dim = {x->dim[1]}};
    for (; *params; params++) PROPANE_TRY(shape_reduce_expect_shape(op, *params, &channels, err));
    return mil_shape_rule_same(op, out, out_count, err);
}

propane_status mil_shape_rule_batch_norm(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    static const char *const params[] = {"mean", "variance", "gamma", "beta", NULL};
    return shape_reduce_channel_norm(op, 5, params, out, out_count, err);
}

propane_status mil_shape_rule_instance_norm(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    static const char *const params[] = {"gamma", "beta", NULL};
    return shape_reduce_channel_norm(op, 5, params, out, out_count, err);
}

propane_status mil_shape_rule_l2_norm(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    char text[160];
    if (shape_reduce_type_of(op, "x")->rank < 3)
        return BAD("x is %s; l2_norm normalizes over the last three dimensions",
                   mil_shape_print(text, shape_reduce_type_of(op, "x")));
    return mil_shape_rule_same(op, out, out_count, err);
}

/* ---- matrix products ------------------------------------------------------------------------------------------------ */

static bool shape_reduce_is_weight(const mil_value *v) {
    return v->is_inline || (v->def && v->def->info->code == MIL_OP_const);
}

/* Checks that x and y are both integers or both floats. They may be mixed if one of them is a weight. */
static propane_status shape_reduce_factors(const mil_op *op, const char *x, const char *y, propane_error *err) {
    const mil_value *a = mil_in(op, x), *b = mil_in(op, y);
    if (!b || mil_dtype_is_float(a->type.dtype) == mil_dtype_is_float(b->type.dtype)) return PROPANE_OK;
    if (shape_reduce_is_weight(a) || shape_reduce_is_weight(b)) return PROPANE_OK;
    return BAD("%s is %s and %s is %s; if one is an integer and one a float, one must be a constant", x,
               mil_dtype_get(a->type.dtype)->name, y, mil_dtype_get(b->type.dtype)->name);
}

propane_status mil_shape_rule_matmul(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_matmul m;
    PROPANE_TRY(mil_matmul_read(op, &m, err));
    PROPANE_TRY(shape_reduce_factors(op, "x", "y", err));
    out[0] = m.result;
    /* The product of a weight and an activation has the activation's type. */
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    out->dtype = shape_reduce_is_weight(x) && !shape_reduce_is_weight(y) ? y->type.dtype : x->type.dtype;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_linear(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_reduce_type_of(op, "x"), *weight = shape_reduce_type_of(op, "weight");
    char text[160];
    if (x->rank < 1) return BAD("x is a scalar; linear takes [..., inputs]");
    if (weight->rank != 2) return BAD("weight is %s; it must be [outputs, inputs]", mil_shape_print(text, weight));
    if (weight->dim[1] != x->dim[x->rank - 1])
        return BAD("weight has %lld inputs, but the last dimension of x has %lld elements", (long long)weight->dim[1],
                   (long long)x->dim[x->rank - 1]);
    mil_type outputs = {.rank = 1, .dim = {weight->dim[0]}};
    PROPANE_TRY(shape_reduce_expect_shape(op, "bias", &outputs, err));
    PROPANE_TRY(shape_reduce_factors(op, "x", "weight", err));
    PROPANE_TRY(shape_reduce_factors(op, "x", "bias", err));
    out[0] = *x;
    out->dim[x->rank - 1] = weight->dim[0];
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_conv(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_conv c;
    PROPANE_TRY(mil_conv_read(op, &c, err));
    out[0] = *shape_reduce_type_of(op, "x");
    out->dim[1] = c.c_out;
    for (int d = 0; d < c.spatial; d++) out->dim[d + 2] = c.out[d];
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_einsum(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_einsum e;
    mil_value *const *values = NULL;
    PROPANE_TRY(mil_einsum_read(op, &e, err));
    (void)mil_in_list(op, "values", &values);
    out[0] = (mil_type){.dtype = values[0]->type.dtype, .rank = e.result_rank};
    memcpy(out->dim, e.size, (size_t)e.result_rank * sizeof out->dim[0]);
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_sdpa(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_sdpa s;
    PROPANE_TRY(mil_sdpa_read(op, &s, err));
    out[0] = s.scores;
    out->dim[out->rank - 1] = s.v;
    *out_count = 1;
    return PROPANE_OK;
}
