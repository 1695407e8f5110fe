/* SPDX-License-Identifier: MIT
 * Owns the choice of experts as MIL. Every expert is computed, and experts that are not chosen get weight 0. Shapes are
 * then the same for every input, as engines require, and gradients follow from the operations. The K-th largest weight
 * is found by K maxima instead of topk, which runs on no engine. All experts whose weights equal the K-th largest in
 * fp16 are chosen.
 */
#include "lm/arch/forward_internal.h"

static const int64_t channels = 1;

/* Returns 1 where a < b, else 0. */
static mil_value *forward_below(forward_context *x, mil_value *a, mil_value *b) {
    mil_value *sign = mil_build_unary(&x->b, MIL_OP_sign, mil_build_binary(&x->b, MIL_OP_sub, b, a));
    return mil_build_unary(&x->b, MIL_OP_relu, sign);
}

static mil_value *forward_largest(forward_context *x, mil_value *v) {
    return mil_build_reduce(&x->b, MIL_OP_reduce_max, v, &channels, 1, true);
}

mil_value *forward_expert_parts(forward_context *x, mil_value *router) {
    mil_builder *b = &x->b;
    mil_value *parts = forward_label(x, mil_build_softmax(b, router, 1), "parts"), *left = parts;
    for (int64_t k = 1; k < x->c->num_experts_per_tok; k++)
        left = mil_build_binary(b, MIL_OP_mul, left, forward_below(x, left, forward_largest(x, left)));
    mil_value *rest = forward_below(x, parts, forward_largest(x, left));
    mil_value *kept = mil_build_binary(b, MIL_OP_sub, parts, mil_build_binary(b, MIL_OP_mul, parts, rest));
    if (!x->c->norm_topk_prob) return kept;
    return mil_build_binary(b, MIL_OP_real_div, kept, mil_build_reduce(b, MIL_OP_reduce_sum, kept, &channels, 1, true));
}

mil_value *forward_choose_experts(forward_context *x, mil_value *act, mil_value *parts) {
    const int64_t batch = x->o->batch, experts = x->c->num_experts, size = x->c->moe_intermediate_size;
    const int64_t positions = forward_rows_of(x, x->o->sequence);
    act = forward_reshape4(x, act, batch, experts, size, positions);
    act = mil_build_binary(&x->b, MIL_OP_mul, act, parts);
    return forward_reshape4(x, act, batch, experts * size, 1, positions);
}
