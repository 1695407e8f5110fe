/* SPDX-License-Identifier: MIT
 * Owns the forward functions. Each function is built in its own context. The code for a half of a layer serves the
 * separate functions and the whole-model function. A weight that an architecture lacks is NULL.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "lm/arch/forward_internal.h"

const float *model_weight_from(void *weights, model_part part, int layer, const char *param) {
    const model_tensor *t = model_weights_param(weights, part, layer, param);
    return t ? model_weights_data(weights, t) : NULL;
}

/* Subtracts the mean over the channels, the first step of a LayerNorm. Values are divided by sqrt(D) before they are
 * summed, so that the sum stays within fp16's range. */
static mil_value *forward_centre(forward_context *x, mil_value *v) {
    mil_builder *b = &x->b;
    const int64_t axis = 1;
    double part = 1 / sqrt((double)x->c->hidden_size);
    mil_value *sum =
        mil_build_reduce(b, MIL_OP_reduce_sum, mil_build_binary_scalar(b, MIL_OP_mul, v, part), &axis, 1, true);
    mil_value *mean = forward_label(x, mil_build_binary_scalar(b, MIL_OP_mul, sum, part), "mean");
    return forward_label(x, mil_build_binary(b, MIL_OP_sub, v, mean), "centred");
}

mil_value *forward_norm(forward_context *x, mil_value *v, const forward_weights *w) {
    mil_builder *b = &x->b;
    mil_value *scale = forward_weight(w, "norm_weight"), *shift = forward_weight(w, "norm_bias");
    if (!scale) return v; /* the architecture normalises results, not inputs */
    forward_stage(x, "norm");
    if (x->arch->norm == ARCH_LAYER_NORM) v = forward_centre(x, v);
    mil_value *normed = forward_label(
        x, forward_divide_by_rms(x, v, 1, x->c->hidden_size, model_arch_stream_eps(x->c), "inverse_rms"), "normed");
    if (!shift) return forward_label(x, mil_build_binary(b, MIL_OP_mul, normed, scale), "xn");
    return forward_label(x, mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, normed, scale), shift),
                         "xn");
}

mil_value *forward_half_result(forward_context *x, const forward_weights *w, mil_value *y) {
    mil_value *scale = forward_weight(w, "post_weight");
    const double factor = model_arch_residual_scale(x->c);
    if (scale) {
        y = forward_divide_by_rms(x, y, 1, x->c->hidden_size, x->c->rms_norm_eps, "inverse_rms");
        y = mil_build_binary(&x->b, MIL_OP_mul, y, scale);
    }
    return factor == 1 ? y : mil_build_binary_scalar(&x->b, MIL_OP_mul, y, factor);
}

/* ---- the halves of a layer, the head ------------------------------------------------------------------------------------------ */

static mil_value *forward_attn_body(forward_context *x, mil_value *in, const forward_weights *w, const forward_rope *r,
                                    mil_value *mask) {
    int64_t kv = x->c->num_key_value_heads;
    mil_value *xn = forward_norm(x, in, w);
    forward_stage(x, "qkv");
    mil_value *q = forward_linear(x, w, "q_proj", "q_bias", xn, "q");
    mil_value *k = forward_linear(x, w, "k_proj", "k_bias", xn, "k");
    mil_value *v = forward_linear(x, w, "v_proj", "v_bias", xn, "v");
    mil_value *v_heads = forward_label(
        x, forward_reshape4(x, v, x->o->batch, kv, x->c->head_dim, forward_rows_of(x, x->o->sequence)), "v_heads");
    forward_span here = {.v = v_heads, .length = x->o->sequence};
    q = forward_label(x, forward_heads_of(x, r, q, x->c->num_attention_heads, forward_weight(w, "q_norm"), "q"),
                      "q_rope");
    forward_stage(x, "qkv");
    here.k = forward_label(x, forward_heads_of(x, r, k, kv, forward_weight(w, "k_norm"), "k"), "k_rope");
    if (x->cached && x->cached->extend) {
        here.k = x->cached->extend(x->cached->context, &x->b, x->layer, false, here.k);
        here.v = x->cached->extend(x->cached->context, &x->b, x->layer, true, here.v);
        here.length = x->cached->length;
    }
    mil_value *mix = forward_attention(x, q, &here, 1, mask);
    forward_stage(x, "out");
    return forward_half_result(x, w, forward_linear(x, w, "o_proj", "o_bias", mix, "attn"));
}

static mil_value *forward_ffn_body(forward_context *x, mil_value *in, const forward_weights *w) {
    mil_builder *b = &x->b;
    mil_value *xn = forward_norm(x, in, w), *gate = NULL, *act;
    forward_stage(x, "up");
    if (model_arch_is_gated(x->arch)) gate = forward_linear(x, w, "gate_proj", "gate_bias", xn, "gate");
    mil_value *up = forward_linear(x, w, "up_proj", "up_bias", xn, "up");
    mil_value *parts = x->c->num_experts ? forward_linear(x, w, "router", NULL, xn, "router") : NULL;
    forward_stage(x, "act");
    if (parts) parts = forward_expert_parts(x, parts);
    if (x->arch->mlp == ARCH_SILU_GATED) {
        act = mil_build_binary(b, MIL_OP_mul, mil_build_unary(b, MIL_OP_silu, gate), up);
    } else {
        mil_value *mode = mil_build_text(b, "TANH_APPROXIMATION"), *in_gelu = gate ? gate : up;
        const mil_argument arguments[] = {{"x", 1, &in_gelu}, {"mode", 1, &mode}};
        mil_op *op = mil_build_op(b, MIL_OP_gelu, gate ? "gelu" : "act", arguments, 2);
        act = op ? op->results[0] : NULL;
        if (gate) act = mil_build_binary(b, MIL_OP_mul, act, up);
    }
    if (x->c->num_experts) act = forward_choose_experts(x, act, parts);
    act = forward_label(x, act, "act");
    forward_stage(x, "down");
    return forward_half_result(x, w, forward_linear(x, w, "down_proj", "down_bias", act, "down"));
}

static mil_value *forward_head_body(forward_context *x, mil_value *in, const forward_weights *w) {
    mil_value *xn = forward_norm(x, in, w);
    forward_stage(x, "head");
    const double cap = x->c->logits_softcap > 0 ? x->c->logits_softcap : 1;
    const double divisor = cap * (x->c->logits_scaling > 0 ? x->c->logits_scaling : 1);
    if (divisor != 1) xn = mil_build_binary_scalar(&x->b, MIL_OP_mul, xn, 1 / divisor);
    mil_value *y = forward_linear(x, w, "lm_head", NULL, xn, "output");
    if (x->c->logits_softcap <= 0) return y;
    return mil_build_binary_scalar(&x->b, MIL_OP_mul, mil_build_unary(&x->b, MIL_OP_tanh, y), cap);
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------- */

propane_status forward_begin(forward_context *x, mil_module *m, const char *name, const model_config *c,
                             const model_build_options *o, model_part part, int layer, propane_error *err) {
    *x = (forward_context){.c = c, .o = o, .part = part, .layer = layer, .prefix = ""};
    PROPANE_TRY(model_config_check(c, name, err));
    x->arch = model_arch_of(c);
    if (o->dtype != MIL_fp16 && o->dtype != MIL_fp32)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: model functions can be built only in fp16 or fp32",
                            name);
    if (o->batch < 1 || o->batch > 1 << 16 || o->sequence < 1 || o->sequence > 1 << 20)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: batch %lld must be 1 to 65536 and sequence %lld must be 1 to 1048576", name,
                            (long long)o->batch, (long long)o->sequence);
    if (o->first_position < 0 || o->first_position + o->sequence > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: positions %lld to %lld, but the model has max_position_embeddings = %lld", name,
                            (long long)o->first_position, (long long)(o->first_position + o->sequence - 1),
                            (long long)c->max_position_embeddings);
    mil_build_begin(&x->b, m, name, MIL_IOS18);
    return PROPANE_OK;
}

mil_value *forward_input(forward_context *x, const char *name, int64_t a, int64_t b, int64_t c, int64_t d) {
    return mil_build_param(&x->b, name, forward_tensor4(x, a, b, c, d));
}

mil_value *forward_activation(forward_context *x) {
    return forward_input(x, "x", x->o->batch, x->c->hidden_size, 1, x->o->sequence);
}

propane_status forward_end(forward_context *x, mil_function **out, propane_error *err) {
    propane_status status = mil_build_end(&x->b, err);
    *out = status ? NULL : x->b.function;
    return status;
}

mil_value *forward_with_residual(forward_context *x, mil_value *in, mil_value *y) {
    return x->o->residual ? mil_build_binary(&x->b, MIL_OP_add, in, y) : y;
}

propane_status model_build_attn(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                                int layer, mil_function **out, propane_error *err) {
    forward_context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_ATTN, layer, err));
    mil_value *in = forward_activation(&x);
    forward_weights w = forward_declare(&x);
    forward_rope r = forward_rope_constants(&x, layer, NULL);
    mil_value *y = forward_attn_body(&x, in, &w, &r, forward_causal_mask(&x, layer));
    mil_build_result(&x.b, forward_named(&x, y, "o"));
    return forward_end(&x, out, err);
}

propane_status model_build_ffn(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                               int layer, mil_function **out, propane_error *err) {
    forward_context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_FFN, layer, err));
    mil_value *in = forward_activation(&x);
    forward_weights w = forward_declare(&x);
    mil_build_result(&x.b, forward_named(&x, forward_with_residual(&x, in, forward_ffn_body(&x, in, &w)), "y"));
    return forward_end(&x, out, err);
}

propane_status model_build_head(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                                mil_function **out, propane_error *err) {
    forward_context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_HEAD, -1, err));
    mil_value *in = forward_activation(&x);
    forward_weights w = forward_declare(&x);
    mil_build_result(&x.b, forward_named(&x, forward_head_body(&x, in, &w), "logits"));
    return forward_end(&x, out, err);
}

static void forward_at(forward_context *x, model_part part, int layer) {
    x->part = part;
    x->layer = layer;
    x->low_of = NULL;
    x->prefix = part == MODEL_ATTN ? "attn." : part == MODEL_FFN ? "ffn." : "head.";
}

mil_value *model_build_layers(mil_builder *b, const model_config *c, const model_build_options *o,
                              const model_attention *cached, mil_value *v) {
    forward_context x = {.b = *b, .c = c, .arch = model_arch_of(c), .o = o, .whole = true, .cached = cached};
    mil_value *turn = x.arch->position == ARCH_ROPE ? forward_rope_turn(&x) : NULL;
    for (int i = 0; i < c->num_hidden_layers; i++) {
        forward_at(&x, MODEL_ATTN, i);
        forward_weights attn = forward_declare(&x);
        const int k = model_config_kind(c, i);
        const forward_rope r = {.cos = cached->cos[k], .sin = cached->sin[k], .turn = turn};
        v = mil_build_binary(&x.b, MIL_OP_add, v, forward_attn_body(&x, v, &attn, &r, cached->mask[k]));
        forward_at(&x, MODEL_FFN, i);
        forward_weights ffn = forward_declare(&x);
        v = mil_build_binary(&x.b, MIL_OP_add, v, forward_ffn_body(&x, v, &ffn));
    }
    forward_at(&x, MODEL_HEAD, -1);
    forward_weights head = forward_declare(&x);
    v = forward_head_body(&x, v, &head);
    *b = x.b;
    return v;
}
