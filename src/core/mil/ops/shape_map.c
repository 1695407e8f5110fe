/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of constants, elementwise ops, casts, quantisation and classify. A result has the type of
 * an operand, or the shape of operands broadcast against each other.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static propane_status shape_map_one(mil_type *out, int *out_count, mil_type type) {
    out[0] = type;
    *out_count = 1;
    return PROPANE_OK;
}

/* The result has the type of the first operand. */
propane_status mil_shape_rule_same(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_map_one(out, out_count, op->operands[0].values[0]->type);
}

propane_status mil_shape_rule_const(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_map_one(out, out_count, mil_in(op, "val")->type);
}

static propane_status shape_map_join(const mil_op *op, const char *name_a, const mil_type *a, const char *name_b,
                                     const mil_type *b, mil_type *out, propane_error *err) {
    int bad = 0;
    if (mil_broadcast(a, b, out, &bad)) return PROPANE_OK;
    const int rank = a->rank > b->rank ? a->rank : b->rank;
    char text_a[160], text_b[160];
    return BAD("%s %s and %s %s cannot be broadcast: dimension %d is %lld and %lld; sizes must be equal or 1", name_a,
               mil_shape_print(text_a, a), name_b, mil_shape_print(text_b, b), bad - rank,
               (long long)a->dim[bad - (rank - a->rank)], (long long)b->dim[bad - (rank - b->rank)]);
}

propane_status mil_shape_rule_broadcast(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    *out_count = 1;
    return shape_map_join(op, "x", &mil_in(op, "x")->type, "y", &mil_in(op, "y")->type, out, err);
}

propane_status mil_shape_rule_compare(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    PROPANE_TRY(mil_shape_rule_broadcast(op, out, out_count, err));
    out->dtype = MIL_bool;
    return PROPANE_OK;
}

propane_status mil_shape_rule_select(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_type both;
    const mil_type *a = &mil_in(op, "a")->type;
    PROPANE_TRY(shape_map_join(op, "a", a, "b", &mil_in(op, "b")->type, &both, err));
    PROPANE_TRY(shape_map_join(op, "cond", &mil_in(op, "cond")->type, "a and b", &both, out, err));
    out->dtype = a->dtype;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_gelu(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const char *mode = NULL;
    PROPANE_TRY(mil_attr_text(op, "mode", &mode, err));
    if (strcmp(mode, "EXACT") != 0 && strcmp(mode, "TANH_APPROXIMATION") != 0 &&
        strcmp(mode, "SIGMOID_APPROXIMATION") != 0)
        return BAD("mode is \"%.40s\"; it must be EXACT, TANH_APPROXIMATION or SIGMOID_APPROXIMATION", mode);
    return mil_shape_rule_same(op, out, out_count, err);
}

propane_status mil_shape_rule_cast(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    static const mil_dtype targets[] = {MIL_fp16,  MIL_fp32,   MIL_int8,  MIL_uint8,
                                        MIL_int16, MIL_uint16, MIL_int32, MIL_bool};
    const char *name = NULL;
    PROPANE_TRY(mil_attr_text(op, "dtype", &name, err));
    mil_dtype dtype = mil_dtype_from_name(name, strlen(name));
    bool known = false;
    for (size_t k = 0; k < sizeof targets / sizeof targets[0]; k++) known |= dtype == targets[k];
    if (!known)
        return BAD("dtype is \"%.40s\"; it must be fp16, fp32, int8, uint8, int16, uint16, int32 or bool", name);
    PROPANE_TRY(mil_shape_rule_same(op, out, out_count, err));
    out->dtype = dtype;
    return PROPANE_OK;
}

/* ---- quantisation --------------------------------------------------------------------------------------------------- */

/* Checks a scale or zero point: a scalar, or one number per element along `axis`. */
static propane_status shape_map_per_axis(const mil_op *op, const char *param, const mil_type *data, int axis,
                                         propane_error *err) {
    const mil_value *value = mil_in(op, param);
    char text[160];
    if (!value || value->type.rank == 0) return PROPANE_OK;
    if (value->type.rank != 1)
        return BAD("%s is %s; it must be a scalar or a vector", param, mil_shape_print(text, &value->type));
    if (axis < 0) return BAD("%s is a vector, but axis is missing", param);
    if (value->type.dim[0] != data->dim[axis])
        return BAD("%s has %lld entries, but dimension %d has %lld elements", param, (long long)value->type.dim[0],
                   axis, (long long)data->dim[axis]);
    return PROPANE_OK;
}

/* Checks scale, zero_point and axis of the quantisation ops. */
static propane_status shape_map_quant_params(const mil_op *op, const char *input, propane_error *err) {
    const mil_type *data = &mil_in(op, input)->type, *scale = &mil_in(op, "scale")->type;
    int axis = -1;
    if (mil_in(op, "axis")) PROPANE_TRY(mil_attr_axis(op, "axis", data->rank, &axis, err));
    PROPANE_TRY(shape_map_per_axis(op, "scale", data, axis, err));
    PROPANE_TRY(shape_map_per_axis(op, "zero_point", data, axis, err));
    if (scale->dtype != MIL_fp16 && scale->dtype != MIL_fp32)
        return BAD("scale is %s; it must be fp16 or fp32", mil_dtype_get(scale->dtype)->name);
    return PROPANE_OK;
}

static bool shape_map_is_byte(mil_dtype dtype) { return dtype == MIL_int8 || dtype == MIL_uint8; }

propane_status mil_shape_rule_quantize(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const char *name = NULL;
    PROPANE_TRY(mil_attr_text(op, "output_dtype", &name, err));
    mil_dtype dtype = mil_dtype_from_name(name, strlen(name));
    if (!shape_map_is_byte(dtype)) return BAD("output_dtype is \"%.40s\"; it must be int8 or uint8", name);
    PROPANE_TRY(shape_map_quant_params(op, "input", err));
    const mil_value *zero = mil_in(op, "zero_point"), *input = mil_in(op, "input"), *scale = mil_in(op, "scale");
    if (zero && zero->type.dtype != dtype)
        return BAD("zero_point is %s, but output_dtype is %s", mil_dtype_get(zero->type.dtype)->name, name);
    if (scale->type.dtype != input->type.dtype)
        return BAD("scale is %s, but input is %s", mil_dtype_get(scale->type.dtype)->name,
                   mil_dtype_get(input->type.dtype)->name);
    out[0] = input->type;
    out->dtype = dtype;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_dequantize(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_value *zero = mil_in(op, "zero_point"), *input = mil_in(op, "input");
    PROPANE_TRY(shape_map_quant_params(op, "input", err));
    if (zero && zero->type.dtype != input->type.dtype)
        return BAD("zero_point is %s, but input is %s", mil_dtype_get(zero->type.dtype)->name,
                   mil_dtype_get(input->type.dtype)->name);
    out[0] = input->type;
    out->dtype = mil_in(op, "scale")->type.dtype;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_constexpr_affine(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *data = &mil_in(op, "quantized_data")->type, *zero = &mil_in(op, "zero_point")->type;
    if (!shape_map_is_byte(data->dtype))
        return BAD("quantized_data is %s; it must be int8 or uint8", mil_dtype_get(data->dtype)->name);
    if (!shape_map_is_byte(zero->dtype) && zero->dtype != MIL_fp32)
        return BAD("zero_point is %s; it must be int8, uint8 or fp32", mil_dtype_get(zero->dtype)->name);
    PROPANE_TRY(shape_map_quant_params(op, "quantized_data", err));
    out[0] = *data;
    out->dtype = mil_in(op, "scale")->type.dtype;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- activations with parameters ------------------------------------------------------------------------------------- */

/* alpha is one number of x's element type. */
propane_status mil_shape_rule_threshold(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type, *alpha = &mil_in(op, "alpha")->type;
    char text[160];
    if (alpha->rank != 0 || alpha->dtype != x->dtype)
        return BAD("alpha is %s; it must be one %s, like x", mil_type_print(text, alpha),
                   mil_dtype_get(x->dtype)->name);
    return mil_shape_rule_same(op, out, out_count, err);
}

static propane_status shape_map_per_channel(const mil_op *op, const char *param, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type, *v = &mil_in(op, param)->type;
    char text[160];
    if (x->rank < 3 || x->rank > 5)
        return BAD("x is %s; it must have rank 3 to 5: batch, channels, space", mil_shape_print(text, x));
    if (v->rank != 1 || v->dim[0] != x->dim[1])
        return BAD("%s is %s; it must be [%lld], one number per channel", param, mil_shape_print(text, v),
                   (long long)x->dim[1]);
    return PROPANE_OK;
}

propane_status mil_shape_rule_prelu(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    PROPANE_TRY(shape_map_per_channel(op, "alpha", err));
    return mil_shape_rule_same(op, out, out_count, err);
}

propane_status mil_shape_rule_softplus_parametric(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    PROPANE_TRY(shape_map_per_channel(op, "alpha", err));
    PROPANE_TRY(shape_map_per_channel(op, "beta", err));
    return mil_shape_rule_same(op, out, out_count, err);
}

/* The result has the shape of ref_tensor and the element type of value (fp32 if it is left out). */
propane_status mil_shape_rule_fill_like(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_value *value = mil_in(op, "value");
    char text[160];
    if (value && (mil_type_count(&value->type) != 1 || value->type.dtype == MIL_string))
        return BAD("value is %s; it must be one number", mil_type_print(text, &value->type));
    out[0] = mil_in(op, "ref_tensor")->type;
    out->dtype = value ? value->type.dtype : MIL_fp32;
    *out_count = 1;
    return PROPANE_OK;
}

/* The results are the most probable class, and a dictionary from classes to probabilities. */
propane_status mil_shape_rule_classify(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *p = &mil_in(op, "probabilities")->type, *classes = &mil_in(op, "classes")->type;
    const int64_t count = mil_type_count(classes);
    if (classes->dtype != MIL_string && classes->dtype != MIL_int64)
        return BAD("classes are %s; they must be string or int64", mil_dtype_get(classes->dtype)->name);
    if (mil_type_count(p) != count)
        return BAD("there are %lld classes for %lld probabilities", (long long)count, (long long)mil_type_count(p));
    out[0] = mil_type_scalar(classes->dtype);
    out[1] = (mil_type){.dtype = MIL_fp64, .container = MIL_DICT, .key = classes->dtype};
    *out_count = 2;
    return PROPANE_OK;
}
