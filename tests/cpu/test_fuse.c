/* SPDX-License-Identifier: MIT
 * Fusions: each rule applies to the smallest program with its pattern, and not to the most similar program without it.
 * A rule without such a pair of tests fails. test_plan.c tests the results of fused programs.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/plan/plan.h"
#include "support/test.h"

typedef struct fuse_program {
    mil_builder b;
    bool miss; /* builds the program to which the rule must not apply */
} fuse_program;

#define SHAPE(...)                                                                                                     \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static mil_value *input(fuse_program *p, const char *name, mil_dtype dtype, int rank, const int64_t *dim) {
    return mil_build_param(&p->b, name, mil_type_tensor(dtype, rank, dim));
}

/* Builds a constant of ones. */
static mil_value *ones(fuse_program *p, const char *name, int rank, const int64_t *dim) {
    const mil_type type = mil_type_tensor(MIL_fp32, rank, dim);
    double *data = mem_array((size_t)mil_type_count(&type), sizeof *data);
    EXPECT(data != NULL);
    for (int64_t i = 0; i < mil_type_count(&type); i++) data[i] = 1;
    mil_value *v = mil_build_const_f64(&p->b, name, &type, data);
    mem_free(data);
    return v;
}

static mil_value *conv(fuse_program *p, mil_value *x, mil_value *weight, int64_t groups) {
    mil_value *g = mil_build_int(&p->b, (int32_t)groups), *pad = mil_build_text(&p->b, "same");
    const mil_argument arguments[] = {{"x", 1, &x}, {"weight", 1, &weight}, {"groups", 1, &g}, {"pad_type", 1, &pad}};
    mil_op *op = mil_build_op(&p->b, MIL_OP_conv, NULL, arguments, 4);
    EXPECT(op != NULL);
    return op->results[0];
}

/* softmax(Q K' + M) V; miss: another operation reads the probabilities. */
static void build_attention(fuse_program *p) {
    mil_value *q = input(p, "q", MIL_fp32, SHAPE(1, 2, 4, 8)), *k = input(p, "k", MIL_fp32, SHAPE(1, 2, 16, 8));
    mil_value *v = input(p, "v", MIL_fp32, SHAPE(1, 2, 16, 8)), *m = input(p, "m", MIL_fp32, SHAPE(1, 1, 4, 16));
    mil_value *scores = mil_build_binary(&p->b, MIL_OP_add, mil_build_matmul(&p->b, q, k, false, true), m);
    mil_value *probabilities = mil_build_softmax(&p->b, scores, 3);
    mil_build_result(&p->b, mil_build_matmul(&p->b, probabilities, v, false, false));
    if (p->miss) mil_build_result(&p->b, mil_build_unary(&p->b, MIL_OP_relu, probabilities));
}

/* A convolution and relu; miss: the weights are an input. */
static void build_conv(fuse_program *p) {
    mil_value *x = input(p, "x", MIL_fp32, SHAPE(1, 4, 6, 6));
    mil_value *w = p->miss ? input(p, "w", MIL_fp32, SHAPE(8, 4, 3, 3)) : ones(p, "w", SHAPE(8, 4, 3, 3));
    mil_build_result(&p->b, mil_build_unary(&p->b, MIL_OP_relu, conv(p, x, w, 1)));
}

/* 1x1, depthwise and 1x1 convolutions on an image too large for any cache; miss: the first one's results are also a
 * result. */
static void build_bottleneck(fuse_program *p) {
    mil_value *x = input(p, "x", MIL_fp32, SHAPE(1, 16, 56, 56));
    mil_value *wide = conv(p, x, ones(p, "w", SHAPE(96, 16, 1, 1)), 1);
    mil_value *deep = conv(p, wide, ones(p, "d", SHAPE(96, 1, 3, 3)), 96);
    mil_build_result(&p->b, conv(p, deep, ones(p, "v", SHAPE(16, 96, 1, 1)), 1));
    if (p->miss) mil_build_result(&p->b, mil_build_unary(&p->b, MIL_OP_tanh, wide));
}

/* int8 in blocks of 32 with one scale each; miss: blocks of 16. */
static void build_quantized_weights(fuse_program *p) {
    const int64_t block = p->miss ? 16 : 32, blocks = 64 / block;
    mil_value *w = input(p, "w", MIL_int8, SHAPE(16, blocks, block));
    mil_value *s = input(p, "s", MIL_fp16, SHAPE(16, blocks, 1)), *x = input(p, "x", MIL_fp32, SHAPE(64, 4));
    mil_value *wide = mil_build_cast(&p->b, w, MIL_fp32);
    mil_value *scaled = mil_build_binary(&p->b, MIL_OP_mul, wide, mil_build_cast(&p->b, s, MIL_fp32));
    mil_value *a = mil_build_reshape(&p->b, scaled, (const int64_t[]){16, 64}, 2);
    mil_build_result(&p->b, mil_build_matmul(&p->b, a, x, false, false));
}

/* fp16 read as fp32 by a matrix product; miss: a sum reads it as well. */
static void build_cast(fuse_program *p) {
    mil_value *x = mil_build_cast(&p->b, input(p, "x", MIL_fp16, SHAPE(20, 64)), MIL_fp32);
    mil_build_result(&p->b, mil_build_matmul(&p->b, input(p, "w", MIL_fp32, SHAPE(20, 20)), x, false, false));
    if (p->miss)
        mil_build_result(&p->b, mil_build_binary(&p->b, MIL_OP_add, x, input(p, "y", MIL_fp32, SHAPE(20, 64))));
}

/* Matrix products summed over the batch; miss: over the rows. */
static void build_batch_sum(fuse_program *p) {
    mil_value *x = input(p, "x", MIL_fp32, SHAPE(3, 8, 16)), *y = input(p, "y", MIL_fp32, SHAPE(3, 16, 8));
    const int64_t axis[] = {p->miss ? 1 : 0};
    mil_value *product = mil_build_matmul(&p->b, x, y, false, false);
    mil_build_result(&p->b, mil_build_reduce(&p->b, MIL_OP_reduce_sum, product, axis, 1, false));
}

/* The sum of a matrix product and a tensor of its type; miss: a row, which broadcasts. */
static void build_residual(fuse_program *p) {
    mil_value *x = input(p, "x", MIL_fp32, SHAPE(8, 16)), *y = input(p, "y", MIL_fp32, SHAPE(16, 24));
    mil_value *z = p->miss ? input(p, "z", MIL_fp32, SHAPE(1, 24)) : input(p, "z", MIL_fp32, SHAPE(8, 24));
    mil_build_result(&p->b, mil_build_binary(&p->b, MIL_OP_add, mil_build_matmul(&p->b, x, y, false, false), z));
}

/* The squares of a matrix product's whole result; miss: of each row. */
static void build_squares(fuse_program *p) {
    mil_value *x = input(p, "x", MIL_fp32, SHAPE(32, 32)), *y = input(p, "y", MIL_fp32, SHAPE(32, 32));
    mil_value *z = mil_build_matmul(&p->b, x, y, false, false);
    const int64_t axes[] = {1, 0};
    mil_build_result(&p->b, z);
    mil_build_result(&p->b, mil_build_reduce(&p->b, MIL_OP_reduce_sum_square, z, axes, p->miss ? 1 : 2, true));
}

/* tanh(x) * y; miss: y has more rows than tanh(x). */
static void build_elementwise(fuse_program *p) {
    mil_value *x = mil_build_unary(&p->b, MIL_OP_tanh, input(p, "x", MIL_fp32, SHAPE(p->miss ? 1 : 8, 16)));
    mil_build_result(&p->b, mil_build_binary(&p->b, MIL_OP_mul, x, input(p, "y", MIL_fp32, SHAPE(8, 16))));
}

/* Two functions of one tensor; miss: of two. */
static void build_siblings(fuse_program *p) {
    mil_value *x = input(p, "x", MIL_fp32, SHAPE(8, 16));
    mil_value *y = p->miss ? input(p, "y", MIL_fp32, SHAPE(8, 16)) : x;
    mil_build_result(&p->b, mil_build_unary(&p->b, MIL_OP_tanh, x));
    mil_build_result(&p->b, mil_build_unary(&p->b, MIL_OP_exp, y));
}

static const struct fuse_case {
    const char *rule;
    void (*build)(fuse_program *p);
} fuse_cases[] = {
    {"attention", build_attention},
    {"conv", build_conv},
    {"bottleneck", build_bottleneck},
    {"quantized_weights", build_quantized_weights},
    {"cast", build_cast},
    {"batch_sum", build_batch_sum},
    {"residual", build_residual},
    {"squares", build_squares},
    {"elementwise", build_elementwise},
    {"siblings", build_siblings},
};

enum { FUSE_CASES = sizeof fuse_cases / sizeof fuse_cases[0] };

/* Returns how often the rule is applied; -1 if there is no such rule. */
static int fired(const struct fuse_case *c, bool miss) {
    fuse_program p = {.miss = miss};
    const cpu_plan_options options = {.kernels = cpu_kernels_of(cpu_isa_best()), .fuse = true};
    propane_error err = {0};
    cpu_program *program = NULL;
    arena *a = arena_create();
    mil_module *module = mil_module_create("fuse");
    EXPECT(a && module);
    mil_build_begin(&p.b, module, "main", MIL_IOS18);
    c->build(&p);
    EXPECT_OK(mil_build_end(&p.b, &err));
    EXPECT_OK(cpu_plan_compile(p.b.function, &options, a, &program, &err));
    EXPECT_OK(cpu_program_memory_check(program, &err));
    int count = -1;
    for (int r = 0; r < program->fusion_count; r++)
        if (!strcmp(program->fusions[r].name, c->rule)) count = program->fusions[r].count;
    cpu_program_deinit(program);
    arena_free(a);
    mil_module_free(module);
    return count;
}

TEST(each_rule_fires_on_its_smallest_program) {
    for (int i = 0; i < FUSE_CASES; i++) {
        const int count = fired(&fuse_cases[i], false);
        EXPECT_MSG(count == 1, "%s: fired %d times", fuse_cases[i].rule, count);
    }
}

TEST(no_rule_fires_on_the_nearest_miss) {
    for (int i = 0; i < FUSE_CASES; i++) {
        const int count = fired(&fuse_cases[i], true);
        EXPECT_MSG(count == 0, "%s: fired %d times", fuse_cases[i].rule, count);
    }
}

TEST(every_rule_has_a_pair) {
    fuse_program p = {.miss = false};
    const cpu_plan_options options = {.kernels = cpu_kernels_of(cpu_isa_best()), .fuse = true};
    propane_error err = {0};
    cpu_program *program = NULL;
    arena *a = arena_create();
    mil_module *module = mil_module_create("fuse");
    EXPECT(a && module);
    mil_build_begin(&p.b, module, "main", MIL_IOS18);
    build_siblings(&p);
    EXPECT_OK(mil_build_end(&p.b, &err));
    EXPECT_OK(cpu_plan_compile(p.b.function, &options, a, &program, &err));
    EXPECT(program->fusion_count == FUSE_CASES);
    for (int r = 0; r < program->fusion_count; r++)
        EXPECT_MSG(!strcmp(program->fusions[r].name, fuse_cases[r].rule), "rule %d is %s, its pair %s", r,
                   program->fusions[r].name, fuse_cases[r].rule);
    cpu_program_deinit(program);
    arena_free(a);
    mil_module_free(module);
}

/* They read fp32, so the casts stay; the planner once crashed here. */
static void build_layers_after_casts(fuse_program *p) {
    mil_value *rows = mil_build_cast(&p->b, input(p, "r", MIL_fp16, SHAPE(12, 8)), MIL_fp32);
    mil_value *image = mil_build_cast(&p->b, input(p, "i", MIL_fp16, SHAPE(1, 8, 2, 3)), MIL_fp32);
    mil_value *w = ones(p, "w", SHAPE(16, 8));
    mil_op *linear = mil_build_op(&p->b, MIL_OP_linear, "y", (mil_argument[]){{"x", 1, &rows}, {"weight", 1, &w}}, 2);
    EXPECT(linear != NULL);
    mil_build_result(&p->b, linear->results[0]);
    mil_build_result(&p->b, conv(p, image, ones(p, "v", SHAPE(16, 8, 1, 1)), 1));
}

TEST(casts_before_layers_with_constant_weights_stay) {
    EXPECT(fired(&(struct fuse_case){"cast", build_layers_after_casts}, false) == 0);
    EXPECT(fired(&(struct fuse_case){"conv", build_layers_after_casts}, false) == 2);
}

SUITE("cpu/fuse", T(each_rule_fires_on_its_smallest_program), T(no_rule_fires_on_the_nearest_miss),
      T(every_rule_has_a_pair), T(casts_before_layers_with_constant_weights_stay))
