/* SPDX-License-Identifier: MIT
 * Owns the expansion of conv_quantized: the weights become quant_scale * weight + quant_bias, in fp32, and a
 * convolution uses them. Gradients and the cpu driver use this expansion.
 */
#include "core/mil/conv_expanded.h"

#include "core/mil/ops/shape_util.h"

/* Casts a scalar, or one number per output channel, to fp32 and reshapes it to broadcast with the weights. */
static mil_value *conv_expanded_beside(mil_builder *b, mil_value *v, const mil_type *weight) {
    int64_t dim[MIL_MAX_RANK] = {weight->dim[0], 1, 1, 1, 1, 1, 1, 1};
    if (v->type.dtype != MIL_fp32) v = mil_build_cast(b, v, MIL_fp32);
    if (!v || v->type.rank == 0) return v;
    if (v->type.dim[0] == 1) dim[0] = 1;
    return mil_build_reshape(b, v, dim, weight->rank);
}

static mil_value *conv_expanded_fp32(mil_builder *b, mil_value *v) {
    return v && v->type.dtype != MIL_fp32 ? mil_build_cast(b, v, MIL_fp32) : v;
}

mil_value *mil_conv_expanded(mil_builder *b, const mil_op *op) {
    static const char *const same[] = {"strides", "pad_type", "pad", "dilations", "groups"};
    mil_value *weight = mil_in(op, "weight"), *bias = conv_expanded_fp32(b, mil_in(op, "bias")),
              *x = conv_expanded_fp32(b, mil_in(op, "x"));
    mil_value *scale = conv_expanded_beside(b, mil_in(op, "quant_scale"), &weight->type);
    mil_value *shift = conv_expanded_beside(b, mil_in(op, "quant_bias"), &weight->type);
    mil_value *wide = mil_build_cast(b, weight, MIL_fp32), *given[5];
    if (scale && wide) wide = mil_build_binary(b, MIL_OP_mul, wide, scale);
    if (shift && wide) wide = mil_build_binary(b, MIL_OP_add, wide, shift);
    if (!wide || !x) return NULL;
    mil_argument arguments[8] = {{"x", 1, &x}, {"weight", 1, &wide}};
    int count = 2;
    if (bias) arguments[count++] = (mil_argument){"bias", 1, &bias};
    for (int k = 0; k < 5; k++)
        if ((given[k] = mil_in(op, same[k]))) arguments[count++] = (mil_argument){same[k], 1, &given[k]};
    const mil_op *conv = mil_build_op(b, MIL_OP_conv, NULL, arguments, count);
    mil_value *y = conv ? conv->results[0] : NULL;
    return y && y->type.dtype != op->results[0]->type.dtype ? mil_build_cast(b, y, op->results[0]->type.dtype) : y;
}
