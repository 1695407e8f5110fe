/* SPDX-License-Identifier: MIT
 * Expands conv_quantized: the weights become quant_scale * weight + quant_bias, in fp32, and a convolution uses them.
 * Constant parts are computed when the program is planned.
 */
#include "core/mil/ops/shape_util.h"
#include "cpu/lower/lower.h"

/* Reshapes a number, or one per output channel, for use with the weights. */
static mil_value *lower_quantized_beside(mil_builder *b, mil_value *v, const mil_type *weight) {
    int64_t dim[MIL_MAX_RANK] = {weight->dim[0], 1, 1, 1, 1, 1, 1, 1};
    if (v->type.dtype != MIL_fp32) v = mil_build_cast(b, v, MIL_fp32);
    if (!v || v->type.rank == 0) return v;
    if (v->type.dim[0] == 1) dim[0] = 1;
    return mil_build_reshape(b, v, dim, weight->rank);
}

static mil_value *lower_quantized_as_fp32(mil_builder *b, mil_value *v) {
    return v && v->type.dtype != MIL_fp32 ? mil_build_cast(b, v, MIL_fp32) : v;
}

propane_status cpu_lower_quantized(mil_builder *b, mil_op *op, propane_error *err) {
    static const char *const same[] = {"strides", "pad_type", "pad", "dilations", "groups"};
    mil_value *weight = mil_in(op, "weight"), *bias = lower_quantized_as_fp32(b, mil_in(op, "bias")),
              *x = lower_quantized_as_fp32(b, mil_in(op, "x"));
    mil_value *scale = lower_quantized_beside(b, mil_in(op, "quant_scale"), &weight->type);
    mil_value *shift = lower_quantized_beside(b, mil_in(op, "quant_bias"), &weight->type);
    mil_value *wide = mil_build_cast(b, weight, MIL_fp32), *given[5];
    (void)err;
    if (scale && wide) wide = mil_build_binary(b, MIL_OP_mul, wide, scale);
    if (shift && wide) wide = mil_build_binary(b, MIL_OP_add, wide, shift);
    if (!wide || !x) return b->err.status;
    mil_argument arguments[8] = {{"x", 1, &x}, {"weight", 1, &wide}};
    int count = 2;
    if (bias) arguments[count++] = (mil_argument){"bias", 1, &bias};
    for (int k = 0; k < 5; k++)
        if ((given[k] = mil_in(op, same[k]))) arguments[count++] = (mil_argument){same[k], 1, &given[k]};
    mil_op *conv = mil_build_op(b, MIL_OP_conv, NULL, arguments, count);
    mil_value *y = conv ? conv->results[0] : NULL;
    if (y && y->type.dtype != op->results[0]->type.dtype) y = mil_build_cast(b, y, op->results[0]->type.dtype);
    if (!y) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
