/* SPDX-License-Identifier: MIT
 * Owns attention for generation, in two forms. In the first, a cache is an input and its new rows are results; in the
 * second, the new rows are scattered into the cache. Caches outside 1 .. 2^24 positions are refused.
 */
#include "lm/arch/forward_internal.h"

/* The values that both forms share: inputs, and new queries, keys and values. */
typedef struct decode {
    forward_context x;
    mil_value *in, *k_cache, *v_cache, *mask, *q, *k, *v; /* q, k and v are [B,heads,HD,N]; q and k are rotated */
    forward_weights w;
} decode;

static propane_status forward_begin_decode(decode *d, mil_module *m, const char *name, const model_config *c,
                                           const model_build_options *o, int layer, int64_t cache, int64_t seen,
                                           mil_value **rows, propane_error *err) {
    forward_context *x = &d->x;
    PROPANE_TRY(forward_begin(x, m, name, c, o, MODEL_ATTN, layer, err));
    if (cache < 1 || cache > 1 << 24)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: a cache of %lld positions; it must be from 1 to 16777216",
                            name, (long long)cache);
    int64_t batch = o->batch, n = o->sequence, hd = c->head_dim, kv = c->num_key_value_heads;
    mil_value *in = d->in = forward_activation(x);
    d->k_cache = forward_input(x, "k_cache", batch, cache, kv, hd);
    d->v_cache = forward_input(x, "v_cache", batch, cache, kv, hd);
    if (rows) *rows = mil_build_param(&x->b, "rows", mil_type_tensor(MIL_int32, 1, &n));
    forward_rope r = {0};
    if (x->arch->position == ARCH_ROPE) {
        r.cos = forward_input(x, "cos", 1, 1, hd, n);
        r.sin = forward_input(x, "sin", 1, 1, hd, n);
    }
    d->mask = forward_input(x, "mask", 1, 1, n, seen);
    d->w = forward_declare(x);
    if (x->arch->position == ARCH_ROPE && !rows)
        r.turn = forward_rope_turn(x); /* a device that supports row scatter also supports slices */
    mil_value *xn = forward_norm(x, in, &d->w);
    forward_stage(x, "qkv");
    mil_value *q = forward_linear(x, &d->w, "q_proj", "q_bias", xn, "q");
    mil_value *k = forward_linear(x, &d->w, "k_proj", "k_bias", xn, "k");
    mil_value *v = forward_linear(x, &d->w, "v_proj", "v_bias", xn, "v");
    d->v = forward_reshape4(x, v, batch, kv, hd, n);
    d->q = forward_heads_of(x, &r, q, c->num_attention_heads, forward_weight(&d->w, "q_norm"), "q");
    d->k = forward_heads_of(x, &r, k, kv, forward_weight(&d->w, "k_norm"), "k");
    return PROPANE_OK;
}

static propane_status forward_end_decode(decode *d, mil_value *mix, mil_value *k_out, mil_value *v_out,
                                         mil_function **out, propane_error *err) {
    forward_context *x = &d->x;
    forward_stage(x, "out");
    mil_value *y = forward_half_result(x, &d->w, forward_linear(x, &d->w, "o_proj", "o_bias", mix, "attn"));
    mil_build_result(&x->b, forward_named(x, forward_with_residual(x, d->in, y), "o"));
    mil_build_result(&x->b, k_out);
    mil_build_result(&x->b, v_out);
    return forward_end(x, out, err);
}

static const int64_t to_heads[] = {0, 2, 3, 1}, to_rows[] = {0, 3, 1, 2};

propane_status model_build_attn_decode(mil_module *m, const char *name, const model_config *c,
                                       const model_build_options *o, int layer, int64_t cache, mil_function **out,
                                       propane_error *err) {
    decode d;
    PROPANE_TRY(forward_begin_decode(&d, m, name, c, o, layer, cache, cache + o->sequence, NULL, err));
    mil_builder *b = &d.x.b;
    forward_span spans[] = {
        {mil_build_transpose(b, d.k_cache, to_heads, 4), mil_build_transpose(b, d.v_cache, to_heads, 4), cache},
        {d.k, d.v, o->sequence}};
    mil_value *v_new = forward_named(&d.x, mil_build_transpose(b, d.v, to_rows, 4), "v_new");
    mil_value *k_new = forward_named(&d.x, mil_build_transpose(b, d.k, to_rows, 4), "k_new");
    return forward_end_decode(&d, forward_attention(&d.x, d.q, spans, 2, d.mask), k_new, v_new, out, err);
}

/* Returns the cache with the new rows `fresh` written at `rows`. */
static mil_value *forward_put_rows(forward_context *x, mil_value *cache, mil_value *rows, mil_value *fresh,
                                   const char *name) {
    mil_builder *b = &x->b;
    mil_value *axis = mil_build_int(b, 1), *mode = mil_build_text(b, "update");
    mil_value *updates = mil_build_transpose(b, fresh, to_rows, 4);
    const mil_argument arguments[] = {
        {"data", 1, &cache}, {"indices", 1, &rows}, {"updates", 1, &updates}, {"axis", 1, &axis}, {"mode", 1, &mode}};
    mil_op *op = mil_build_op(b, MIL_OP_scatter, name, arguments, 5);
    return op ? forward_named(x, op->results[0], name) : NULL;
}

propane_status model_build_attn_cached(mil_module *m, const char *name, const model_config *c,
                                       const model_build_options *o, int layer, int64_t cache, mil_function **out,
                                       propane_error *err) {
    decode d;
    mil_value *rows = NULL;
    PROPANE_TRY(forward_begin_decode(&d, m, name, c, o, layer, cache, cache, &rows, err));
    mil_builder *b = &d.x.b;
    mil_value *k = forward_put_rows(&d.x, d.k_cache, rows, d.k, "k_cache_out");
    mil_value *v = forward_put_rows(&d.x, d.v_cache, rows, d.v, "v_cache_out");
    forward_span all = {mil_build_transpose(b, k, to_heads, 4), mil_build_transpose(b, v, to_heads, 4), cache};
    return forward_end_decode(&d, forward_attention(&d.x, d.q, &all, 1, d.mask), k, v, out, err);
}
