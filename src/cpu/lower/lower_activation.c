/* SPDX-License-Identifier: MIT
 * Expands elementwise operations with parameters into simpler elementwise operations, which fuse with their neighbours.
 */
#include "core/mil/ops/shape_util.h"
#include "cpu/lower/lower.h"

static mil_value *lower_activation_binary(mil_builder *b, mil_opcode code, mil_value *x, mil_value *y) {
    return mil_build_binary(b, code, x, y);
}

static mil_value *lower_activation_chosen(mil_builder *b, mil_value *cond, mil_value *x, mil_value *y) {
    const mil_argument arguments[] = {{"cond", 1, &cond}, {"a", 1, &x}, {"b", 1, &y}};
    mil_op *op = cond && x && y ? mil_build_op(b, MIL_OP_select, NULL, arguments, 3) : NULL;
    return op ? op->results[0] : NULL;
}

/* Reshapes a vector of channels for use with x, in x's element type. */
static mil_value *lower_activation_beside(mil_builder *b, mil_value *v, const mil_value *x) {
    int64_t dim[MIL_MAX_RANK];
    for (int d = 0; d < x->type.rank; d++) dim[d] = d == 1 ? x->type.dim[1] : 1;
    if (v->type.dtype != x->type.dtype) v = mil_build_cast(b, v, x->type.dtype);
    return mil_build_reshape(b, v, dim, x->type.rank);
}

/* Computes in fp32 if x or a parameter is fp32, and casts the result to the element type of x. */
static mil_value *lower_activation_per_channel(mil_builder *b, const mil_op *op) {
    const bool prelu = op->info->code == MIL_OP_prelu;
    mil_value *alpha = mil_in(op, "alpha"), *beta = prelu ? alpha : mil_in(op, "beta"), *x = mil_in(op, "x"), *y;
    const mil_dtype kept = x->type.dtype;
    if (alpha->type.dtype == MIL_fp32 || beta->type.dtype == MIL_fp32) x = mil_build_cast(b, x, MIL_fp32);
    if (!x) return NULL;
    alpha = lower_activation_beside(b, alpha, x);
    if (prelu) {
        mil_value *below = lower_activation_binary(b, MIL_OP_less, x, mil_build_scalar(b, x->type.dtype, 0.0));
        y = lower_activation_chosen(b, below, lower_activation_binary(b, MIL_OP_mul, x, alpha), x);
    } else {
        y = lower_activation_binary(b, MIL_OP_mul, x, lower_activation_beside(b, beta, x));
        y = lower_activation_binary(b, MIL_OP_mul, y ? mil_build_unary(b, MIL_OP_softplus, y) : NULL, alpha);
    }
    return y && y->type.dtype != kept ? mil_build_cast(b, y, kept) : y;
}

static mil_value *lower_activation_written_out(mil_builder *b, const mil_op *op, double alpha, double beta) {
    mil_value *x = mil_in(op, "x"), *zero = mil_build_scalar(b, x->type.dtype, 0.0);
    switch (op->info->code) {
    case MIL_OP_scaled_tanh:
        x = mil_build_unary(b, MIL_OP_tanh, mil_build_binary_scalar(b, MIL_OP_mul, x, beta));
        return mil_build_binary_scalar(b, MIL_OP_mul, x, alpha);
    case MIL_OP_clamped_relu: {
        mil_value *left = mil_build_binary_scalar(b, MIL_OP_mul, x, alpha);
        x = lower_activation_chosen(b, lower_activation_binary(b, MIL_OP_less, x, zero), left, x);
        return mil_build_binary_scalar(b, MIL_OP_minimum, x, beta);
    }
    case MIL_OP_thresholded_relu:
        return lower_activation_chosen(b, mil_build_binary_scalar(b, MIL_OP_less, x, alpha), zero, x);
    case MIL_OP_threshold: return lower_activation_binary(b, MIL_OP_maximum, x, mil_in(op, "alpha"));
    default: return lower_activation_per_channel(b, op);
    }
}

/* Sets *out to the parameter if the operation's row has it as a number, else to 0. */
static propane_status lower_activation_number(const mil_op *op, const char *param, double *out, propane_error *err) {
    const int at = mil_op_param(op->info, param);
    *out = 0.0;
    return at >= 0 && op->info->params[at].type_class == MIL_CLASS_K_FLOAT ? mil_attr_float(op, param, out, err)
                                                                           : PROPANE_OK;
}

propane_status cpu_lower_activation(mil_builder *b, mil_op *op, propane_error *err) {
    double alpha, beta;
    PROPANE_TRY(lower_activation_number(op, "alpha", &alpha, err));
    PROPANE_TRY(lower_activation_number(op, "beta", &beta, err));
    mil_value *y = lower_activation_written_out(b, op, alpha, beta);
    if (b->err.status) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
