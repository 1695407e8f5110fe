/* SPDX-License-Identifier: MIT
 * Owns the forward functions. One context per function; the halves of a layer are written once and used by the separate
 * functions, by generation and by the whole-model function alike. What an architecture does not have is a NULL weight.
 */
#include "model/arch/forward.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/float16.h"
#include "base/memory.h"
#include "model/arch/arch.h"

typedef struct context {
    mil_builder b;
    const model_config *c;
    const model_arch *arch;
    const model_build_options *o;
    model_part part;
    int layer;
    const char *prefix; /* of stages: "", "attn.", ... */
    bool whole;         /* parameter names carry the layer */
    const char *low_of; /* the parameter whose A made `low`, in this half */
    mil_value *low;
    const model_attention *cached; /* NULL: attention sees this sequence alone */
} context;

const float *model_weight_from(void *weights, model_part part, int layer, const char *param) {
    const model_tensor *t = model_weights_param(weights, part, layer, param);
    return t ? model_weights_data(weights, t) : NULL;
}

static void forward_stage(context *x, const char *name) {
    x->b.stage = *x->prefix ? arena_printf(x->b.module->arena, "%s%s", x->prefix, name) : name;
}

static mil_type forward_tensor4(const context *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t dim[] = {a, b, c, d};
    return mil_type_tensor(x->o->dtype, 4, dim);
}

static mil_value *forward_reshape4(context *x, mil_value *v, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t dim[] = {a, b, c, d};
    return mil_build_reshape(&x->b, v, dim, 4);
}

/* A number of rows that a reshape shall give; where positions are open, what is left over. */
static int64_t forward_rows_of(const context *x, int64_t rows) { return x->cached && x->cached->open ? -1 : rows; }

static mil_value *forward_swap_last_two(context *x, mil_value *v) {
    const int64_t perm[] = {0, 1, 3, 2};
    return mil_build_transpose(&x->b, v, perm, 4);
}

/* ---- weights ------------------------------------------------------------------------------------------------------------- */

/* The name of a weight's parameter or constant. In the whole-model function both halves have a norm. */
static const char *forward_weight_name(context *x, const char *param) {
    if (!x->whole || x->part == MODEL_HEAD) return param;
    bool norm = strncmp(param, "norm_", 5) == 0;
    return arena_printf(x->b.module->arena, "%s%s_%d",
                        !norm                   ? ""
                        : x->part == MODEL_ATTN ? "attn_"
                                                : "ffn_",
                        param, x->layer);
}

static mil_value *forward_constant_weight(context *x, const char *name, const char *param, const mil_type *type) {
    const float *data = x->o->baked(x->o->baked_context, x->part, x->layer, param);
    int64_t count = mil_type_count(type);
    if (!data) {
        propane_fail(&x->b.err, PROPANE_ERR_NOT_FOUND, "the model has no weight '%s' in layer %d", param, x->layer);
        return NULL;
    }
    if (type->dtype == MIL_fp32) return mil_build_const(&x->b, name, type, data);
    uint16_t *half = mem_array((size_t)count, sizeof *half);
    if (!half) {
        propane_fail_memory(&x->b.err, (size_t)count * sizeof *half);
        return NULL;
    }
    fp16_from_f32_array(half, data, (size_t)count);
    mil_value *v = mil_build_const(&x->b, name, type, half);
    mem_free(half);
    return v;
}

/* What the value is called in programs and plans, unless another layer's has the name already. */
static mil_value *forward_call(context *x, mil_value *v, const char *name) {
    if (v && mil_rename(x->b.function, v, name, NULL)) return v;
    return v;
}

/* A matrix [out, in]: a parameter of that shape, or the constant [out, in, 1, 1] that a convolution takes. */
static mil_value *forward_matrix(context *x, const char *param, int64_t out, int64_t in) {
    const char *name = forward_weight_name(x, param);
    if (!name) return NULL; /* out of memory: the builder will find out by itself */
    if (x->o->baked) {
        mil_type type = forward_tensor4(x, out, in, 1, 1);
        return forward_constant_weight(x, name, param, &type);
    }
    return model_pack_build(&x->b, x->o->packing, x->o->dtype, name, out, in);
}

/* A vector, shaped so that it broadcasts over what it scales or shifts: channels, or the rows of a head. */
static mil_value *forward_vector(context *x, const char *param, arch_size size) {
    const char *name = forward_weight_name(x, param);
    int64_t n = model_arch_size(x->c, size);
    mil_type type = size == ARCH_HD ? forward_tensor4(x, 1, 1, n, 1) : forward_tensor4(x, 1, n, 1, 1);
    if (!name) return NULL;
    return x->o->baked ? forward_constant_weight(x, name, param, &type) : mil_build_param(&x->b, name, type);
}

/* The weights of a part in the order of the architecture's rows. */
enum { WEIGHTS_MAX = 32 };
typedef struct part_weights {
    int count;
    const char *params[WEIGHTS_MAX];
    mil_value *values[WEIGHTS_MAX];
} part_weights;

static void forward_add_weight(part_weights *w, const char *param, mil_value *v) {
    if (w->count == WEIGHTS_MAX) return;
    w->params[w->count] = param;
    w->values[w->count++] = v;
}

/* A parameter, also where the other weights are constants. */
static void forward_adapter_matrix(context *x, part_weights *w, const char *param, const char *kind, int64_t out,
                                   int64_t in) {
    const int64_t dim[] = {out, in};
    const char *full = arena_printf(x->b.module->arena, "%s_lora_%s", param, kind),
               *name = full ? forward_weight_name(x, full) : NULL;
    if (name) forward_add_weight(w, full, mil_build_param(&x->b, name, mil_type_tensor(x->o->dtype, 2, dim)));
}

static bool forward_is_leader(const context *x, const arch_tensor *row) { return model_arch_leader(x->c, row) == row; }

/* What the adapters of a module read is dropped by a mask of its own. */
static void forward_declare_dropout(context *x, part_weights *w) {
    const arch_tensor *row;
    for (int i = 0; (row = model_arch_param(x->c, x->part, i)); i++) {
        if (row->in == ARCH_1 || !forward_is_leader(x, row) || !model_lora_targets(x->o->lora, row->param)) continue;
        const char *name = arena_printf(x->b.module->arena, "drop_%s", row->param);
        mil_type type = forward_tensor4(x, x->o->batch, model_arch_size(x->c, row->in), 1, x->o->sequence);
        if (name) forward_add_weight(w, name, mil_build_param(&x->b, name, type));
    }
}

static void forward_declare_adapters(context *x, part_weights *w) {
    const arch_tensor *row;
    const model_lora *l = x->o->lora;
    for (int i = 0; (row = model_arch_param(x->c, x->part, i)); i++) {
        if (row->in == ARCH_1 || !model_lora_targets(l, row->param)) continue;
        int64_t out = model_arch_size(x->c, row->out), in = model_arch_size(x->c, row->in);
        if (forward_is_leader(x, row)) forward_adapter_matrix(x, w, row->param, "a", l->rank, in);
        forward_adapter_matrix(x, w, row->param, "b", out, l->rank);
    }
    if (x->o->dropout) forward_declare_dropout(x, w);
}

static part_weights forward_declare(context *x) {
    part_weights w = {0};
    const arch_tensor *row;
    for (int i = 0; i < WEIGHTS_MAX && (row = model_arch_param(x->c, x->part, i)); i++)
        forward_add_weight(&w, row->param,
                           row->in == ARCH_1 ? forward_vector(x, row->param, row->out)
                                             : forward_matrix(x, row->param, model_arch_size(x->c, row->out),
                                                              model_arch_size(x->c, row->in)));
    if (x->o->lora && x->part != MODEL_HEAD) forward_declare_adapters(x, &w);
    return w;
}

/* NULL: the architecture has none, or an error came before. */
static mil_value *forward_weight(const part_weights *w, const char *param) {
    for (int i = 0; param && i < w->count; i++)
        if (strcmp(w->params[i], param) == 0) return w->values[i];
    return NULL;
}

/* y [B,O,1,S] = W v, v [B,I,1,S]: the one place that knows the two forms (a constant has rank 4). Both are sums over the input channels in the same
 * order, so they give the same numbers. */
static mil_value *forward_product(context *x, mil_value *w, mil_value *v, const char *name) {
    if (!w || !v) return NULL;
    if (w->type.rank == 4) return forward_call(x, mil_build_conv1x1(&x->b, v, w), name);
    int64_t batch = v->type.dim[0], in = v->type.dim[1], positions = v->type.dim[3], out = w->type.dim[0];
    mil_value *y = mil_build_matmul(&x->b, forward_reshape4(x, w, 1, 1, out, in),
                                    forward_reshape4(x, v, batch, 1, in, positions), false, false); /* [B,1,O,S] */
    forward_call(x, y, name);
    return forward_reshape4(x, y, batch, out, 1, positions);
}

/* scale * A v, with v's dropout; matrices of one module share it. NULL: there is no adapter. */
static mil_value *forward_lowered(context *x, const part_weights *w, const char *leader, mil_value *v,
                                  const char *name) {
    arena *a = x->b.module->arena;
    mil_value *down = forward_weight(w, arena_printf(a, "%s_lora_a", leader)),
              *drop = forward_weight(w, arena_printf(a, "drop_%s", leader));
    if (!down) return NULL;
    if (x->low_of && strcmp(x->low_of, leader) == 0) return x->low;
    if (drop) v = mil_build_binary(&x->b, MIL_OP_mul, v, drop);
    x->low_of = leader;
    x->low = mil_build_binary_scalar(&x->b, MIL_OP_mul, forward_product(x, down, v, arena_printf(a, "%s_low", name)),
                                     model_lora_scale(x->o->lora));
    return x->low;
}

/* scale * B A v. NULL: the matrix has no adapter. */
static mil_value *forward_adapter(context *x, const part_weights *w, const char *param, mil_value *v,
                                  const char *name) {
    arena *a = x->b.module->arena;
    mil_value *up = forward_weight(w, arena_printf(a, "%s_lora_b", param));
    mil_value *low = up ? forward_lowered(x, w, model_lora_leader(x->c, x->part, param), v, name) : NULL;
    return low ? forward_product(x, up, low, arena_printf(a, "%s_lora", name)) : NULL;
}

/* The product with a matrix; with its bias and its adapter, where there are any. */
static mil_value *forward_linear(context *x, const part_weights *w, const char *param, const char *bias_param,
                                 mil_value *v, const char *name) {
    mil_value *matrix_value = forward_weight(w, param), *bias = bias_param ? forward_weight(w, bias_param) : NULL;
    mil_value *more = x->o->lora ? forward_adapter(x, w, param, v, name) : NULL;
    if (!bias && !more) return forward_product(x, matrix_value, v, name);
    mil_value *y = forward_product(x, matrix_value, v, arena_printf(x->b.module->arena, "%s_product", name));
    if (more) y = mil_build_binary(&x->b, MIL_OP_add, y, more);
    if (bias) y = mil_build_binary(&x->b, MIL_OP_add, y, bias);
    return forward_call(x, y, name);
}

/* ---- the pieces -------------------------------------------------------------------------------------------------------------- */

/* v / sqrt(mean of squares along `axis` + epsilon); v / sqrt(n) is squared, so that fp16 does not overflow. */
static mil_value *forward_divide_by_rms(context *x, mil_value *v, int64_t axis, int64_t n, const char *factor) {
    mil_builder *b = &x->b;
    double eps = x->c->rms_norm_eps;
    if (x->o->dtype == MIL_fp16) eps = fmax(eps, 0x1p-24); /* the smallest number there is */
    mil_value *small = mil_build_binary_scalar(b, MIL_OP_mul, v, 1 / sqrt((double)n));
    mil_value *mean = mil_build_reduce(b, MIL_OP_reduce_sum, mil_build_unary(b, MIL_OP_square, small), &axis, 1, true);
    mil_value *epsilon = mil_build_scalar(b, x->o->dtype, eps);
    const mil_argument arguments[] = {{"x", 1, &mean}, {"epsilon", 1, &epsilon}};
    mil_op *op = mil_build_op(b, MIL_OP_rsqrt, factor, arguments, 2);
    return op ? mil_build_binary(b, MIL_OP_mul, v, op->results[0]) : NULL;
}

/* The mean over the channels goes first in a LayerNorm; sums of numbers divided by sqrt(D) stay in fp16's range. */
static mil_value *forward_centre(context *x, mil_value *v) {
    mil_builder *b = &x->b;
    const int64_t axis = 1;
    double part = 1 / sqrt((double)x->c->hidden_size);
    mil_value *sum =
        mil_build_reduce(b, MIL_OP_reduce_sum, mil_build_binary_scalar(b, MIL_OP_mul, v, part), &axis, 1, true);
    mil_value *mean = forward_call(x, mil_build_binary_scalar(b, MIL_OP_mul, sum, part), "mean");
    return forward_call(x, mil_build_binary(b, MIL_OP_sub, v, mean), "centred");
}

static mil_value *forward_norm(context *x, mil_value *v, const part_weights *w) {
    mil_builder *b = &x->b;
    mil_value *scale = forward_weight(w, "norm_weight"), *shift = forward_weight(w, "norm_bias");
    forward_stage(x, "norm");
    if (x->arch->norm == ARCH_LAYER_NORM) v = forward_centre(x, v);
    mil_value *normed = forward_call(x, forward_divide_by_rms(x, v, 1, x->c->hidden_size, "inverse_rms"), "normed");
    if (!shift) return forward_call(x, mil_build_binary(b, MIL_OP_mul, normed, scale), "xn");
    return forward_call(x, mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, normed, scale), shift),
                        "xn");
}

void model_rope_tables(const model_config *c, int64_t first, int64_t count, double *cos_out, double *sin_out) {
    int64_t half = c->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double rate = model_config_rope_rate(c, i);
        for (int64_t s = 0; s < count; s++) {
            double angle = (double)(first + s) * rate;
            cos_out[i * count + s] = cos_out[(i + half) * count + s] = cos(angle);
            sin_out[i * count + s] = sin_out[(i + half) * count + s] = sin(angle);
        }
    }
}

typedef struct rope {
    mil_value *cos, *sin; /* [1,1,HD,S] */
    mil_value *turn;      /* [1,1,HD,HD]: (-x2, x1) = turn (x1, x2); NULL: the halves are cut out and changed over */
} rope;

static mil_value *forward_rope_turn(context *x) {
    int64_t n = x->c->head_dim;
    double *turn = mem_array((size_t)(n * n), sizeof *turn);
    if (!turn) {
        propane_fail_memory(&x->b.err, (size_t)(n * n) * sizeof *turn);
        return NULL;
    }
    for (int64_t i = 0; i < n / 2; i++) {
        turn[i * n + i + n / 2] = -1;
        turn[(i + n / 2) * n + i] = 1;
    }
    mil_type type = forward_tensor4(x, 1, 1, n, n);
    mil_value *v = mil_build_const_f64(&x->b, "rope_turn", &type, turn);
    mem_free(turn);
    return v;
}

static rope forward_rope_constants(context *x) {
    rope r = {0};
    if (x->arch->position != ARCH_ROPE) return r;
    int64_t n = x->c->head_dim, s = x->o->sequence;
    double *tables = mem_array((size_t)(2 * n * s), sizeof *tables);
    if (!tables) {
        propane_fail_memory(&x->b.err, (size_t)(2 * n * s) * sizeof *tables);
        return r;
    }
    model_rope_tables(x->c, x->o->first_position, s, tables, tables + n * s);
    mil_type type = forward_tensor4(x, 1, 1, n, s);
    r.cos = mil_build_const_f64(&x->b, "rope_cos", &type, tables);
    r.sin = mil_build_const_f64(&x->b, "rope_sin", &type, tables + n * s);
    r.turn = forward_rope_turn(x);
    mem_free(tables);
    return r;
}

/* (-x2, x1) of each head. */
static mil_value *forward_turned_heads(context *x, const rope *r, mil_value *h, int64_t heads) {
    mil_builder *b = &x->b;
    if (r->turn) return mil_build_matmul(b, r->turn, h, false, false);
    int64_t half = x->c->head_dim / 2;
    const int64_t first[] = {0, 0, 0, 0}, second[] = {0, 0, half, 0},
                  size[] = {x->o->batch, heads, half, x->o->sequence};
    mil_value *halves[] = {mil_build_binary_scalar(b, MIL_OP_mul, mil_build_slice(b, h, second, size), -1),
                           mil_build_slice(b, h, first, size)};
    return mil_build_concat(b, halves, 2, 2);
}

/* v [B,heads*HD,1,S] -> [B,heads,HD,S], each head normalised (with a weight) and turned (with angles); `name`: "q", "k". */
static mil_value *forward_heads_of(context *x, const rope *r, mil_value *v, int64_t heads, mil_value *norm_weight,
                                   const char *name) {
    mil_builder *b = &x->b;
    arena *a = x->b.module->arena;
    int64_t hd = x->c->head_dim;
    if (norm_weight)
        forward_stage(x, "qknorm");
    else if (r->cos)
        forward_stage(x, "rope");
    mil_value *h = forward_call(x, forward_reshape4(x, v, x->o->batch, heads, hd, forward_rows_of(x, x->o->sequence)),
                                arena_printf(a, "%s_heads", name));
    if (norm_weight) {
        h = forward_call(x, forward_divide_by_rms(x, h, 2, hd, "inverse_rms"), arena_printf(a, "%s_normed", name));
        h = forward_call(x, mil_build_binary(b, MIL_OP_mul, h, norm_weight), arena_printf(a, "%s_scaled", name));
    }
    if (!r->cos) return h;
    forward_stage(x, "rope");
    mil_value *turned = forward_turned_heads(x, r, h, heads);
    return mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, h, r->cos),
                            mil_build_binary(b, MIL_OP_mul, turned, r->sin));
}

void model_mask(int64_t count, int64_t cache, int64_t filled, float *out) {
    for (int64_t i = 0; i < count; i++) {
        float *row = out + i * (cache + count);
        for (int64_t j = 0; j < cache; j++) row[j] = j < filled ? 0 : (float)MODEL_MASKED;
        for (int64_t j = 0; j < count; j++) row[cache + j] = j <= i ? 0 : (float)MODEL_MASKED;
    }
}

static mil_value *forward_causal_mask(context *x) {
    int64_t s = x->o->sequence;
    double *mask = mem_array((size_t)(s * s), sizeof *mask);
    if (!mask) {
        propane_fail_memory(&x->b.err, (size_t)(s * s) * sizeof *mask);
        return NULL;
    }
    for (int64_t i = 0; i < s; i++)
        for (int64_t j = i + 1; j < s; j++) mask[i * s + j] = MODEL_MASKED;
    mil_type type = forward_tensor4(x, 1, 1, s, s);
    mil_value *v = mil_build_const_f64(&x->b, "causal_mask", &type, mask);
    mem_free(mask);
    return v;
}

/* Where attention looks: one span of keys and values (training), or two (cache and new positions). */
typedef struct span {
    mil_value *k, *v; /* [B,KV heads,HD,T] */
    int64_t length;
} span;

/* q [B,heads,HD,S] -> the mix [B,heads*HD,1,S]. The G heads of a group lie one behind the other, so [B,KVH,G*S,HD] is
 * the same memory as [B,H,S,HD]: each group is one product with its own K and V. */
static mil_value *forward_attention(context *x, mil_value *q, const span *spans, int span_count, mil_value *mask) {
    mil_builder *b = &x->b;
    int64_t batch = x->o->batch, s = x->o->sequence, hd = x->c->head_dim, heads = x->c->num_attention_heads;
    int64_t kv = x->c->num_key_value_heads, rows = forward_rows_of(x, heads / kv * s);
    forward_stage(x, "scores");
    q = mil_build_binary_scalar(b, MIL_OP_mul, q, 1 / sqrt((double)hd));
    if (heads != kv) q = forward_reshape4(x, forward_swap_last_two(x, q), batch, kv, rows, hd);
    mil_value *scores[2] = {NULL, NULL};
    int64_t total = 0;
    for (int i = 0; i < span_count; i++) {
        scores[i] = mil_build_matmul(b, q, spans[i].k, heads == kv, false); /* [B,KVH,G*S,T] */
        total += spans[i].length;
    }
    mil_value *all = span_count == 1 ? scores[0] : mil_build_concat(b, scores, span_count, 3);
    if (heads != kv) all = forward_reshape4(x, all, batch, heads, forward_rows_of(x, s), total);
    all = mil_build_binary(b, MIL_OP_add, all, mask);
    forward_stage(x, "softmax");
    mil_value *p = forward_call(x, mil_build_softmax(b, forward_call(x, all, "scores"), -1), "probs");
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
    forward_call(x, mix, "mix");
    if (heads != kv) mix = forward_swap_last_two(x, forward_reshape4(x, mix, batch, heads, forward_rows_of(x, s), hd));
    return forward_reshape4(x, mix, batch, heads * hd, 1, forward_rows_of(x, s));
}

/* ---- the halves of a layer, the head ------------------------------------------------------------------------------------------ */

static mil_value *forward_named(context *x, mil_value *v, const char *name) {
    if (v && !x->b.err.status && mil_rename(x->b.function, v, name, &x->b.err)) return NULL;
    return v;
}

static mil_value *forward_attn_body(context *x, mil_value *in, const part_weights *w, const rope *r, mil_value *mask) {
    int64_t kv = x->c->num_key_value_heads;
    mil_value *xn = forward_norm(x, in, w);
    forward_stage(x, "qkv");
    mil_value *q = forward_linear(x, w, "q_proj", "q_bias", xn, "q");
    mil_value *k = forward_linear(x, w, "k_proj", "k_bias", xn, "k");
    mil_value *v = forward_linear(x, w, "v_proj", "v_bias", xn, "v");
    mil_value *v_heads = forward_call(
        x, forward_reshape4(x, v, x->o->batch, kv, x->c->head_dim, forward_rows_of(x, x->o->sequence)), "v_heads");
    span here = {.v = v_heads, .length = x->o->sequence};
    q = forward_call(x, forward_heads_of(x, r, q, x->c->num_attention_heads, forward_weight(w, "q_norm"), "q"),
                     "q_rope");
    forward_stage(x, "qkv");
    here.k = forward_call(x, forward_heads_of(x, r, k, kv, forward_weight(w, "k_norm"), "k"), "k_rope");
    if (x->cached && x->cached->extend) {
        here.k = x->cached->extend(x->cached->context, &x->b, x->layer, false, here.k);
        here.v = x->cached->extend(x->cached->context, &x->b, x->layer, true, here.v);
        here.length = x->cached->length;
    }
    mil_value *mix = forward_attention(x, q, &here, 1, mask);
    forward_stage(x, "out");
    return forward_linear(x, w, "o_proj", "o_bias", mix, "attn");
}

static mil_value *forward_ffn_body(context *x, mil_value *in, const part_weights *w) {
    mil_builder *b = &x->b;
    mil_value *xn = forward_norm(x, in, w), *gate = NULL, *act;
    forward_stage(x, "up");
    if (x->arch->mlp == ARCH_SILU_GATED) gate = forward_linear(x, w, "gate_proj", "gate_bias", xn, "gate");
    mil_value *up = forward_linear(x, w, "up_proj", "up_bias", xn, "up");
    forward_stage(x, "act");
    if (x->arch->mlp == ARCH_SILU_GATED) {
        act = mil_build_binary(b, MIL_OP_mul, mil_build_unary(b, MIL_OP_silu, gate), up);
    } else {
        mil_value *mode = mil_build_text(b, "TANH_APPROXIMATION");
        const mil_argument arguments[] = {{"x", 1, &up}, {"mode", 1, &mode}};
        mil_op *op = mil_build_op(b, MIL_OP_gelu, "act", arguments, 2);
        act = op ? op->results[0] : NULL;
    }
    act = forward_call(x, act, "act");
    forward_stage(x, "down");
    return forward_linear(x, w, "down_proj", "down_bias", act, "down");
}

static mil_value *forward_head_body(context *x, mil_value *in, const part_weights *w) {
    mil_value *xn = forward_norm(x, in, w);
    forward_stage(x, "head");
    return forward_linear(x, w, "lm_head", NULL, xn, "output");
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------- */

static propane_status forward_begin(context *x, mil_module *m, const char *name, const model_config *c,
                                    const model_build_options *o, model_part part, int layer, propane_error *err) {
    *x = (context){.c = c, .o = o, .part = part, .layer = layer, .prefix = ""};
    PROPANE_TRY(model_config_check(c, name, err));
    x->arch = model_arch_of(c);
    if (o->dtype != MIL_fp16 && o->dtype != MIL_fp32)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: a model's functions are built in fp16 or fp32", name);
    if (o->batch < 1 || o->batch > 1 << 16 || o->sequence < 1 || o->sequence > 1 << 20)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: batch %lld and sequence %lld must be at least 1 and at most 65536 and 1048576", name,
                            (long long)o->batch, (long long)o->sequence);
    if (o->first_position < 0 || o->first_position + o->sequence > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: positions %lld to %lld, but the model has max_position_embeddings = %lld", name,
                            (long long)o->first_position, (long long)(o->first_position + o->sequence - 1),
                            (long long)c->max_position_embeddings);
    mil_build_begin(&x->b, m, name, MIL_IOS18);
    return PROPANE_OK;
}

static mil_value *forward_input(context *x, const char *name, int64_t a, int64_t b, int64_t c, int64_t d) {
    return mil_build_param(&x->b, name, forward_tensor4(x, a, b, c, d));
}

static mil_value *forward_activation(context *x) {
    return forward_input(x, "x", x->o->batch, x->c->hidden_size, 1, x->o->sequence);
}

static propane_status forward_end(context *x, mil_function **out, propane_error *err) {
    propane_status status = mil_build_end(&x->b, err);
    *out = status ? NULL : x->b.function;
    return status;
}

static mil_value *forward_with_residual(context *x, mil_value *in, mil_value *y) {
    return x->o->residual ? mil_build_binary(&x->b, MIL_OP_add, in, y) : y;
}

propane_status model_build_attn(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                                int layer, mil_function **out, propane_error *err) {
    context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_ATTN, layer, err));
    mil_value *in = forward_activation(&x);
    part_weights w = forward_declare(&x);
    rope r = forward_rope_constants(&x);
    mil_value *y = forward_attn_body(&x, in, &w, &r, forward_causal_mask(&x));
    mil_build_result(&x.b, forward_named(&x, y, "o"));
    return forward_end(&x, out, err);
}

propane_status model_build_ffn(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                               int layer, mil_function **out, propane_error *err) {
    context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_FFN, layer, err));
    mil_value *in = forward_activation(&x);
    part_weights w = forward_declare(&x);
    mil_build_result(&x.b, forward_named(&x, forward_with_residual(&x, in, forward_ffn_body(&x, in, &w)), "y"));
    return forward_end(&x, out, err);
}

propane_status model_build_head(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                                mil_function **out, propane_error *err) {
    context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_HEAD, -1, err));
    mil_value *in = forward_activation(&x);
    part_weights w = forward_declare(&x);
    mil_build_result(&x.b, forward_named(&x, forward_head_body(&x, in, &w), "logits"));
    return forward_end(&x, out, err);
}

static void forward_at(context *x, model_part part, int layer) {
    x->part = part;
    x->layer = layer;
    x->low_of = NULL;
    x->prefix = part == MODEL_ATTN ? "attn." : part == MODEL_FFN ? "ffn." : "head.";
}

propane_status model_build_whole(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                                 mil_function **out, propane_error *err) {
    context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_ATTN, 0, err));
    int layers = (int)c->num_hidden_layers;
    x.whole = true;
    mil_value *v = forward_activation(&x);
    part_weights *attn = ARENA_ARRAY(m->arena, layers, part_weights);
    part_weights *ffn = ARENA_ARRAY(m->arena, layers, part_weights);
    if (!attn || !ffn) return propane_fail_memory(err, (size_t)layers * sizeof *attn);
    for (int i = 0; i < layers; i++) {
        forward_at(&x, MODEL_ATTN, i);
        attn[i] = forward_declare(&x);
        forward_at(&x, MODEL_FFN, i);
        ffn[i] = forward_declare(&x);
    }
    forward_at(&x, MODEL_HEAD, -1);
    part_weights head = forward_declare(&x);
    rope r = forward_rope_constants(&x);
    mil_value *mask = forward_causal_mask(&x);
    for (int i = 0; i < layers; i++) {
        forward_at(&x, MODEL_ATTN, i);
        v = mil_build_binary(&x.b, MIL_OP_add, v, forward_attn_body(&x, v, &attn[i], &r, mask));
        forward_at(&x, MODEL_FFN, i);
        v = mil_build_binary(&x.b, MIL_OP_add, v, forward_ffn_body(&x, v, &ffn[i]));
    }
    forward_at(&x, MODEL_HEAD, -1);
    mil_build_result(&x.b, forward_named(&x, forward_head_body(&x, v, &head), "logits"));
    return forward_end(&x, out, err);
}

mil_value *model_build_layers(mil_builder *b, const model_config *c, const model_build_options *o,
                              const model_attention *cached, mil_value *v) {
    context x = {.b = *b, .c = c, .arch = model_arch_of(c), .o = o, .whole = true, .cached = cached};
    rope r = {.cos = cached->cos, .sin = cached->sin};
    if (x.arch->position == ARCH_ROPE) r.turn = forward_rope_turn(&x);
    for (int i = 0; i < c->num_hidden_layers; i++) {
        forward_at(&x, MODEL_ATTN, i);
        part_weights attn = forward_declare(&x);
        v = mil_build_binary(&x.b, MIL_OP_add, v, forward_attn_body(&x, v, &attn, &r, cached->mask));
        forward_at(&x, MODEL_FFN, i);
        part_weights ffn = forward_declare(&x);
        v = mil_build_binary(&x.b, MIL_OP_add, v, forward_ffn_body(&x, v, &ffn));
    }
    forward_at(&x, MODEL_HEAD, -1);
    part_weights head = forward_declare(&x);
    v = forward_head_body(&x, v, &head);
    *b = x.b;
    return v;
}

/* What both forms of attention for generation have in common: inputs, and new queries, keys and values. */
typedef struct decode {
    context x;
    mil_value *in, *k_cache, *v_cache, *mask, *q, *k, *v; /* q, k by heads and turned; v by heads; [B,heads,HD,N] */
    part_weights w;
} decode;

static propane_status forward_begin_decode(decode *d, mil_module *m, const char *name, const model_config *c,
                                           const model_build_options *o, int layer, int64_t cache, int64_t seen,
                                           mil_value **rows, propane_error *err) {
    context *x = &d->x;
    PROPANE_TRY(forward_begin(x, m, name, c, o, MODEL_ATTN, layer, err));
    if (cache < 1 || cache > 1 << 24)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: a cache of %lld positions; it must be from 1 to 16777216",
                            name, (long long)cache);
    int64_t batch = o->batch, n = o->sequence, hd = c->head_dim, kv = c->num_key_value_heads;
    mil_value *in = d->in = forward_activation(x);
    d->k_cache = forward_input(x, "k_cache", batch, cache, kv, hd);
    d->v_cache = forward_input(x, "v_cache", batch, cache, kv, hd);
    if (rows) *rows = mil_build_param(&x->b, "rows", mil_type_tensor(MIL_int32, 1, &n));
    rope r = {0};
    if (x->arch->position == ARCH_ROPE) {
        r.cos = forward_input(x, "cos", 1, 1, hd, n);
        r.sin = forward_input(x, "sin", 1, 1, hd, n);
    }
    d->mask = forward_input(x, "mask", 1, 1, n, seen);
    d->w = forward_declare(x);
    if (x->arch->position == ARCH_ROPE && !rows)
        r.turn = forward_rope_turn(x); /* a device that takes rows takes slices */
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
    context *x = &d->x;
    forward_stage(x, "out");
    mil_value *y = forward_linear(x, &d->w, "o_proj", "o_bias", mix, "attn");
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
    span spans[] = {
        {mil_build_transpose(b, d.k_cache, to_heads, 4), mil_build_transpose(b, d.v_cache, to_heads, 4), cache},
        {d.k, d.v, o->sequence}};
    mil_value *v_new = forward_named(&d.x, mil_build_transpose(b, d.v, to_rows, 4), "v_new");
    mil_value *k_new = forward_named(&d.x, mil_build_transpose(b, d.k, to_rows, 4), "k_new");
    return forward_end_decode(&d, forward_attention(&d.x, d.q, spans, 2, d.mask), k_new, v_new, out, err);
}

/* The cache with the new rows in their places. */
static mil_value *forward_put_rows(context *x, mil_value *cache, mil_value *rows, mil_value *fresh, const char *name) {
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
    span all = {mil_build_transpose(b, k, to_heads, 4), mil_build_transpose(b, v, to_heads, 4), cache};
    return forward_end_decode(&d, forward_attention(&d.x, d.q, &all, 1, d.mask), k, v, out, err);
}
