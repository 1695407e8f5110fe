/* SPDX-License-Identifier: MIT
 * The Llama builders against two other implementations: one here in double precision, one position after the other,
 * channels last, and one by other people (llama2.c's run.c, whose numbers are in stories260K.ref.txt). The functions
 * are run by the slow reference of the operations, so no device is needed.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/arch/forward.h"
#include "lm/files/llama2c.h"
#include "support/test.h"
#include "support/whole_model.h"

static propane_error err;

/* ---- the reference ------------------------------------------------------------------------------------------------------------ */

static const float *weight(const model_weights *w, model_part part, int layer, const char *param) {
    const model_tensor *t = model_weights_param(w, part, layer, param);
    EXPECT_MSG(t != NULL, "%s", param);
    return model_weights_data(w, t);
}

static void product(double *out, const float *matrix, const double *in, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        out[r] = 0;
        for (int64_t c = 0; c < columns; c++) out[r] += (double)matrix[r * columns + c] * in[c];
    }
}

static void normalise(double *out, const double *in, const float *scale, int64_t n, double eps) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += in[i] * in[i];
    double factor = 1 / sqrt(sum / (double)n + eps);
    for (int64_t i = 0; i < n; i++) out[i] = in[i] * factor * (double)scale[i];
}

static void turn(double *head, int64_t hd, int64_t position, double theta) {
    for (int64_t i = 0; i < hd / 2; i++) {
        double angle = (double)position / pow(theta, 2.0 * (double)i / (double)hd), c = cos(angle), s = sin(angle);
        double a = head[i], b = head[i + hd / 2];
        head[i] = a * c - b * s;
        head[i + hd / 2] = b * c + a * s;
    }
}

/* Computes logits[position][V] of one sequence. */
static void reference(const model_weights *w, const int32_t *ids, int n, double *logits) {
    const model_config *c = &w->config;
    int64_t d = c->hidden_size, h = c->intermediate_size, hd = c->head_dim, heads = c->num_attention_heads;
    int64_t kvh = c->num_key_value_heads, q_size = heads * hd, kv_size = kvh * hd, layers = c->num_hidden_layers;
    double *keys = mem_array((size_t)(layers * n * kv_size), sizeof *keys),
           *values = mem_array((size_t)(layers * n * kv_size), sizeof *values);
    double *x = mem_array((size_t)(8 * (d + h + q_size + n)), sizeof *x);
    double *xn = x + d, *q = xn + d, *mix = q + q_size, *out = mix + q_size, *gate = out + d, *up = gate + h,
           *p = up + h;
    for (int t = 0; t < n; t++) {
        for (int64_t i = 0; i < d; i++) x[i] = (double)weight(w, MODEL_EMBED, -1, "embed_tokens")[ids[t] * d + i];
        for (int l = 0; l < layers; l++) {
            double *k = keys + (l * n + t) * kv_size, *v = values + (l * n + t) * kv_size;
            normalise(xn, x, weight(w, MODEL_ATTN, l, "norm_weight"), d, c->rms_norm_eps);
            product(q, weight(w, MODEL_ATTN, l, "q_proj"), xn, q_size, d);
            product(k, weight(w, MODEL_ATTN, l, "k_proj"), xn, kv_size, d);
            product(v, weight(w, MODEL_ATTN, l, "v_proj"), xn, kv_size, d);
            for (int64_t head = 0; head < heads; head++) turn(q + head * hd, hd, t, c->rope_theta);
            for (int64_t head = 0; head < kvh; head++) turn(k + head * hd, hd, t, c->rope_theta);
            for (int64_t head = 0; head < heads; head++) {
                int64_t group = head / (heads / kvh);
                double sum = 0;
                for (int u = 0; u <= t; u++) {
                    double dot = 0;
                    for (int64_t i = 0; i < hd; i++)
                        dot += q[head * hd + i] * keys[(l * n + u) * kv_size + group * hd + i];
                    sum += p[u] = exp(dot / sqrt((double)hd));
                }
                for (int64_t i = 0; i < hd; i++) {
                    mix[head * hd + i] = 0;
                    for (int u = 0; u <= t; u++)
                        mix[head * hd + i] += p[u] / sum * values[(l * n + u) * kv_size + group * hd + i];
                }
            }
            product(out, weight(w, MODEL_ATTN, l, "o_proj"), mix, d, q_size);
            for (int64_t i = 0; i < d; i++) x[i] += out[i];
            normalise(xn, x, weight(w, MODEL_FFN, l, "norm_weight"), d, c->rms_norm_eps);
            product(gate, weight(w, MODEL_FFN, l, "gate_proj"), xn, h, d);
            product(up, weight(w, MODEL_FFN, l, "up_proj"), xn, h, d);
            for (int64_t i = 0; i < h; i++) gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
            product(out, weight(w, MODEL_FFN, l, "down_proj"), gate, d, h);
            for (int64_t i = 0; i < d; i++) x[i] += out[i];
        }
        normalise(xn, x, weight(w, MODEL_HEAD, -1, "norm_weight"), d, c->rms_norm_eps);
        product(logits + t * c->vocab_size, weight(w, MODEL_HEAD, -1, "lm_head"), xn, c->vocab_size, d);
    }
    mem_free(keys);
    mem_free(values);
    mem_free(x);
}

/* ---- running functions --------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    arena *arena;
    mil_module *module;
    model_weights *w;
    bool round;
} bench;

static bench bench_open(const model_config *c, uint64_t seed) {
    bench b = {.arena = arena_create(), .module = mil_module_create("test")};
    EXPECT_OK(model_weights_create(c, &b.w, &err));
    model_weights_init(b.w, seed, 0.3);
    rng r;
    rng_init(&r, seed + 1);
    for (int i = 0; i < b.w->count; i++) /* norm weights other than 1 */
        if (b.w->tensors[i].rank == 1)
            for (int64_t k = 0; k < b.w->tensors[i].count; k++)
                b.w->data[b.w->tensors[i].offset + k] = (float)(0.5 + rng_unit(&r));
    return b;
}

static void bench_close(bench *b) {
    model_weights_free(b->w);
    mil_module_free(b->module);
    arena_free(b->arena);
}

/* Returns the data of a weight parameter, with the names of model_build_attn and whole_model_build. */
static const float *find_weight(const bench *b, const char *name, model_part part, int layer) {
    char param[64];
    int at = -1;
    snprintf(param, sizeof param, "%s", name);
    char *last = strrchr(param, '_');
    if (last && last[1] >= '0' && last[1] <= '9') {
        at = atoi(last + 1);
        *last = 0;
        part = strncmp(param, "attn_", 5) == 0 || (strstr(param, "_proj") && strchr("qkvo", param[0])) ? MODEL_ATTN
                                                                                                       : MODEL_FFN;
        if (param[0] == 'a') memmove(param, param + 5, strlen(param + 5) + 1);
        if (strncmp(param, "ffn_", 4) == 0) memmove(param, param + 4, strlen(param + 4) + 1);
        layer = at;
    }
    return weight(b->w, part, layer, param);
}

/* Inputs in `given` (by name) are used; all others are weights. */
typedef struct named {
    const char *name;
    const double *data;
} named;

static mil_tensor *run(bench *b, const mil_function *f, const named *given, int count, model_part part, int layer) {
    mil_tensor *inputs = ARENA_ARRAY(b->arena, f->param_count, mil_tensor), *outputs;
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *v = f->params[i];
        int64_t n = mil_type_count(&v->type);
        inputs[i] = (mil_tensor){v->type, ARENA_ARRAY(b->arena, n, double)};
        int k = 0;
        while (k < count && strcmp(given[k].name, v->name) != 0) k++;
        const float *from = k < count ? NULL : find_weight(b, v->name, part, layer);
        for (int64_t e = 0; e < n; e++) {
            double value = from ? (double)from[e] : given[k].data[e];
            inputs[i].data[e] = b->round ? mil_round(v->type.dtype, value) : value;
        }
    }
    EXPECT_OK(mil_eval_function(f, inputs, b->round, b->arena, &outputs, &err));
    return outputs;
}

/* x [B,D,1,S] */
static double *embed(bench *b, const int32_t *ids, int batch, int s) {
    int64_t d = b->w->config.hidden_size;
    const float *table = weight(b->w, MODEL_EMBED, -1, "embed_tokens");
    double *x = ARENA_ARRAY(b->arena, batch * d * s, double);
    for (int n = 0; n < batch; n++)
        for (int64_t c = 0; c < d; c++)
            for (int t = 0; t < s; t++) x[(n * d + c) * s + t] = (double)table[ids[n * s + t] * d + c];
    return x;
}

static void draw_ids(int32_t *ids, int count, int64_t vocab, uint64_t seed) {
    rng r;
    rng_init(&r, seed);
    for (int i = 0; i < count; i++) ids[i] = (int32_t)rng_below(&r, (uint64_t)vocab);
}

/* Returns the largest difference between logits [B,V,1,S] and the reference, relative to the largest logit. */
static double difference(bench *b, const double *logits, const int32_t *ids, int batch, int s) {
    int64_t v = b->w->config.vocab_size;
    double *want = ARENA_ARRAY(b->arena, s * v, double), worst = 0, largest = 0;
    for (int n = 0; n < batch; n++) {
        reference(b->w, ids + n * s, s, want);
        for (int t = 0; t < s; t++)
            for (int64_t i = 0; i < v; i++) {
                worst = fmax(worst, fabs(logits[(n * v + i) * s + t] - want[t * v + i]));
                largest = fmax(largest, fabs(want[t * v + i]));
                EXPECT(isfinite(logits[(n * v + i) * s + t]));
            }
    }
    return worst / largest;
}

static model_config small(int heads, int kv_heads, int head_dim, bool tied) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = 24;
    c.intermediate_size = 36;
    c.num_hidden_layers = 2;
    c.num_attention_heads = heads;
    c.num_key_value_heads = kv_heads;
    c.head_dim = head_dim;
    c.vocab_size = 19;
    c.max_position_embeddings = 64;
    c.tie_word_embeddings = tied;
    return c;
}

static const int shapes[][3] = {{4, 4, 6}, {4, 2, 6}, {6, 2, 4}, {6, 1, 8}, {1, 1, 24}};

TEST(the_whole_model_equals_the_reference) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        model_config c = small(shapes[i][0], shapes[i][1], shapes[i][2], i % 2 == 0);
        bench b = bench_open(&c, 10 + i);
        int32_t ids[14];
        draw_ids(ids, 14, c.vocab_size, i);
        mil_function *f;
        model_build_options o = {.batch = 2, .sequence = 7, .dtype = MIL_fp32};
        EXPECT_OK(whole_model_build(b.module, "whole", &c, &o, &f, &err));
        const named given[] = {{"x", embed(&b, ids, 2, 7)}};
        double worst = difference(&b, run(&b, f, given, 1, MODEL_HEAD, -1)[0].data, ids, 2, 7);
        EXPECT_MSG(worst < 1e-6, "shape %zu: %g", i, worst); /* observed: 2e-7, from the tables of sines in fp32 */
        b.round = true;
        worst = difference(&b, run(&b, f, given, 1, MODEL_HEAD, -1)[0].data, ids, 2, 7);
        EXPECT_MSG(worst < 1e-5, "shape %zu, fp32: %g", i, worst); /* observed: 9e-7 */
        o.dtype = MIL_fp16;
        EXPECT_OK(whole_model_build(b.module, "half", &c, &o, &f, &err));
        worst = difference(&b, run(&b, f, given, 1, MODEL_HEAD, -1)[0].data, ids, 2, 7);
        EXPECT_MSG(worst < 1e-2, "shape %zu, fp16: %g", i, worst); /* observed: 7e-3 */
        bench_close(&b);
    }
}

/* The three functions of training with the residual stream outside; weights as parameters and as constants. */
TEST(the_halves_make_up_the_model) {
    for (int baked = 0; baked < 2; baked++) {
        model_config c = small(4, 2, 6, false);
        bench b = bench_open(&c, 20);
        int32_t ids[10];
        draw_ids(ids, 10, c.vocab_size, 3);
        model_build_options o = {.batch = 2, .sequence = 5, .dtype = MIL_fp32};
        if (baked) o.baked = model_weight_from, o.baked_context = b.w;
        double *x = embed(&b, ids, 2, 5);
        const named given[] = {{"x", x}};
        mil_function *f;
        char name[40];
        for (int layer = 0; layer < 2; layer++)
            for (int half = 0; half < 2; half++) {
                snprintf(name, sizeof name, "f%d_%d", layer, half);
                EXPECT_OK((half ? model_build_ffn : model_build_attn)(b.module, name, &c, &o, layer, &f, &err));
                EXPECT(f->param_count == (baked ? 1 : half ? 5 : 6));
                EXPECT_TEXT(f->results[0]->name, half ? "y" : "o");
                const mil_tensor *out = run(&b, f, given, 1, half ? MODEL_FFN : MODEL_ATTN, layer);
                for (int64_t i = 0; i < mil_type_count(&out->type); i++) x[i] += out->data[i];
            }
        EXPECT_OK(model_build_head(b.module, "head", &c, &o, &f, &err));
        EXPECT_TEXT(f->results[0]->name, "logits");
        double worst = difference(&b, run(&b, f, given, 1, MODEL_HEAD, -1)[0].data, ids, 2, 5);
        EXPECT_MSG(worst < 1e-6, "baked %d: %g", baked, worst); /* observed: 5e-8 */
        bench_close(&b);
    }
}

TEST(operations_carry_their_stages) {
    model_config c = small(4, 2, 6, false);
    mil_module *m = mil_module_create("test");
    model_build_options o = {.batch = 1, .sequence = 4, .dtype = MIL_fp16};
    static const char *const want[3] = {"norm qkv rope scores softmax mix out ", "norm up act down ", "norm head "};
    mil_function *f[3];
    EXPECT_OK(model_build_attn(m, "attn", &c, &o, 0, &f[0], &err));
    EXPECT_OK(model_build_ffn(m, "ffn", &c, &o, 0, &f[1], &err));
    EXPECT_OK(model_build_head(m, "head", &c, &o, &f[2], &err));
    for (int i = 0; i < 3; i++) {
        char seen[200] = "";
        const char *last = "";
        for (const mil_op *op = f[i]->first; op; op = op->next) {
            if (op->info->code == MIL_OP_const || !op->stage || strcmp(op->stage, last) == 0) continue;
            last = op->stage;
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s ", last);
        }
        EXPECT_TEXT(seen, want[i]);
    }
    static const char *const params[] = {"x", "norm_weight", "q_proj", "k_proj", "v_proj", "o_proj"};
    for (int i = 0; i < 6; i++) EXPECT_TEXT(f[0]->params[i]->name, params[i]);
    mil_module_free(m);
}

/* Chunks of 3, 1, 1, 2 positions with a cache of 9, which is filled as they come. */
TEST(generation_gives_what_training_gives) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        model_config c = small(shapes[i][0], shapes[i][1], shapes[i][2], true);
        c.num_hidden_layers = 1;
        bench b = bench_open(&c, 30 + i);
        enum { TOTAL = 7, CACHE = 9 };
        int32_t ids[TOTAL];
        draw_ids(ids, TOTAL, c.vocab_size, i);
        int64_t kv = model_config_kv(&c), v = c.vocab_size, hd = c.head_dim;
        double *want = ARENA_ARRAY(b.arena, TOTAL * v, double);
        reference(b.w, ids, TOTAL, want);
        double *k_cache = ARENA_ARRAY(b.arena, kv * CACHE, double), *v_cache = ARENA_ARRAY(b.arena, kv * CACHE, double);
        for (int64_t e = 0; e < kv * CACHE; e++) k_cache[e] = v_cache[e] = 7; /* unfilled rows must not matter */
        static const int chunks[] = {3, 1, 1, 2};
        int at = 0;
        for (int chunk = 0; chunk < 4; chunk++) {
            int n = chunks[chunk];
            model_build_options o = {.batch = 1, .sequence = n, .dtype = MIL_fp32};
            mil_function *attn, *ffn, *head;
            char name[30];
            snprintf(name, sizeof name, "c%d_", chunk);
            char names[3][40];
            for (int k = 0; k < 3; k++) snprintf(names[k], sizeof names[k], "%s%d", name, k);
            EXPECT_OK(model_build_attn_decode(b.module, names[0], &c, &o, 0, CACHE, &attn, &err));
            EXPECT_OK(model_build_ffn(b.module, names[1], &c, &o, 0, &ffn, &err));
            EXPECT_OK(model_build_head(b.module, names[2], &c, &o, &head, &err));
            double *cosines = ARENA_ARRAY(b.arena, hd * n, double), *sines = ARENA_ARRAY(b.arena, hd * n, double);
            model_rope_tables(&c, 0, at, n, cosines, sines);
            float *mask = ARENA_ARRAY(b.arena, n * (CACHE + n), float);
            double *mask_wide = ARENA_ARRAY(b.arena, n * (CACHE + n), double);
            model_mask(n, CACHE, at, 0, mask);
            for (int e = 0; e < n * (CACHE + n); e++) mask_wide[e] = (double)mask[e];
            double *x = embed(&b, ids + at, 1, n);
            const named given[] = {{"x", x},         {"k_cache", k_cache}, {"v_cache", v_cache},
                                   {"cos", cosines}, {"sin", sines},       {"mask", mask_wide}};
            const mil_tensor *out = run(&b, attn, given, 6, MODEL_ATTN, 0);
            for (int64_t e = 0; e < c.hidden_size * n; e++) x[e] += out[0].data[e];
            for (int64_t r = 0; r < kv * n; r++) {
                k_cache[at * kv + r] = out[1].data[r];
                v_cache[at * kv + r] = out[2].data[r];
            }
            out = run(&b, ffn, given, 1, MODEL_FFN, 0);
            for (int64_t e = 0; e < c.hidden_size * n; e++) x[e] += out[0].data[e];
            out = run(&b, head, given, 1, MODEL_HEAD, -1);
            for (int t = 0; t < n; t++)
                for (int64_t e = 0; e < v; e++)
                    EXPECT_MSG(fabs(out[0].data[e * n + t] - want[(at + t) * v + e]) < 1e-6,
                               "shape %zu, position %d: %g, want %g", i, at + t, out[0].data[e * n + t],
                               want[(at + t) * v + e]);
            at += n;
        }
        bench_close(&b);
    }
}

/* Mean squares up to 250^2 must not overflow fp16, and small ones must not vanish. */
TEST(fp16_normalisation_keeps_its_range) {
    model_config c = small(2, 2, 384, true);
    c.hidden_size = 768;
    bench b = bench_open(&c, 40);
    b.round = true;
    model_build_options o = {.batch = 1, .sequence = 2, .dtype = MIL_fp16};
    mil_function *f;
    EXPECT_OK(model_build_head(b.module, "head", &c, &o, &f, &err));
    static const double sizes[] = {200, 1, 0.02};
    double *x = ARENA_ARRAY(b.arena, 2 * 768, double);
    rng r;
    for (int k = 0; k < 3; k++) {
        rng_init(&r, 9);
        for (int i = 0; i < 2 * 768; i++) x[i] = sizes[k] * rng_normal(&r);
        const named given[] = {{"x", x}};
        const mil_tensor *out = run(&b, f, given, 1, MODEL_HEAD, -1);
        double xs[768], xn[768], want[19], worst = 0, largest = 0;
        for (int t = 0; t < 2; t++) {
            for (int i = 0; i < 768; i++) xs[i] = x[2 * i + t];
            normalise(xn, xs, weight(b.w, MODEL_HEAD, -1, "norm_weight"), 768, c.rms_norm_eps);
            product(want, weight(b.w, MODEL_HEAD, -1, "lm_head"), xn, c.vocab_size, 768);
            for (int i = 0; i < 19; i++) {
                worst = fmax(worst, fabs(out->data[2 * i + t] - want[i]));
                largest = fmax(largest, fabs(want[i]));
            }
        }
        EXPECT_MSG(worst / largest < 5e-3, "size %g: %g of %g", sizes[k], worst, largest); /* observed: 1.3e-3 */
    }
    bench_close(&b);
}

TEST(wrong_options_are_refused) {
    model_config c = small(4, 2, 6, false);
    mil_module *m = mil_module_create("test");
    mil_function *f;
    model_build_options o = {.batch = 1, .sequence = 4, .dtype = MIL_int32};
    EXPECT_FAIL(model_build_attn(m, "a", &c, &o, 0, &f, &err), PROPANE_ERR_UNSUPPORTED, "fp16 or fp32");
    o.dtype = MIL_fp16;
    o.sequence = 65;
    EXPECT_FAIL(model_build_attn(m, "a", &c, &o, 0, &f, &err), PROPANE_ERR_INVALID, "max_position_embeddings = 64");
    o.sequence = 0;
    EXPECT_FAIL(model_build_head(m, "a", &c, &o, &f, &err), PROPANE_ERR_INVALID, "sequence 0");
    o.sequence = 4;
    EXPECT_FAIL(model_build_attn_decode(m, "a", &c, &o, 0, 0, &f, &err), PROPANE_ERR_INVALID, "a cache of 0");
    c.num_key_value_heads = 3;
    EXPECT_FAIL(model_build_ffn(m, "a", &c, &o, 0, &f, &err), PROPANE_ERR_INVALID, "multiple of num_key_value_heads");
    mil_module_free(m);
}

/* ---- llama2.c's own numbers -------------------------------------------------------------------------------------------------------- */

TEST(stories260k_equals_run_c) {
    const char *path = test_data("stories260K.bin");
    if (!path) SKIP("stories260K.bin is not here");
    bench b = {.arena = arena_create(), .module = mil_module_create("test")};
    EXPECT_OK(llama2c_read(path, &b.w, &err));
    const model_config *c = &b.w->config;
    EXPECT(c->hidden_size == 64 && c->intermediate_size == 172 && c->num_hidden_layers == 5 && c->vocab_size == 512);
    EXPECT(c->num_attention_heads == 8 && c->num_key_value_heads == 4 && c->tie_word_embeddings);
    static const int32_t ids[] = {1, 461, 461, 401, 401, 401, 461, 378, 455, 473, 456, 435, 299, 362, 409, 283};
    enum { N = sizeof ids / sizeof ids[0] };
    mil_function *f;
    model_build_options o = {.batch = 1, .sequence = N, .dtype = MIL_fp32};
    EXPECT_OK(whole_model_build(b.module, "whole", c, &o, &f, &err));
    const named given[] = {{"x", embed(&b, ids, 1, N)}};
    const double *logits = run(&b, f, given, 1, MODEL_HEAD, -1)[0].data;
    static const double want[3][5] = {{1.973871, 2.654902, 1.974989, 1.974209, 9.489280},
                                      {-4.752893, 5.950700, -4.753404, -4.753860, 9.542986},
                                      {-6.435327, 4.292825, -6.435618, -6.436211, 9.644279}};
    for (int t = 0; t < N; t++) {
        int best = 0;
        for (int i = 1; i < 512; i++)
            if (logits[i * N + t] > logits[best * N + t]) best = i;
        if (t + 1 < N) EXPECT_MSG(best == ids[t + 1], "position %d: token %d, run.c has %d", t, best, (int)ids[t + 1]);
        for (int i = 0; i < 5 && t < 3; i++) {
            double got = logits[(i < 4 ? i : best) * N + t];
            EXPECT_MSG(fabs(got - want[t][i]) < 2e-5, "position %d, logit %d: %f, run.c has %f", t, i, got, want[t][i]);
        }
    }
    EXPECT(difference(&b, logits, ids, 1, N) < 1e-6);
    bench_close(&b);
}

SUITE("model/llama", T(the_whole_model_equals_the_reference), T(the_halves_make_up_the_model),
      T(operations_carry_their_stages), T(generation_gives_what_training_gives), T(fp16_normalisation_keeps_its_range),
      T(wrong_options_are_refused), T(stories260k_equals_run_c))
