/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of pooling, transposed and quantised convolution, and local response normalisation.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

propane_status mil_shape_rule_pool(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_conv c;
    PROPANE_TRY(mil_pool_read(op, &c, err));
    out[0] = mil_in(op, "x")->type;
    for (int d = 0; d < c.spatial; d++) out->dim[d + 2] = c.out[d];
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_avg_pool(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    bool exclude = false;
    PROPANE_TRY(mil_attr_bool(op, "exclude_padding_from_average", &exclude, err));
    return mil_shape_rule_pool(op, out, out_count, err);
}

propane_status mil_shape_rule_conv_transpose(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_conv c;
    int64_t count;
    PROPANE_TRY(mil_conv_transpose_read(op, &c, err));
    out[0] = mil_in(op, "x")->type;
    out->dim[1] = c.c_out;
    count = c.n * c.c_out;
    for (int d = 0; d < c.spatial; d++) {
        out->dim[d + 2] = c.in[d];
        if (c.in[d] > MIL_MAX_COUNT / count) return BAD("the result would have more than 2^40 elements");
        count *= c.in[d];
    }
    *out_count = 1;
    return PROPANE_OK;
}

/* Checks that a parameter is a single number, or has one number per output channel. */
static propane_status shape_pool_quant_vector(const mil_op *op, const char *param, int64_t channels,
                                              propane_error *err) {
    const mil_type *type = &mil_in(op, param)->type;
    const int64_t count = mil_type_count(type);
    char text[160];
    if (type->rank > 1 || (count != 1 && count != channels))
        return BAD("%s is %s; it must be one number or one per output channel (%lld)", param,
                   mil_shape_print(text, type), (long long)channels);
    return PROPANE_OK;
}

propane_status mil_shape_rule_conv_quantized(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const char *type = NULL;
    int64_t bits = 0;
    mil_conv c;
    PROPANE_TRY(mil_attr_text(op, "quantization_type", &type, err));
    PROPANE_TRY(mil_attr_int(op, "nbits", &bits, err));
    if (strcmp(type, "linear") != 0)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "quantization_type is \"%.40s\"; only linear is supported",
                           type);
    if (bits < 1 || bits > 8) return BAD("nbits is %lld; it must be 1 to 8", (long long)bits);
    PROPANE_TRY(mil_conv_read(op, &c, err));
    PROPANE_TRY(shape_pool_quant_vector(op, "quant_scale", c.c_out, err));
    PROPANE_TRY(shape_pool_quant_vector(op, "quant_bias", c.c_out, err));
    return mil_shape_rule_conv(op, out, out_count, err);
}

propane_status mil_shape_rule_local_response_norm(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type;
    int64_t size = 0;
    char text[160];
    PROPANE_TRY(mil_attr_int(op, "size", &size, err));
    if (x->rank < 3 || x->rank > 5)
        return BAD("x is %s; it must have rank 3 to 5: batch, channels, space", mil_shape_print(text, x));
    if (size < 1) return BAD("size is %lld; it must be at least 1", (long long)size);
    return mil_shape_rule_same(op, out, out_count, err);
}
