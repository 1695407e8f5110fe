/* SPDX-License-Identifier: MIT
 * Expands composite operations (the normalisations and attention) into elementwise operations, reductions and matrix
 * products, so that the planner can fuse them. fp16 values are computed in fp32 between the casts, which cost nothing
 * inside a fused step.
 */
#include <math.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/cpu_family.h"
#include "cpu/lower/lower.h"

static mil_value *lower_widened(mil_builder *b, mil_value *x) {
    return x && x->type.dtype == MIL_fp16 ? mil_build_cast(b, x, MIL_fp32) : x;
}

static mil_value *lower_reciprocal_root(mil_builder *b, mil_value *x, double epsilon) {
    mil_value *number = x ? mil_build_scalar(b, x->type.dtype, epsilon) : NULL;
    mil_op *op =
        number ? mil_build_op(b, MIL_OP_rsqrt, NULL, (mil_argument[]){{"x", 1, &x}, {"epsilon", 1, &number}}, 2) : NULL;
    return op ? op->results[0] : NULL;
}

/* Reshapes a vector of C values to [1, C, 1, ...] for use with `x`. */
static mil_value *lower_along_channels(mil_builder *b, mil_value *v, const mil_value *x) {
    int64_t dim[MIL_MAX_RANK];
    if (!v) return NULL;
    for (int d = 0; d < x->type.rank; d++) dim[d] = d == 1 ? x->type.dim[1] : 1;
    return mil_build_reshape(b, lower_widened(b, v), dim, x->type.rank);
}

static mil_value *lower_scaled(mil_builder *b, mil_value *x, mil_value *gamma, mil_value *beta) {
    if (gamma) x = mil_build_binary(b, MIL_OP_mul, x, gamma);
    if (beta) x = mil_build_binary(b, MIL_OP_add, x, beta);
    return x;
}

/* Normalizes to mean 0 and variance 1 over the axes. */
static mil_value *lower_normalised(mil_builder *b, mil_value *x, const int64_t *axes, int count, double epsilon) {
    mil_value *mean = mil_build_reduce(b, MIL_OP_reduce_mean, x, axes, count, true);
    mil_value *centred = mil_build_binary(b, MIL_OP_sub, x, mean);
    mil_value *square = mil_build_binary(b, MIL_OP_mul, centred, centred);
    mil_value *variance = mil_build_reduce(b, MIL_OP_reduce_mean, square, axes, count, true);
    return mil_build_binary(b, MIL_OP_mul, centred, lower_reciprocal_root(b, variance, epsilon));
}

static propane_status lower_replace(mil_builder *b, mil_op *op, mil_value *y) {
    mil_value *old = op->results[0];
    if (y && old->type.dtype == MIL_fp16 && y->type.dtype == MIL_fp32) y = mil_build_cast(b, y, MIL_fp16);
    if (b->err.status) return b->err.status;
    mil_replace_uses(op->function, old, y);
    mil_op_remove(op);
    return PROPANE_OK;
}

propane_status cpu_lower_layer_norm(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x"), *gamma = lower_widened(b, mil_in(op, "gamma")),
              *beta = lower_widened(b, mil_in(op, "beta"));
    bool member[MIL_MAX_RANK];
    int64_t axes[MIL_MAX_RANK], dim[MIL_MAX_RANK];
    int count = 0;
    double epsilon;
    PROPANE_TRY(mil_attr_axes(op, "axes", x->type.rank, member, err));
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    for (int d = 0; d < x->type.rank; d++) {
        dim[d] = member[d] ? x->type.dim[d] : 1;
        if (member[d]) axes[count++] = d;
    }
    if (gamma) gamma = mil_build_reshape(b, gamma, dim, x->type.rank);
    if (beta) beta = mil_build_reshape(b, beta, dim, x->type.rank);
    return lower_replace(b, op,
                         lower_scaled(b, lower_normalised(b, lower_widened(b, x), axes, count, epsilon), gamma, beta));
}

/* Uses one statement per operand, because the compiler chooses the order in which a call's arguments add operations,
 * and the plan would follow that order. */
static mil_value *lower_scaled_along_channels(mil_builder *b, const mil_op *op, mil_value *x, mil_value *y) {
    mil_value *beta = lower_along_channels(b, mil_in(op, "beta"), x);
    mil_value *gamma = lower_along_channels(b, mil_in(op, "gamma"), x);
    return lower_scaled(b, y, gamma, beta);
}

propane_status cpu_lower_instance_norm(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    int64_t axes[MIL_MAX_RANK];
    int count = 0;
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    for (int d = 2; d < x->type.rank; d++) axes[count++] = d;
    mil_value *y = lower_normalised(b, lower_widened(b, x), axes, count, epsilon);
    return lower_replace(b, op, lower_scaled_along_channels(b, op, x, y));
}

propane_status cpu_lower_batch_norm(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x"), *wide = lower_widened(b, x);
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    mil_value *root = lower_reciprocal_root(b, lower_along_channels(b, mil_in(op, "variance"), x), epsilon);
    mil_value *y = mil_build_binary(b, MIL_OP_sub, wide, lower_along_channels(b, mil_in(op, "mean"), x));
    y = mil_build_binary(b, MIL_OP_mul, y, root);
    return lower_replace(b, op, lower_scaled_along_channels(b, op, x, y));
}

propane_status cpu_lower_l2_norm(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *x = lower_widened(b, mil_in(op, "x"));
    double epsilon;
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    if (!x) return b->err.status;
    const int64_t rank = x->type.rank, axes[3] = {rank - 3, rank - 2, rank - 1};
    mil_value *sum = mil_build_reduce(b, MIL_OP_reduce_sum_square, x, axes, 3, true);
    return lower_replace(b, op, mil_build_binary(b, MIL_OP_mul, x, lower_reciprocal_root(b, sum, epsilon)));
}

/* The scores are fp32 between the matrix products, which read fp16 directly. */
propane_status cpu_lower_sdpa(mil_builder *b, mil_op *op, propane_error *err) {
    mil_sdpa shape;
    PROPANE_TRY(mil_sdpa_read(op, &shape, err));
    mil_value *q = lower_widened(b, mil_in(op, "query")), *k = lower_widened(b, mil_in(op, "key"));
    mil_value *v = lower_widened(b, mil_in(op, "value")), *mask = mil_in(op, "attn_mask");
    mil_value *scores = mil_build_matmul(b, q, k, false, true);
    scores = mil_build_binary_scalar(b, MIL_OP_mul, scores, 1 / sqrt((double)shape.e));
    if (mask && mask->type.dtype == MIL_bool) {
        mil_value *never = mil_build_scalar(b, MIL_fp32, -INFINITY);
        const mil_argument arguments[] = {{"cond", 1, &mask}, {"a", 1, &scores}, {"b", 1, &never}};
        mil_op *chosen = mil_build_op(b, MIL_OP_select, NULL, arguments, 3);
        scores = chosen ? chosen->results[0] : NULL;
    } else if (mask) {
        scores = mil_build_binary(b, MIL_OP_add, scores, lower_widened(b, mask));
    }
    if (!scores) return b->err.status;
    mil_value *p = mil_build_softmax(b, scores, shape.scores.rank - 1);
    return lower_replace(b, op, mil_build_matmul(b, p, v, false, false));
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

typedef propane_status (*lowering)(mil_builder *b, mil_op *op, propane_error *err);

static const lowering lowerings[CPU_FAMILY_COUNT] = {
#define FAMILY(name)
#define LOWERING(name) [CPU_FAMILY_lower_##name] = cpu_lower_##name,
#include "cpu/families.def"
};

static bool lower_has_constant_result(const mil_op *op) { return op->result_count && op->results[0]->constant; }

static propane_status lower_operations(mil_function *f, propane_error *err) {
    mil_op *next;
    for (mil_op *op = f->first; op; op = next) {
        const lowering lower = lowerings[cpu_family_named(op)];
        next = op->next;
        mil_replace_settle(op);
        if (!lower || lower_has_constant_result(op)) continue;
        mil_builder b = {0};
        mil_build_resume(&b, f);
        b.before = op;
        b.stage = op->stage;
        b.backward = op->backward;
        if (lower(&b, op, err) != PROPANE_OK) {
            if (b.err.status && err) *err = b.err;
            return b.err.status ? b.err.status : err ? err->status : PROPANE_ERR_INVALID;
        }
    }
    return PROPANE_OK;
}

propane_status cpu_lower_function(mil_function *f, propane_error *err) {
    mil_replace_begin(f);
    const propane_status status = lower_operations(f, err);
    mil_replace_end(f);
    return status;
}
