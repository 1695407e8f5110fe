/* SPDX-License-Identifier: MIT
 * Owns attention as MIL: rotary positions, the causal mask, and matrix products over one or two spans of keys and
 * values.
 */
#include <math.h>

#include "core/base/memory.h"
#include "lm/arch/forward_internal.h"

void model_rope_tables(const model_config *c, int64_t layer, int64_t first, int64_t count, double *cos_out,
                       double *sin_out) {
    int64_t half = model_config_turns(c, layer) ? model_config_rotary(c) / 2 : 0;
    const bool local = c->rope_local_theta > 0 && model_config_window(c, layer) > 0;
    for (int64_t i = 2 * half * count; i < c->head_dim * count; i++) cos_out[i] = 1, sin_out[i] = 0; /* not rotated */
    for (int64_t i = 0; i < half; i++) {
        const double rate = local ? model_config_local_rate(c, i) : model_config_rope_rate(c, i);
        const double size = local ? 1 : model_config_rope_length(c);
        for (int64_t s = 0; s < count; s++) {
            double angle = (double)(first + s) * rate;
            cos_out[i * count + s] = cos_out[(i + half) * count + s] = size * cos(angle);
            sin_out[i * count + s] = sin_out[(i + half) * count + s] = size * sin(angle);
        }
    }
}

mil_value *forward_rope_turn(forward_context *x) {
    int64_t n = x->c->head_dim, half = model_config_rotary(x->c) / 2;
    double *turn = mem_array((size_t)(n * n), sizeof *turn);
    if (!turn) {
        propane_fail_memory(&x->b.err, (size_t)(n * n) * sizeof *turn);
        return NULL;
    }
    for (int64_t i = 0; i < half; i++) {
        turn[i * n + i + half] = -1;
        turn[(i + half) * n + i] = 1;
    }
    mil_type type = forward_tensor4(x, 1, 1, n, n);
    mil_value *v = mil_build_const_f64(&x->b, "rope_turn", &type, turn);
    mem_free(turn);
    return v;
}

/* Returns a constant's name with the layer's kind appended. Only the whole-model function needs this, because it holds
 * the constants of all kinds. */
static const char *forward_of_kind(forward_context *x, const char *name, int64_t layer) {
    const int kind = x->whole ? model_config_kind(x->c, layer) : 0;
    return kind ? arena_printf(x->b.module->arena, "%s_%d", name, kind) : name;
}

forward_rope forward_rope_constants(forward_context *x, int64_t layer, mil_value *turn) {
    forward_rope r = {.turn = turn};
    if (x->arch->position != ARCH_ROPE || !model_config_turns(x->c, layer)) return r;
    int64_t n = x->c->head_dim, s = x->o->sequence;
    double *tables = mem_array((size_t)(2 * n * s), sizeof *tables);
    if (!tables) {
        propane_fail_memory(&x->b.err, (size_t)(2 * n * s) * sizeof *tables);
        return r;
    }
    model_rope_tables(x->c, layer, x->o->first_position, s, tables, tables + n * s);
    mil_type type = forward_tensor4(x, 1, 1, n, s);
    r.cos = mil_build_const_f64(&x->b, forward_of_kind(x, "rope_cos", layer), &type, tables);
    r.sin = mil_build_const_f64(&x->b, forward_of_kind(x, "rope_sin", layer), &type, tables + n * s);
    if (!r.turn) r.turn = forward_rope_turn(x);
    mem_free(tables);
    return r;
}

/* Returns (-x2, x1) for each head (x1, x2); elements that are not rotated are kept or become 0. */
static mil_value *forward_turned_heads(forward_context *x, const forward_rope *r, mil_value *h, int64_t heads) {
    mil_builder *b = &x->b;
    if (r->turn) return mil_build_matmul(b, r->turn, h, false, false);
    int64_t half = model_config_rotary(x->c) / 2, rest = x->c->head_dim - 2 * half;
    const int64_t first[] = {0, 0, 0, 0}, second[] = {0, 0, half, 0},
                  size[] = {x->o->batch, heads, half, x->o->sequence};
    mil_value *halves[] = {mil_build_binary_scalar(b, MIL_OP_mul, mil_build_slice(b, h, second, size), -1),
                           mil_build_slice(b, h, first, size), NULL};
    const int64_t behind[] = {0, 0, 2 * half, 0}, left[] = {x->o->batch, heads, rest, x->o->sequence};
    if (rest) halves[2] = mil_build_slice(b, h, behind, left); /* these elements are multiplied by sines of 0 */
    return mil_build_concat(b, halves, rest ? 3 : 2, 2);
}

/* Reshapes v [B,heads*HD,1,S] to [B,heads,HD,S], normalises it if there is a norm weight, and rotates each head if
 * there are cosines. `name` is "q" or "k". */
mil_value *forward_heads_of(forward_context *x, const forward_rope *r, mil_value *v, int64_t heads,
                            mil_value *norm_weight, const char *name) {
    mil_builder *b = &x->b;
    arena *a = x->b.module->arena;
    int64_t hd = x->c->head_dim;
    if (norm_weight && norm_weight->type.dim[1] > 1) { /* jointly over all heads */
        forward_stage(x, "qknorm");
        v = forward_divide_by_rms(x, v, 1, heads * hd, x->c->rms_norm_eps, "inverse_rms");
        v = mil_build_binary(b, MIL_OP_mul, forward_label(x, v, arena_printf(a, "%s_normed", name)), norm_weight);
        v = forward_label(x, v, arena_printf(a, "%s_scaled", name));
        norm_weight = NULL;
    }
    if (norm_weight)
        forward_stage(x, "qknorm");
    else if (r->cos)
        forward_stage(x, "rope");
    mil_value *h = forward_label(x, forward_reshape4(x, v, x->o->batch, heads, hd, forward_rows_of(x, x->o->sequence)),
                                 arena_printf(a, "%s_heads", name));
    if (norm_weight) {
        h = forward_label(x, forward_divide_by_rms(x, h, 2, hd, x->c->rms_norm_eps, "inverse_rms"),
                          arena_printf(a, "%s_normed", name));
        h = forward_label(x, mil_build_binary(b, MIL_OP_mul, h, norm_weight), arena_printf(a, "%s_scaled", name));
    }
    if (!r->cos) return h;
    forward_stage(x, "rope");
    mil_value *turned = forward_turned_heads(x, r, h, heads);
    return mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, h, r->cos),
                            mil_build_binary(b, MIL_OP_mul, turned, r->sin));
}

void model_mask(int64_t count, int64_t cache, int64_t filled, int64_t window, float *out) {
    const int64_t most = window ? window : cache + count;
    for (int64_t i = 0; i < count; i++) {
        float *row = out + i * (cache + count);
        for (int64_t j = 0; j < cache; j++) row[j] = j < filled && filled + i - j < most ? 0 : (float)MODEL_MASKED;
        for (int64_t j = 0; j < count; j++) row[cache + j] = j <= i && i - j < most ? 0 : (float)MODEL_MASKED;
    }
}

mil_value *forward_causal_mask(forward_context *x, int64_t layer) {
    int64_t s = x->o->sequence, window = model_config_window(x->c, layer);
    double *mask = mem_array((size_t)(s * s), sizeof *mask);
    if (!mask) {
        propane_fail_memory(&x->b.err, (size_t)(s * s) * sizeof *mask);
        return NULL;
    }
    for (int64_t i = 0; i < s; i++)
        for (int64_t j = 0; j < s; j++)
            if (j > i || (window && i - j >= window)) mask[i * s + j] = MODEL_MASKED;
    mil_type type = forward_tensor4(x, 1, 1, s, s);
    mil_value *v = mil_build_const_f64(&x->b, forward_of_kind(x, "causal_mask", layer), &type, mask);
    mem_free(mask);
    return v;
}

/* Computes the attention result [B,heads*HD,1,S] for queries q [B,heads,HD,S]. The G heads of a group are adjacent, so
 * [B,KVH,G*S,HD] is the same memory as [B,H,S,HD]. A group therefore needs one matrix product with its K and one with
 * its V. */
mil_value *forward_attention(forward_context *x, mil_value *q, const forward_span *spans, int span_count,
                             mil_value *mask) {
    mil_builder *b = &x->b;
    int64_t batch = x->o->batch, s = x->o->sequence, hd = x->c->head_dim, heads = x->c->num_attention_heads;
    int64_t kv = x->c->num_key_value_heads, rows = forward_rows_of(x, heads / kv * s);
    forward_stage(x, "scores");
    const double cap = x->c->attention_softcap, scale = model_config_score_scale(x->c);
    q = mil_build_binary_scalar(b, MIL_OP_mul, q, cap > 0 ? scale / cap : scale);
    if (heads != kv) q = forward_reshape4(x, forward_swap_last_two(x, q), batch, kv, rows, hd);
    mil_value *scores[2] = {NULL, NULL};
    int64_t total = 0;
    for (int i = 0; i < span_count; i++) {
        scores[i] = mil_build_matmul(b, q, spans[i].k, heads == kv, false); /* [B,KVH,G*S,T] */
        total += spans[i].length;
    }
    mil_value *all = span_count == 1 ? scores[0] : mil_build_concat(b, scores, span_count, 3);
    if (heads != kv) all = forward_reshape4(x, all, batch, heads, forward_rows_of(x, s), total);
    if (cap > 0) all = mil_build_binary_scalar(b, MIL_OP_mul, mil_build_unary(b, MIL_OP_tanh, all), cap);
    all = mil_build_binary(b, MIL_OP_add, all, mask);
    forward_stage(x, "softmax");
    mil_value *p = forward_label(x, mil_build_softmax(b, forward_label(x, all, "scores"), -1), "probs");
    forward_stage(x, "mix");
    if (heads != kv) p = forward_reshape4(x, p, batch, kv, rows, total);
    mil_value *mix = NULL;
    int64_t begin = 0;
    for (int i = 0; i < span_count; i++) {
        const int64_t from[] = {0, 0, 0, begin}, size[] = {batch, kv, rows, spans[i].length};
        mil_value *part = span_count == 1 ? p : mil_build_slice(b, p, from, size);
        part = heads == kv ? mil_build_matmul(b, spans[i].v, part, false, true)  /* [B,H,HD,S] */
                           : mil_build_matmul(b, part, spans[i].v, false, true); /* [B,KVH,G*S,HD] */
        mix = mix ? mil_build_binary(b, MIL_OP_add, mix, part) : part;
        begin += spans[i].length;
    }
    forward_label(x, mix, "mix");
    if (heads != kv) mix = forward_swap_last_two(x, forward_reshape4(x, mix, batch, heads, forward_rows_of(x, s), hd));
    return forward_reshape4(x, mix, batch, heads * hd, 1, forward_rows_of(x, s));
}
