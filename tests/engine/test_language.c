/* SPDX-License-Identifier: MIT
 * Programs in the form that language models have when they are converted for the engine: weights in palettes, RMS
 * norms divided by their largest element, rotary positions, and attention of grouped queries over a cache that is an
 * input. Each is compiled, run by the interpreter, and compared with its meaning.
 */
#include <math.h>

#include "compiled.h"
#include "core/base/memory.h"
#include "core/mil/build.h"
#include "support/test.h"

enum { ROWS = 8, WIDTH = 64, HEADS = 4, GROUPS = 2, HEAD = 32, CACHE = 24, HIDDEN = 96, KEYS = CACHE + ROWS };

typedef struct language {
    mil_builder b;
    rng r;
    int64_t group; /* rows with one palette; 0 means all */
} language;

static mil_value *language_input(language *l, const char *name, int rank, const int64_t *dim) {
    return mil_build_param(&l->b, name, mil_type_tensor(MIL_fp16, rank, dim));
}

static mil_value *language_const(language *l, mil_dtype dtype, int rank, const int64_t *dim, const double *data) {
    const mil_type type = mil_type_tensor(dtype, rank, dim);
    return mil_build_const_f64(&l->b, NULL, &type, data);
}

static mil_value *language_normal(language *l, int rank, const int64_t *dim, double middle, double spread) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++) count *= dim[d];
    double *data = mem_array((size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = middle + spread * rng_normal(&l->r);
    mil_value *v = language_const(l, MIL_fp16, rank, dim, data);
    mem_free(data);
    return v;
}

static mil_value *language_call(language *l, mil_opcode code, const mil_argument *list, int count) {
    mil_op *op = mil_build_op(&l->b, code, NULL, list, count);
    EXPECT_MSG(op != NULL, "%s", l->b.err.text);
    return op ? op->results[0] : NULL;
}

/* Builds a weight [outputs, inputs] of 6-bit indices and palettes of 64 numbers. */
static mil_value *language_weight(language *l, int64_t outputs, int64_t inputs) {
    const int64_t groups = l->group ? outputs / l->group : 1, count = outputs * inputs;
    double *data = mem_array((size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = (double)(rng_next(&l->r) % 64);
    mil_value *indices = language_const(l, MIL_uint6, 2, (int64_t[]){outputs, inputs}, data);
    mil_value *lut = language_normal(l, 4, (int64_t[]){groups, 1, 64, 1}, 0, 1 / sqrt((double)inputs));
    mem_free(data);
    return language_call(l, MIL_OP_constexpr_lut_to_dense, (mil_argument[]){{"indices", 1, &indices}, {"lut", 1, &lut}},
                         2);
}

static mil_value *language_linear(language *l, mil_value *x, int64_t outputs) {
    mil_value *w = language_weight(l, outputs, x->type.dim[x->type.rank - 1]);
    mil_value *bias = language_normal(l, 1, &outputs, 0, 0);
    return language_call(l, MIL_OP_linear, (mil_argument[]){{"x", 1, &x}, {"weight", 1, &w}, {"bias", 1, &bias}}, 3);
}

static mil_value *language_with_epsilon(language *l, mil_opcode code, mil_value *x, double epsilon) {
    mil_value *e = mil_build_scalar(&l->b, MIL_fp32, epsilon);
    return language_call(l, code, (mil_argument[]){{"x", 1, &x}, {"epsilon", 1, &e}}, 2);
}

/* Builds x / sqrt(mean(x^2) + epsilon), with x divided by its largest element first. */
static mil_value *language_norm(language *l, mil_value *x, mil_value *weight) {
    mil_builder *b = &l->b;
    const int64_t last = -1;
    mil_value *low = mil_build_scalar(b, MIL_fp16, 1e-3), *high = mil_build_scalar(b, MIL_fp16, INFINITY);
    mil_value *most = mil_build_reduce(b, MIL_OP_reduce_max, mil_build_unary(b, MIL_OP_abs, x), &last, 1, true);
    most = language_call(l, MIL_OP_clip, (mil_argument[]){{"x", 1, &most}, {"alpha", 1, &low}, {"beta", 1, &high}}, 3);
    mil_value *scaled = mil_build_binary(b, MIL_OP_real_div, x, most);
    mil_value *mean =
        mil_build_reduce(b, MIL_OP_reduce_mean, mil_build_binary(b, MIL_OP_mul, scaled, scaled), &last, 1, true);
    mil_value *e = mil_build_binary_scalar(b, MIL_OP_mul, language_with_epsilon(l, MIL_OP_inverse, most, 1e-4), 1e-3);
    mean = mil_build_binary(b, MIL_OP_add, mean, mil_build_binary(b, MIL_OP_mul, e, e));
    mil_value *y = mil_build_binary(b, MIL_OP_mul, scaled, language_with_epsilon(l, MIL_OP_rsqrt, mean, 0));
    return weight ? mil_build_binary(b, MIL_OP_mul, y, weight) : y;
}

/* Builds [1, ROWS, heads * HEAD] as [1, heads, ROWS, HEAD]. */
static mil_value *language_heads(language *l, mil_value *x, int64_t heads) {
    x = mil_build_reshape(&l->b, x, (int64_t[]){1, ROWS, heads, HEAD}, 4);
    return mil_build_transpose(&l->b, x, (int64_t[]){0, 2, 1, 3}, 4);
}

static mil_value *language_rotary(language *l, mil_value *x, mil_value *cosine, mil_value *sine) {
    mil_builder *b = &l->b;
    const int64_t heads = x->type.dim[1], half = HEAD / 2;
    mil_value *first = mil_build_slice(b, x, (int64_t[]){0, 0, 0, 0}, (int64_t[]){1, heads, ROWS, half});
    mil_value *second = mil_build_slice(b, x, (int64_t[]){0, 0, 0, half}, (int64_t[]){1, heads, ROWS, half});
    mil_value *turned[] = {mil_build_binary_scalar(b, MIL_OP_mul, second, -1), first};
    mil_value *other = mil_build_binary(b, MIL_OP_mul, mil_build_concat(b, turned, 2, 3), sine);
    return mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, x, cosine), other);
}

/* Builds one entry of the cache followed by the new rows, and repeats it for the queries of each group. */
static mil_value *language_keys(language *l, mil_value *cache, int64_t layer, mil_value *fresh) {
    mil_builder *b = &l->b;
    mil_value *old = mil_build_slice(b, cache, (int64_t[]){layer, 0, 0, 0, 0}, (int64_t[]){1, 1, GROUPS, CACHE, HEAD});
    old = mil_build_reshape(b, old, (int64_t[]){1, GROUPS, CACHE, HEAD}, 4);
    mil_value *all = mil_build_concat(b, (mil_value *[]){old, fresh}, 2, 2);
    all = mil_build_transpose(b, all, (int64_t[]){1, 0, 2, 3}, 4);
    mil_value *reps = mil_build_ints(b, (int64_t[]){HEADS / GROUPS, 1, 1, 1}, 4);
    all = language_call(l, MIL_OP_tile, (mil_argument[]){{"x", 1, &all}, {"reps", 1, &reps}}, 2);
    all = mil_build_reshape(b, all, (int64_t[]){HEADS / GROUPS, GROUPS, 1, KEYS, HEAD}, 5);
    all = mil_build_transpose(b, all, (int64_t[]){1, 0, 2, 3, 4}, 5);
    return mil_build_reshape(b, all, (int64_t[]){HEADS, 1, KEYS, HEAD}, 4);
}

static mil_value *language_attend(language *l, mil_value *q, mil_value *k, mil_value *v, mil_value *mask) {
    mil_builder *b = &l->b;
    k = mil_build_transpose(b, k, (int64_t[]){1, 0, 3, 2}, 4);
    v = mil_build_transpose(b, v, (int64_t[]){1, 0, 2, 3}, 4);
    mil_value *s = mil_build_binary_scalar(b, MIL_OP_mul, mil_build_matmul(b, q, k, false, false), 1 / sqrt(HEAD));
    s = mil_build_softmax(b, mil_build_binary(b, MIL_OP_add, s, mask), -1);
    s = mil_build_transpose(b, mil_build_matmul(b, s, v, false, false), (int64_t[]){0, 2, 1, 3}, 4);
    return mil_build_reshape(b, s, (int64_t[]){1, ROWS, HEADS * HEAD}, 3);
}

static void language_stack(language *l, const char *name, mil_value **values, int count) {
    mil_value *axis = mil_build_int(&l->b, 0);
    mil_op *op =
        mil_build_op(&l->b, MIL_OP_stack, name, (mil_argument[]){{"values", count, values}, {"axis", 1, &axis}}, 2);
    EXPECT_MSG(op != NULL, "%s", l->b.err.text);
    if (op) mil_build_result(&l->b, op->results[0]);
}

/* Builds one or two layers; `weighted` gives every norm a weight. */
static void language_build(language *l, int layers, bool weighted) {
    mil_builder *b = &l->b;
    const int64_t cache[] = {layers, 1, GROUPS, CACHE, HEAD}, table[] = {1, 1, ROWS, HEAD}, width = WIDTH, head = HEAD;
    mil_value *cache_k = language_input(l, "cache_k", 5, cache), *cache_v = language_input(l, "cache_v", 5, cache);
    mil_value *cosine = language_input(l, "cos", 4, table), *sine = language_input(l, "sin", 4, table);
    mil_value *x = language_input(l, "hidden", 3, (int64_t[]){1, ROWS, WIDTH});
    mil_value *mask = language_input(l, "mask", 4, (int64_t[]){1, 1, ROWS, KEYS}), *new_k[2], *new_v[2];
    for (int64_t i = 0; i < layers; i++) {
        mil_value *outer = weighted ? language_normal(l, 1, &width, 1, 0.2) : NULL;
        mil_value *inner = weighted ? language_normal(l, 1, &head, 1, 0.2) : NULL;
        mil_value *h = language_norm(l, x, outer);
        mil_value *q = language_norm(l, language_heads(l, language_linear(l, h, HEADS * HEAD), HEADS), inner);
        mil_value *k = language_norm(l, language_heads(l, language_linear(l, h, GROUPS * HEAD), GROUPS), inner);
        new_v[i] = language_heads(l, language_linear(l, h, GROUPS * HEAD), GROUPS);
        new_k[i] = language_rotary(l, k, cosine, sine);
        q = language_rotary(l, q, cosine, sine);
        mil_value *a =
            language_attend(l, q, language_keys(l, cache_k, i, new_k[i]), language_keys(l, cache_v, i, new_v[i]), mask);
        x = mil_build_binary(b, MIL_OP_add, x, language_linear(l, a, WIDTH));
        h = language_norm(l, x, outer);
        mil_value *gate = mil_build_unary(b, MIL_OP_silu, language_linear(l, h, HIDDEN));
        gate = mil_build_binary(b, MIL_OP_mul, gate, language_linear(l, h, HIDDEN));
        x = mil_build_binary(b, MIL_OP_add, x, language_linear(l, gate, WIDTH));
    }
    mil_build_result(b, x);
    language_stack(l, "new_k", new_k, layers);
    language_stack(l, "new_v", new_v, layers);
}

static void language_check(uint32_t subtype, int layers, bool weighted, int64_t group, uint64_t seed) {
    language l = {.group = group};
    compile_seen seen = {.subtype = subtype};
    propane_error err = {0};
    rng_init(&l.r, seed);
    mil_module *m = mil_module_create("language");
    mil_build_begin(&l.b, m, "main", MIL_IOS18);
    language_build(&l, layers, weighted);
    EXPECT_OK(mil_build_end(&l.b, &err));
    double worst = compile_run(m->functions, &l.r, 1, &seen, &err);
    EXPECT_MSG(worst >= 0, "%s", err.text);
    EXPECT_MSG(worst <= 0.012 && seen.cpu_worst <= 0.012, "off by %.3g and %.3g of the largest value", worst,
               seen.cpu_worst);
    printf("%d layer%s%s: %d tasks, worst difference %.3g, from the cpu driver %.3g\n", layers, layers == 1 ? "" : "s",
           weighted ? " with weights in their norms" : "", seen.tasks, worst, seen.cpu_worst);
    mil_module_free(m);
}

TEST(layers_with_a_cache_keep_their_meaning) {
    language_check(ENGINE_H13, 2, false, 0, 5);
    language_check(ENGINE_H13, 2, true, 16, 6);
    language_check(ENGINE_H14, 1, false, 16, 7);
    language_check(ENGINE_H14, 1, true, 0, 8);
}

SUITE("engine/language", T(layers_with_a_cache_keep_their_meaning))
