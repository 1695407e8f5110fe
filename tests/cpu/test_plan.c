/* SPDX-License-Identifier: MIT
 * Plans: fused operations, views, and results computed in place. Live values must never overlap in memory (dead memory
 * is filled with NaN while these programs run), and a run must allocate nothing. Random programs must compute the same
 * as the slow reference, fused or not.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/plan/plan.h"
#include "support/test.h"

#define MAX_IO 16

typedef struct plan_test {
    mil_module *module;
    mil_builder b;
    arena *arena;
    cpu_program *program;
    void *inputs[MAX_IO], *outputs[MAX_IO], *block;
    mil_tensor tensors[MAX_IO];
} plan_test;

static void begin(plan_test *t) {
    memset(t, 0, sizeof *t);
    t->module = mil_module_create("plan");
    t->arena = arena_create();
    EXPECT(t->module && t->arena);
    mil_build_begin(&t->b, t->module, "main", MIL_IOS18);
}

static mil_value *param(plan_test *t, const char *name, mil_dtype dtype, int rank, const int64_t *dim) {
    return mil_build_param(&t->b, name, mil_type_tensor(dtype, rank, dim));
}

#define SHAPE(...)                                                                                                     \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static void compile(plan_test *t, bool fuse) {
    plan_test *p = t;
    propane_error err = {0};
    cpu_plan_options o = {.kernels = cpu_kernels_of(cpu_isa_best()), .guard = true, .fuse = fuse};
    if (t->b.function && !t->program) EXPECT_OK(mil_build_end(&t->b, &err));
    EXPECT_OK(cpu_plan_compile(p->b.function, &o, t->arena, &t->program, &err));
    EXPECT_OK(cpu_program_memory_check(t->program, &err));
    t->program->poison = true;
    t->block = mem_pages_alloc((size_t)t->program->block_bytes + 64);
    EXPECT(t->block != NULL);
}

static void fill_inputs(plan_test *t, uint64_t seed) {
    rng r;
    rng_init(&r, seed);
    EXPECT(t->program->input_count <= MAX_IO && t->program->output_count <= MAX_IO);
    for (int i = 0; i < t->program->input_count; i++) {
        mil_type type = t->b.function->params[i]->type;
        int64_t count = mil_type_count(&type);
        t->tensors[i] = (mil_tensor){type, arena_array(t->arena, (size_t)count, sizeof(double))};
        for (int64_t k = 0; k < count; k++) t->tensors[i].data[k] = mil_round(type.dtype, 2 * rng_unit(&r) - 1);
        t->inputs[i] = mem_alloc(t->program->inputs[i].bytes);
        mil_pack_f64(t->inputs[i], type.dtype, t->tensors[i].data, count);
    }
    for (int i = 0; i < t->program->output_count; i++) {
        t->outputs[i] = mem_alloc(t->program->outputs[i].bytes);
        memset(t->outputs[i], 0xff, t->program->outputs[i].bytes);
    }
}

static void run(plan_test *t) {
    propane_error err = {0};
    EXPECT_OK(cpu_program_run(t->program, t->block, t->inputs, t->outputs, &err));
}

/* Compares all outputs with the slow reference. `unit` is the allowed error relative to 1 + |value|. Returns the worst
 * error. */
static double check(plan_test *t, double unit, const char *label) {
    propane_error err = {0};
    mil_tensor *want = NULL;
    double worst = 0;
    EXPECT_OK(mil_eval_function(t->b.function, t->tensors, false, t->arena, &want, &err));
    for (int r = 0; r < t->program->output_count; r++) {
        int64_t count = mil_type_count(&want[r].type);
        double *got = arena_array(t->arena, (size_t)count, sizeof *got);
        mil_unpack_f64(got, want[r].type.dtype, t->outputs[r], count);
        for (int64_t i = 0; i < count; i++) {
            double error = fabs(got[i] - want[r].data[i]) / (1 + fabs(want[r].data[i]));
            if (error > worst) worst = error;
            EXPECT_MSG(error <= unit, "%s: output %d element %lld is %.8g, not %.8g", label, r, (long long)i, got[i],
                       want[r].data[i]);
        }
    }
    return worst;
}

static void drop_program(plan_test *t) {
    for (int i = 0; i < MAX_IO; i++) {
        mem_free(t->inputs[i]);
        mem_free(t->outputs[i]);
        t->inputs[i] = t->outputs[i] = NULL;
    }
    mem_pages_free(t->block, (size_t)t->program->block_bytes + 64);
    cpu_program_deinit(t->program);
}

static void end(plan_test *t) {
    drop_program(t);
    mil_module_free(t->module);
    arena_free(t->arena);
}

/* ---- fusion -------------------------------------------------------------------------------------------------------------- */

static mil_value *rms_norm(plan_test *t, mil_value *x, mil_value *w) {
    mil_builder *b = &t->b;
    mil_value *scaled = mil_build_binary_scalar(b, MIL_OP_mul, x, 0.125);
    mil_value *square = mil_build_binary(b, MIL_OP_mul, scaled, scaled);
    mil_value *sum = mil_build_reduce(b, MIL_OP_reduce_sum, square, (const int64_t[]){1}, 1, true);
    mil_value *root = mil_build_unary(b, MIL_OP_rsqrt, mil_build_binary_scalar(b, MIL_OP_add, sum, 1e-5));
    return mil_build_binary(b, MIL_OP_mul, mil_build_binary(b, MIL_OP_mul, x, root), w);
}

TEST(a_norm_is_one_step) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(2, 64, 1, 40)), *w = param(&t, "w", MIL_fp32, SHAPE(1, 64, 1, 1));
    mil_build_result(&t.b, rms_norm(&t, x, w));
    compile(&t, true);
    EXPECT(t.program->step_count == 1 && t.program->tile_count == 1 && t.program->copy_count == 0);
    fill_inputs(&t, 1);
    run(&t);
    check(&t, 4e-7, "norm"); /* observed 1e-7 */
    end(&t);
}

TEST(softmax_with_scale_and_mask_and_its_gradient_are_one_step_each) {
    plan_test t;
    begin(&t);
    mil_value *s = param(&t, "s", MIL_fp32, SHAPE(2, 3, 20, 50)),
              *mask = param(&t, "mask", MIL_fp32, SHAPE(1, 1, 20, 50));
    mil_value *scaled = mil_build_binary_scalar(&t.b, MIL_OP_mul, s, 0.25);
    mil_value *p = mil_build_softmax(&t.b, mil_build_binary(&t.b, MIL_OP_add, scaled, mask), 3);
    mil_build_result(&t.b, p);
    compile(&t, true);
    EXPECT(t.program->step_count == 1);
    fill_inputs(&t, 2);
    run(&t);
    check(&t, 3e-7, "softmax"); /* observed 3e-8 */
    end(&t);

    begin(&t);
    p = param(&t, "p", MIL_fp32, SHAPE(2, 3, 20, 50));
    mil_value *d = param(&t, "d", MIL_fp32, SHAPE(2, 3, 20, 50));
    mil_value *dot = mil_build_reduce(&t.b, MIL_OP_reduce_sum, mil_build_binary(&t.b, MIL_OP_mul, p, d),
                                      (const int64_t[]){3}, 1, true);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_mul, p, mil_build_binary(&t.b, MIL_OP_sub, d, dot)));
    compile(&t, true);
    EXPECT(t.program->step_count == 1);
    fill_inputs(&t, 3);
    run(&t);
    check(&t, 2e-6, "softmax gradient"); /* observed 4e-7 */
    end(&t);
}

/* Builds a matrix that swaps halves of `n` lines and negates one of them. */
static mil_value *turn(plan_test *t, mil_dtype dtype, int64_t n) {
    double *data = arena_array(t->arena, (size_t)(n * n), sizeof *data);
    mil_type type = mil_type_tensor(dtype, 4, (const int64_t[]){1, 1, n, n});
    for (int64_t i = 0; i < n / 2; i++) {
        data[i * n + i + n / 2] = -1;
        data[(i + n / 2) * n + i] = 1;
    }
    return mil_build_const_f64(&t->b, "turn", &type, data);
}

static mil_value *table(plan_test *t, mil_dtype dtype, int64_t n, int64_t length) {
    double *data = arena_array(t->arena, (size_t)(n * length), sizeof *data);
    mil_type type = mil_type_tensor(dtype, 4, (const int64_t[]){1, 1, n, length});
    for (int64_t i = 0; i < n * length; i++) data[i] = (double)(i % 19) / 16 - 0.5;
    return mil_build_const_f64(&t->b, "table", &type, data);
}

/* RoPE and its gradient, on a scaled operand with other readers. `bad`: the matrix does more than select rows. */
static void build_rope(plan_test *t, mil_dtype dtype, int64_t length, bool bad) {
    mil_builder *b = &t->b;
    mil_value *h = param(t, "h", dtype, SHAPE(2, 3, 12, length)), *d = param(t, "d", dtype, SHAPE(2, 3, 12, length));
    mil_value *r = turn(t, dtype, 12), *c = table(t, dtype, 12, length), *s = table(t, dtype, 12, length);
    if (bad) r = mil_build_binary_scalar(b, MIL_OP_mul, r, 0.5);
    mil_value *turned = mil_build_matmul(b, r, h, false, false);
    mil_build_result(b, mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, h, c),
                                         mil_build_binary(b, MIL_OP_mul, turned, s)));
    mil_value *scaled = mil_build_binary_scalar(b, MIL_OP_mul, d, 0.25);
    turned = mil_build_matmul(b, r, mil_build_binary(b, MIL_OP_mul, scaled, s), true, false);
    mil_build_result(b, mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, scaled, c), turned));
}

TEST(products_that_pick_lines_are_elementwise) {
    static const struct {
        mil_dtype dtype;
        int64_t length;
        bool bad;
        int steps, products;
    } cases[] = {{MIL_fp32, 40, false, 2, 0},
                 {MIL_fp32, 1300, false, 2, 0},
                 {MIL_fp16, 33, false, 2, 0},
                 {MIL_fp32, 40, true, 4, 2},
                 {MIL_fp32, 1, false, 4, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_test t;
        begin(&t);
        build_rope(&t, cases[i].dtype, cases[i].length, cases[i].bad);
        compile(&t, true);
        EXPECT_MSG(t.program->step_count == cases[i].steps && t.program->gemm_count == cases[i].products,
                   "case %zu: %d steps, %d products", i, t.program->step_count, t.program->gemm_count);
        fill_inputs(&t, 20 + i);
        run(&t);
        check(&t, cases[i].dtype == MIL_fp16 ? 1e-3 : 2e-7, "picked lines"); /* observed 2.4e-4, 5.4e-8 */
        end(&t);
    }
}

/* Checks that one thread produces the same bits. */
static void check_alone(plan_test *t) {
    void *before[MAX_IO];
    for (int i = 0; i < t->program->output_count; i++) {
        before[i] = t->outputs[i];
        t->outputs[i] = mem_alloc(t->program->outputs[i].bytes);
    }
    t->program->threads = 1;
    run(t);
    for (int i = 0; i < t->program->output_count; i++) {
        EXPECT(memcmp(before[i], t->outputs[i], t->program->outputs[i].bytes) == 0);
        mem_free(before[i]);
    }
}

/* Sums that depend on sums, longer than a chunk, with weights that repeat along lines; the results overwrite an
 * operand. From 109 columns, a tile is divided into parts; 1100 columns are two tiles. */
TEST(columns_go_over_their_fold_in_passes) {
    static const int64_t widths[] = {1, 7, 40, 70, 109, 300, 1100};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        plan_test t;
        begin(&t);
        mil_builder *b = &t.b;
        mil_value *x = param(&t, "x", MIL_fp32, SHAPE(2, 301, 1, widths[i]));
        mil_value *w = param(&t, "w", MIL_fp32, SHAPE(1, 301, 1, 1)),
                  *d = param(&t, "d", MIL_fp32, SHAPE(2, 301, 1, widths[i]));
        mil_value *half = param(&t, "half", MIL_fp16, SHAPE(1, 301, 1, 1));
        const int64_t axis[] = {1};
        mil_value *mean = mil_build_reduce(b, MIL_OP_reduce_mean, x, axis, 1, true);
        mil_value *centred = mil_build_binary(b, MIL_OP_sub, x, mean);
        mil_value *spread =
            mil_build_reduce(b, MIL_OP_reduce_mean, mil_build_unary(b, MIL_OP_square, centred), axis, 1, true);
        mil_value *root = mil_build_unary(b, MIL_OP_rsqrt, mil_build_binary_scalar(b, MIL_OP_add, spread, 1e-3));
        mil_value *normed = mil_build_binary(b, MIL_OP_mul, centred, root);
        mil_value *dn =
            mil_build_binary(b, MIL_OP_mul, mil_build_binary(b, MIL_OP_mul, d, w), mil_build_cast(b, half, MIL_fp32));
        mil_value *dot =
            mil_build_reduce(b, MIL_OP_reduce_mean, mil_build_binary(b, MIL_OP_mul, dn, normed), axis, 1, true);
        mil_value *rest = mil_build_binary(b, MIL_OP_sub, dn, mil_build_binary(b, MIL_OP_mul, normed, dot));
        mil_build_result(b, mil_build_binary(b, MIL_OP_mul, rest, root));
        mil_build_result(b, mil_build_binary(b, MIL_OP_mul, normed, w));
        mil_build_result(b, mean);
        mil_build_result(b, dot);
        mil_build_result(b, mil_build_reduce(b, MIL_OP_reduce_min, rest, axis, 1, true));
        compile(&t, true);
        EXPECT(t.program->step_count == 2); /* the cast of a vector is a separate step */
        fill_inputs(&t, 30 + i);
        run(&t);
        check(&t, 1e-6, "passes"); /* observed 1.6e-7 */
        check_alone(&t);
        end(&t);
    }
}

/* Multiplications read by a single sum, and constants at reduced factors, in columns and in rows. `twice`: values that
 * are read twice or are results must stay. */
TEST(products_go_into_what_reads_them) {
    for (int i = 0; i < 8; i++) {
        const bool rows = i & 1, twice = i & 2, large = i & 4;
        const int64_t axis[] = {rows ? 2 : 1}, wide = large ? 260 : 21;
        plan_test t;
        begin(&t);
        mil_builder *b = &t.b;
        mil_value *x = param(&t, "x", MIL_fp32, SHAPE(2, 130, wide)),
                  *d = param(&t, "d", MIL_fp32, SHAPE(2, 130, wide));
        mil_value *w = param(&t, "w", MIL_fp32, SHAPE(1, 130, 1));
        mil_value *scaled = mil_build_binary_scalar(b, MIL_OP_mul, x, 0.37);
        mil_value *square = mil_build_unary(b, MIL_OP_square, scaled);
        mil_value *r = mil_build_unary(
            b, MIL_OP_rsqrt,
            mil_build_binary_scalar(b, MIL_OP_add, mil_build_reduce(b, MIL_OP_reduce_sum, square, axis, 1, true), 0.5));
        mil_value *dw = mil_build_binary(b, MIL_OP_mul, d, w), *dx = mil_build_binary(b, MIL_OP_mul, dw, x);
        mil_value *dot = mil_build_reduce(b, MIL_OP_reduce_sum, dx, axis, 1, true);
        mil_value *inner = mil_build_binary(b, MIL_OP_mul, scaled, mil_build_binary(b, MIL_OP_mul, dot, r));
        mil_value *outer = mil_build_binary_scalar(b, MIL_OP_mul, inner, 0.43);
        mil_value *first = mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, dw, r), d);
        mil_build_result(b, mil_build_binary(b, MIL_OP_sub, first, outer));
        mil_build_result(b, mil_build_binary(b, MIL_OP_sub, mil_build_binary(b, MIL_OP_mul, x, d), first));
        mil_value *line = mil_build_binary(b, MIL_OP_add, mil_build_binary(b, MIL_OP_mul, w, x), w);
        mil_build_result(b, mil_build_binary(b, MIL_OP_sub, r, mil_build_binary(b, MIL_OP_mul, line, scaled)));
        if (twice) {
            mil_build_result(b, dx);
            mil_build_result(b, inner);
            mil_build_result(b, mil_build_binary(b, MIL_OP_add, square, outer));
        }
        compile(&t, true);
        EXPECT(t.program->step_count == 1);
        fill_inputs(&t, 50 + (uint64_t)i);
        run(&t);
        check(&t, 1e-6, "combined"); /* observed 1.5e-7 */
        check_alone(&t);
        end(&t);
    }
}

/* Attention with its gradient, with the heads of a group one after the other. `hole`: the mask admits one later
 * position. */
static void build_attention(plan_test *t, int64_t s, int64_t group, bool hole) {
    mil_builder *b = &t->b;
    double *mask = arena_array(t->arena, (size_t)(s * s), sizeof *mask);
    for (int64_t i = 0; i < s * s; i++) mask[i] = i % s > i / s ? -1e4 : 0;
    if (hole) mask[s - 1] = 0;
    mil_type square = mil_type_tensor(MIL_fp32, 4, (const int64_t[]){1, 1, s, s});
    mil_value *m = mil_build_const_f64(b, "mask", &square, mask);
    mil_value *q = param(t, "q", MIL_fp32, SHAPE(2, 2, group * s, 16)),
              *k = param(t, "k", MIL_fp32, SHAPE(2, 2, 16, s));
    mil_value *v = param(t, "v", MIL_fp32, SHAPE(2, 2, 16, s)),
              *d = param(t, "d", MIL_fp32, SHAPE(2, 2, group * s, 16));
    const int64_t apart[] = {2, 2 * group, s, s}, together[] = {2, 2, group * s, s};
    mil_value *scores = mil_build_reshape(b, mil_build_matmul(b, q, k, false, false), apart, 4);
    mil_value *p = mil_build_softmax(b, mil_build_binary(b, MIL_OP_add, scores, m), 3);
    mil_value *rows = mil_build_reshape(b, p, together, 4);
    mil_build_result(b, mil_build_matmul(b, rows, v, false, true));
    mil_build_result(b, mil_build_matmul(b, d, rows, true, false)); /* of v */
    mil_value *dp = mil_build_reshape(b, mil_build_matmul(b, d, v, false, false), apart, 4);
    mil_value *dot =
        mil_build_reduce(b, MIL_OP_reduce_sum, mil_build_binary(b, MIL_OP_mul, p, dp), (const int64_t[]){3}, 1, true);
    mil_value *ds =
        mil_build_reshape(b, mil_build_binary(b, MIL_OP_mul, p, mil_build_binary(b, MIL_OP_sub, dp, dot)), together, 4);
    mil_build_result(b, mil_build_matmul(b, ds, k, false, true));
    mil_build_result(b, mil_build_matmul(b, q, ds, true, false)); /* of k */
}

/* Forward and backward share the probabilities, so products and softmax are separate steps. */
TEST(attention_with_shared_probabilities) {
    static const struct {
        int64_t s, group;
        bool hole;
    } cases[] = {{70, 1, false}, {70, 3, false}, {33, 1, false}, {70, 1, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_test t;
        begin(&t);
        build_attention(&t, cases[i].s, cases[i].group, cases[i].hole);
        compile(&t, true);
        fill_inputs(&t, i);
        run(&t);
        check(&t, 2e-6, "causal attention");
        end(&t);
    }
}

/* y = W x for three W, and the gradients of two over a batch: x is packed once for each. An addition in between, with
 * its own operand, is not part of it. */
TEST(products_of_the_same_operand_pack_it_once) {
    for (int64_t batch = 1; batch <= 2; batch++) {
        plan_test t;
        begin(&t);
        mil_builder *b = &t.b;
        mil_value *x = param(&t, "x", MIL_fp32, SHAPE(batch, 1, 32, 64)), *w[3], *d[2];
        for (int i = 0; i < 3; i++) w[i] = param(&t, i ? i == 1 ? "w1" : "w2" : "w0", MIL_fp32, SHAPE(40 + 13 * i, 64));
        for (int i = 0; i < 2; i++) d[i] = param(&t, i ? "d1" : "d0", MIL_fp32, SHAPE(batch, 1, 70 + 7 * i, 32));
        mil_value *first =
            mil_build_reshape(b, mil_build_slice(b, x, (const int64_t[]){0, 0, 0, 0}, (const int64_t[]){1, 1, 32, 64}),
                              (const int64_t[]){32, 64}, 2);
        for (int i = 0; i < 3; i++) mil_build_result(b, mil_build_matmul(b, w[i], first, false, true));
        for (int i = 0; i < 2; i++)
            mil_build_result(b, mil_build_reduce(b, MIL_OP_reduce_sum, mil_build_matmul(b, d[i], x, false, false),
                                                 (const int64_t[]){0}, 1, true));
        compile(&t, true);
        EXPECT_MSG(t.program->shared_count == 3, "%d products read what one before has packed",
                   t.program->shared_count);
        fill_inputs(&t, (uint64_t)batch);
        run(&t);
        check(&t, 4e-6, "shared operands"); /* observed: 1.3e-6 */
        end(&t);
    }
}

/* A value that is also read outside the step is both stored and used. */
TEST(taps_are_stored_by_the_step_that_makes_them) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(1, 32, 1, 64)), *y = param(&t, "y", MIL_fp32, SHAPE(1, 32, 1, 64));
    mil_value *gate = mil_build_unary(&t.b, MIL_OP_silu, x);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_mul, gate, y));
    mil_build_result(&t.b, gate);
    compile(&t, true);
    EXPECT(t.program->step_count == 1 && t.program->fused_ops == 2);
    fill_inputs(&t, 4);
    run(&t);
    check(&t, 1e-6, "taps");
    end(&t);
}

/* s has the sums of the rows, but broadcasts along the columns, so it must not be taken for a reduced value of the
 * step. */
TEST(dropped_axes_are_not_confused) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(8, 8));
    mil_value *s = mil_build_reduce(&t.b, MIL_OP_reduce_sum, x, (const int64_t[]){1}, 1, false);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_sub, x, s));
    compile(&t, true);
    fill_inputs(&t, 5);
    run(&t);
    check(&t, 1e-6, "dropped axes");
    end(&t);
}

/* A matrix product is between one elementwise operation and the other, so they must stay apart. */
TEST(no_cycles_through_other_steps) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(16, 16));
    mil_value *a = mil_build_unary(&t.b, MIL_OP_tanh, x);
    mil_value *m = mil_build_matmul(&t.b, a, a, false, true);
    mil_value *c = mil_build_unary(&t.b, MIL_OP_tanh, m);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_mul, mil_build_binary(&t.b, MIL_OP_sub, a, c), a));
    compile(&t, true);
    EXPECT(t.program->step_count == 3);
    fill_inputs(&t, 6);
    run(&t);
    check(&t, 1e-6, "diamond");
    end(&t);
}

TEST(products_take_the_sum_behind_them) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(2, 24, 1, 33)), *w = param(&t, "w", MIL_fp32, SHAPE(24, 24));
    mil_value *wide = mil_build_reshape(&t.b, x, (const int64_t[]){2, 1, 24, 33}, 4);
    mil_value *weight = mil_build_reshape(&t.b, w, (const int64_t[]){1, 1, 24, 24}, 4);
    mil_value *y = mil_build_matmul(&t.b, weight, wide, false, false);
    y = mil_build_reshape(&t.b, y, (const int64_t[]){2, 24, 1, 33}, 4);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_add, x, y));
    compile(&t, true);
    EXPECT(t.program->step_count == 1 && t.program->gemm_count == 1);
    fill_inputs(&t, 7);
    run(&t);
    check(&t, 2e-6, "residual"); /* observed 4e-7 */
    end(&t);
}

/* A pointwise convolution merges the dimensions of the image. A transpose of them, in the added image or in the result,
 * prevents that. */
TEST(pointwise_convolutions_meet_turned_images) {
    for (int turned = 0; turned < 3; turned++) {
        plan_test t;
        begin(&t);
        mil_value *x = param(&t, "x", MIL_fp32, SHAPE(2, 3, 4, 5)), *w = param(&t, "w", MIL_fp32, SHAPE(6, 3, 1, 1));
        mil_value *z = param(&t, "z", MIL_fp32, SHAPE(2, 6, 5, 4)), *y = mil_build_conv1x1(&t.b, x, w);
        const int64_t perm[4] = {0, 1, 3, 2};
        if (turned != 1) y = mil_build_binary(&t.b, MIL_OP_add, y, mil_build_transpose(&t.b, z, perm, 4));
        if (turned != 0) y = mil_build_transpose(&t.b, y, perm, 4);
        mil_build_result(&t.b, y);
        compile(&t, true);
        fill_inputs(&t, 7);
        run(&t);
        check(&t, 2e-6, "turned"); /* observed 2e-7 */
        end(&t);
    }
}

/* If two products are added, one of them absorbs the sum. */
TEST(the_sum_of_two_products_is_taken_once) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(5, 6, 7)), *y = param(&t, "y", MIL_fp32, SHAPE(5, 7, 9));
    mil_value *z = param(&t, "z", MIL_fp32, SHAPE(5, 6, 8)), *w = param(&t, "w", MIL_fp32, SHAPE(8, 9));
    mil_value *a = mil_build_matmul(&t.b, x, y, false, false), *c = mil_build_matmul(&t.b, z, w, false, false);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_add, a, c));
    compile(&t, true);
    EXPECT(t.program->step_count == 2 && t.program->gemm_count == 2);
    fill_inputs(&t, 15);
    run(&t);
    check(&t, 2e-6, "two products"); /* observed 3e-7 */
    end(&t);
}

/* ---- accumulation --------------------------------------------------------------------------------------------------------- */

/* sum + sum over the batch of dy x^T with fp16 taps: one step, in place, no copy of the taps. */
TEST(weight_gradients_accumulate_in_place) {
    plan_test t;
    begin(&t);
    mil_value *sum = param(&t, "sum", MIL_fp32, SHAPE(20, 12));
    mil_value *dy = param(&t, "dy", MIL_fp16, SHAPE(3, 20, 17)), *x = param(&t, "x", MIL_fp16, SHAPE(3, 12, 17));
    mil_value *m =
        mil_build_matmul(&t.b, mil_build_cast(&t.b, dy, MIL_fp32), mil_build_cast(&t.b, x, MIL_fp32), false, true);
    mil_value *all = mil_build_reduce(&t.b, MIL_OP_reduce_sum, m, (const int64_t[]){0}, 1, false);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_add, sum, all));
    compile(&t, true);
    EXPECT(t.program->step_count == 1 && t.program->gemm_count == 1);
    EXPECT(t.program->share_count == 1 && driver_may_share(t.program->shares, 1, 0, 0));
    fill_inputs(&t, 8);
    run(&t);
    check(&t, 2e-6, "gradient"); /* observed 2e-7 */
    mil_tensor apart = {t.tensors[0].type, arena_array(t.arena, 240, sizeof(double))};
    mil_unpack_f64(apart.data, MIL_fp32, t.outputs[0], 240);
    void *other = t.outputs[0];
    t.outputs[0] = t.inputs[0];
    run(&t);
    EXPECT(memcmp(other, t.inputs[0], 240 * sizeof(float)) == 0); /* bound to one buffer: the same bits */
    t.outputs[0] = other;
    end(&t);
}

/* A product computes the sum of the squares of its result, after everything else that it absorbs, including views and
 * the sum over a batch. It does not if the result is a batch or fp16. */
TEST(products_add_up_their_squares) {
    static const struct {
        mil_dtype dtype;
        int64_t batch;
        bool folded, adds, reshaped;
        int squares;
    } cases[] = {{MIL_fp32, 1, false, false, false, 1}, {MIL_fp32, 1, false, true, false, 1},
                 {MIL_fp32, 3, true, false, false, 1},  {MIL_fp32, 3, true, true, true, 1},
                 {MIL_fp32, 1, false, false, true, 1},  {MIL_fp32, 3, false, false, false, 0},
                 {MIL_fp16, 1, false, false, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_test t;
        begin(&t);
        mil_value *x = param(&t, "x", cases[i].dtype, SHAPE(cases[i].batch, 45, 64)),
                  *y = param(&t, "y", cases[i].dtype, SHAPE(cases[i].batch, 70, 64)),
                  *sum = param(&t, "sum", cases[i].dtype, SHAPE(1, 45, 70));
        mil_value *v = mil_build_matmul(&t.b, x, y, false, true);
        if (cases[i].folded) v = mil_build_reduce(&t.b, MIL_OP_reduce_sum, v, (const int64_t[]){0}, 1, true);
        if (cases[i].adds) v = mil_build_binary(&t.b, MIL_OP_add, sum, v);
        if (cases[i].reshaped) v = mil_build_reshape(&t.b, v, (const int64_t[]){45, 70, 1, 1}, 4);
        mil_build_result(&t.b, v);
        mil_value *squares =
            mil_build_reduce(&t.b, MIL_OP_reduce_sum_square, v, (const int64_t[]){0, 1, 2, 3}, v->type.rank, true);
        mil_build_result(&t.b, mil_build_binary_scalar(&t.b, MIL_OP_mul, squares, 0.125));
        mil_build_result(&t.b, squares);
        compile(&t, true);
        EXPECT_MSG(t.program->squares_count == cases[i].squares && t.program->step_count == 2,
                   "case %zu: %d steps, %d sums of squares", i, t.program->step_count, t.program->squares_count);
        fill_inputs(&t, 70 + i);
        run(&t);
        check(&t, cases[i].dtype == MIL_fp16 ? 2e-3 : 2e-5, "squares"); /* observed 4.9e-4, 3e-6 */
        end(&t);
    }
}

TEST(in_place_is_refused_where_the_input_is_read_later) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(16, 16));
    mil_value *y = mil_build_unary(&t.b, MIL_OP_tanh, x);
    mil_build_result(&t.b, y);
    mil_build_result(&t.b, mil_build_matmul(&t.b, y, x, false, false));
    compile(&t, true);
    EXPECT(t.program->share_count == 0);
    fill_inputs(&t, 9);
    run(&t);
    check(&t, 1e-6, "later");
    end(&t);
}

TEST(elementwise_chains_reuse_memory) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(64, 64));
    mil_value *y = x;
    for (int i = 0; i < 6; i++) y = mil_build_unary(&t.b, MIL_OP_tanh, mil_build_matmul(&t.b, y, y, false, false));
    mil_build_result(&t.b, y);
    compile(&t, false);
    int64_t value = 64 * 64 * 4;
    int aliases = 0;
    for (int i = 0; i < t.program->buffer_count; i++) aliases += t.program->buffers[i].alias >= 0;
    EXPECT(aliases == 6); /* the last product is computed in the output's memory */
    EXPECT_MSG(t.program->block_bytes < 4 * value + (1 << 20), "%lld", (long long)t.program->block_bytes);
    fill_inputs(&t, 10);
    run(&t);
    check(&t, 1e-3, "chain"); /* squaring six times magnifies errors; observed 7e-5 */
    end(&t);
}

/* A select with operands of one column spreads them. A chain of many has more values than a step has registers, so it
 * becomes several steps. `reduced`: a reduction in the same step computes the operands. */
TEST(long_chains_of_selects_are_several_steps) {
    static const int lengths[] = {8, 32, 33, 34, 47, 48, 49, 100, 300};
    for (size_t l = 0; l < 2 * (sizeof lengths / sizeof lengths[0]); l++) {
        const int length = lengths[l / 2];
        const bool reduced = l & 1;
        plan_test t;
        begin(&t);
        mil_value *x = param(&t, "x", MIL_fp32, SHAPE(6, 40)), *y = x;
        mil_value *column = param(&t, "c", MIL_fp32, SHAPE(6, 1));
        if (reduced) column = mil_build_reduce(&t.b, MIL_OP_reduce_mean, x, (const int64_t[]){1}, 1, true);
        for (int i = 0; i < length; i++) {
            mil_value *a = mil_build_binary_scalar(&t.b, MIL_OP_mul, column, 1 + 0.25 * i);
            mil_value *cond = mil_build_binary_scalar(&t.b, MIL_OP_greater, a, 0.125 * i);
            const mil_argument arguments[] = {{"cond", 1, &cond}, {"a", 1, &a}, {"b", 1, &y}};
            mil_op *op = mil_build_op(&t.b, MIL_OP_select, NULL, arguments, 3);
            EXPECT(op != NULL);
            y = op->results[0];
        }
        mil_build_result(&t.b, y);
        compile(&t, true);
        fill_inputs(&t, 20);
        run(&t);
        check(&t, 1e-6, "selects");
        end(&t);
    }
}

/* The same with no operation in between: three operands of one column each, from outside. */
TEST(selects_of_many_columns_are_several_steps) {
    for (int length = 1; length <= 60; length += length < 30 ? 9 : 1) {
        plan_test t;
        begin(&t);
        mil_value *y = param(&t, "x", MIL_fp32, SHAPE(6, 40));
        mil_value *columns = param(&t, "c", MIL_fp32, SHAPE(120, 6, 1)),
                  *flags = param(&t, "f", MIL_bool, SHAPE(60, 6, 1));
        for (int i = 0; i < length; i++) {
            mil_value *a = mil_build_slice(&t.b, columns, (const int64_t[]){i, 0, 0}, (const int64_t[]){1, 6, 1});
            mil_value *cond = mil_build_slice(&t.b, flags, (const int64_t[]){i, 0, 0}, (const int64_t[]){1, 6, 1});
            a = mil_build_reshape(&t.b, a, (const int64_t[]){6, 1}, 2);
            cond = mil_build_reshape(&t.b, cond, (const int64_t[]){6, 1}, 2);
            const mil_argument arguments[] = {{"cond", 1, &cond}, {"a", 1, &a}, {"b", 1, &y}};
            mil_op *op = mil_build_op(&t.b, MIL_OP_select, NULL, arguments, 3);
            EXPECT(op != NULL);
            y = op->results[0];
        }
        mil_build_result(&t.b, y);
        compile(&t, true);
        EXPECT_MSG(t.program->tile_count <= 1 + length / 31, "%d selects are %d steps", length, t.program->tile_count);
        fill_inputs(&t, 21);
        run(&t);
        check(&t, 1e-6, "columns");
        end(&t);
    }
}

/* ---- views ---------------------------------------------------------------------------------------------------------------- */

TEST(layout_operations_cost_nothing) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(2, 24, 1, 10)), *z;
    z = mil_build_reshape(&t.b, x, (const int64_t[]){2, 4, 6, 10}, 4);
    z = mil_build_transpose(&t.b, z, (const int64_t[]){0, 1, 3, 2}, 4);
    z = mil_build_slice(&t.b, z, (const int64_t[]){0, 1, 2, 1}, (const int64_t[]){2, 2, 8, 4});
    z = mil_build_matmul(&t.b, z, z, true, false); /* [2,2,4,4] */
    mil_value *a = mil_build_unary(&t.b, MIL_OP_tanh, z), *c = mil_build_unary(&t.b, MIL_OP_exp, z);
    mil_value *both[2] = {a, c};
    mil_build_result(&t.b, mil_build_concat(&t.b, both, 2, 1));
    compile(&t, true);
    EXPECT(t.program->copy_count == 0 && t.program->step_count == 2);
    fill_inputs(&t, 11);
    run(&t);
    check(&t, 2e-5, "views");
    end(&t);
}

TEST(what_cannot_be_a_view_is_copied) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(4, 6));
    mil_value *turned = mil_build_transpose(&t.b, x, (const int64_t[]){1, 0}, 2);
    mil_build_result(&t.b, mil_build_reshape(&t.b, turned, (const int64_t[]){3, 8}, 2));
    mil_build_result(&t.b, mil_build_unary(&t.b, MIL_OP_identity, x));
    mil_value *twice[3] = {x, x, x};
    mil_build_result(&t.b, mil_build_concat(&t.b, twice, 3, 0));
    mil_value *c = mil_build_const_f64(&t.b, "c", &x->type, (const double[24]){1, 2, 3});
    mil_build_result(&t.b, c);
    compile(&t, true);
    fill_inputs(&t, 12);
    run(&t);
    check(&t, 0, "copies");
    end(&t);
}

/* ---- running -------------------------------------------------------------------------------------------------------------- */

TEST(a_run_allocates_nothing) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(1, 64, 1, 40)), *w = param(&t, "w", MIL_fp32, SHAPE(1, 64, 1, 1));
    mil_value *y = rms_norm(&t, x, w);
    y = mil_build_reshape(&t.b, y, (const int64_t[]){4, 16, 40}, 3);
    y = mil_build_softmax(&t.b, mil_build_matmul(&t.b, y, y, true, false), 2);
    mil_build_result(&t.b, y);
    compile(&t, true);
    fill_inputs(&t, 13);
    run(&t);
    uint64_t before = mem_alloc_count();
    for (int i = 0; i < 10; i++) run(&t);
    EXPECT(mem_alloc_count() == before);
    end(&t);
}

/* Each request for memory fails once: the planner reports it and frees what it had (the sanitizer build detects
 * leaks). */
TEST(no_memory_is_reported) {
    plan_test t;
    propane_error err = {0};
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp16, SHAPE(1, 64, 1, 40)), *w = param(&t, "w", MIL_fp16, SHAPE(1, 64, 1, 1));
    mil_value *y = rms_norm(&t, x, w);
    const mil_type square = mil_type_tensor(MIL_fp16, 2, (const int64_t[]){64, 64});
    mil_value *k = mil_build_const_f64(&t.b, "k", &square, (const double[64 * 64]){1, 2, 3});
    y = mil_build_matmul(&t.b, k, mil_build_reshape(&t.b, y, (const int64_t[]){64, 40}, 2), false, false);
    mil_build_result(&t.b, mil_build_softmax(&t.b, y, 1));
    EXPECT_OK(mil_build_end(&t.b, &err));
    cpu_plan_options o = {.kernels = cpu_kernels_of(cpu_isa_best()), .guard = true, .fuse = true};
    int failures = 0;
    for (uint64_t n = 1; n < 10000; n++) {
        cpu_program *program = NULL;
        arena *a = arena_create();
        EXPECT(a != NULL);
        mem_fail_at(n);
        propane_status status = cpu_plan_compile(t.b.function, &o, a, &program, &err);
        mem_fail_at(0);
        if (status == PROPANE_OK) cpu_program_deinit(program);
        arena_free(a);
        if (status == PROPANE_OK) break;
        EXPECT_MSG(status == PROPANE_ERR_MEMORY, "request %llu: %s", (unsigned long long)n, err.text);
        failures++;
    }
    EXPECT(failures > 2);
    mil_module_free(t.module);
    arena_free(t.arena);
}

/* Sums are divided into chunks if nothing needs all of them at once; the division must not change the result. */
TEST(long_reductions) {
    plan_test t;
    begin(&t);
    mil_value *x = param(&t, "x", MIL_fp32, SHAPE(3, 70000)), *y = param(&t, "y", MIL_fp32, SHAPE(9000, 37));
    mil_build_result(&t.b, mil_build_reduce(&t.b, MIL_OP_reduce_sum, x, (const int64_t[]){1}, 1, true));
    mil_build_result(&t.b, mil_build_reduce(&t.b, MIL_OP_reduce_max, x, (const int64_t[]){0, 1}, 2, false));
    mil_value *square = mil_build_binary(&t.b, MIL_OP_mul, y, y);
    mil_build_result(&t.b, mil_build_reduce(&t.b, MIL_OP_reduce_mean, square, (const int64_t[]){0}, 1, false));
    mil_value *peak = mil_build_reduce(&t.b, MIL_OP_reduce_max, y, (const int64_t[]){0}, 1, true);
    mil_build_result(&t.b, mil_build_binary(&t.b, MIL_OP_sub, y, peak));
    mil_build_result(&t.b, mil_build_softmax(&t.b, x, 1));
    mil_build_result(&t.b, mil_build_softmax(&t.b, y, 0));
    compile(&t, true);
    fill_inputs(&t, 14);
    run(&t);
    check(&t, 3e-6, "long"); /* observed 7e-7 */
    end(&t);
}

/* ---- random programs ---------------------------------------------------------------------------------------------------- */

#define MAX_VALUES 64

typedef struct maker {
    plan_test *t;
    rng r;
    mil_value *v[MAX_VALUES];
    int count;
} maker;

static mil_value *any(maker *m) { return m->v[rng_below(&m->r, (uint64_t)m->count)]; }

/* Returns another value of the same shape, or one that broadcasts to it; itself if there is none. */
static mil_value *partner(maker *m, const mil_value *x) {
    for (int tries = 0; tries < 20; tries++) {
        mil_value *y = any(m);
        bool fits = y->type.rank == x->type.rank;
        for (int d = 0; fits && d < x->type.rank; d++) fits = y->type.dim[d] == x->type.dim[d] || y->type.dim[d] == 1;
        if (fits) return y;
    }
    return (mil_value *)x;
}

static mil_value *calm(maker *m, mil_value *x) { return mil_build_unary(&m->t->b, MIL_OP_tanh, x); }

/* Reorders the lines of the second-to-last dimension, with signs. */
static mil_value *picked(maker *m, mil_value *x) {
    const int64_t n = x->type.dim[x->type.rank - 2], by = (int64_t)rng_below(&m->r, (uint64_t)n);
    double *data = arena_array(m->t->arena, (size_t)(n * n), sizeof *data);
    mil_type type = mil_type_tensor(x->type.dtype, 2, (const int64_t[]){n, n});
    for (int64_t i = 0; i < n; i++) data[i * n + (i * (n > 2 && n % 2 ? 2 : 1) + by) % n] = i % 3 ? 1 : -1;
    mil_value *p = mil_build_const_f64(&m->t->b, "pick", &type, data);
    mil_value *scaled = by % 2 ? mil_build_binary_scalar(&m->t->b, MIL_OP_mul, x, 0.5) : x;
    return mil_build_matmul(&m->t->b, p, scaled, by % 3 == 0, false);
}

static mil_value *random_op(maker *m) {
    static const mil_opcode unary[] = {MIL_OP_tanh, MIL_OP_sigmoid, MIL_OP_silu,
                                       MIL_OP_abs,  MIL_OP_relu,    MIL_OP_softsign};
    static const mil_opcode binary[] = {MIL_OP_add, MIL_OP_sub, MIL_OP_mul, MIL_OP_maximum, MIL_OP_minimum};
    static const mil_opcode reduce[] = {MIL_OP_reduce_mean, MIL_OP_reduce_max, MIL_OP_reduce_min,
                                        MIL_OP_reduce_l2_norm};
    mil_builder *b = &m->t->b;
    mil_value *x = any(m), *both[2];
    int rank = x->type.rank;
    int64_t axis = (int64_t)rng_below(&m->r, (uint64_t)rank), dim[MIL_MAX_RANK], begin_at[MIL_MAX_RANK] = {0};
    memcpy(dim, x->type.dim, sizeof dim);
    switch (rng_below(&m->r, 15)) {
    case 0:
    case 1: return mil_build_unary(b, unary[rng_below(&m->r, 6)], x);
    case 2:
    case 3:
    case 4: return calm(m, mil_build_binary(b, binary[rng_below(&m->r, 5)], x, partner(m, x)));
    case 5: return calm(m, mil_build_reduce(b, reduce[rng_below(&m->r, 4)], x, &axis, 1, true));
    case 6: return mil_build_softmax(b, x, (int)axis);
    case 7: {
        int64_t perm[MIL_MAX_RANK];
        for (int d = 0; d < rank; d++) perm[d] = (d + axis) % rank;
        return mil_build_transpose(b, x, perm, rank);
    }
    case 8:
        dim[0] *= dim[1];
        dim[1] = 1;
        return mil_build_reshape(b, x, dim, rank);
    case 9:
        begin_at[axis] = dim[axis] > 2;
        dim[axis] -= begin_at[axis];
        return mil_build_slice(b, x, begin_at, dim);
    case 10:
        both[0] = x;
        both[1] = rng_below(&m->r, 2) ? mil_build_unary(b, MIL_OP_sigmoid, x) : x;
        return mil_type_count(&x->type) > 3000 ? x : mil_build_concat(b, both, 2, (int)axis);
    case 13: return picked(m, x);
    case 14: return mil_build_binary(b, MIL_OP_add, x, mil_build_unary(b, MIL_OP_tanh, picked(m, x)));
    case 11: { /* the sum of two products */
        mil_value *y = mil_build_matmul(b, mil_build_unary(b, MIL_OP_relu, x), x, false, true);
        if (mil_type_count(&y->type) > 6000) return y;
        return calm(m, mil_build_binary(b, MIL_OP_add, mil_build_matmul(b, x, x, false, true), y));
    }
    default: {
        mil_value *y = calm(m, mil_build_matmul(b, x, x, axis & 1, !(axis & 1)));
        return mil_type_count(&y->type) > 6000 ? mil_build_reduce(b, MIL_OP_reduce_mean, y, &axis, 1, true) : y;
    }
    }
}

static double random_program(uint64_t seed, bool fuse, int *fused) {
    static const int64_t shapes[4][4] = {{2, 3, 4, 5}, {1, 8, 1, 33}, {2, 4, 9, 16}, {1, 16, 3, 1}};
    plan_test t;
    begin(&t);
    maker m = {.t = &t};
    rng_init(&m.r, seed);
    char label[40];
    snprintf(label, sizeof label, "program %llu%s", (unsigned long long)seed, fuse ? "" : " (not fused)");
    for (int i = 0; i < 2; i++) {
        char name[8] = {(char)('a' + i)};
        m.v[m.count++] = param(&t, name, MIL_fp32, 4, shapes[rng_below(&m.r, 4)]);
    }
    int ops = 3 + (int)rng_below(&m.r, 22);
    for (int i = 0; i < ops; i++) {
        m.v[m.count] = random_op(&m);
        EXPECT_MSG(m.v[m.count] != NULL, "%s: %s", label, t.b.err.text);
        m.count++;
    }
    int results = 1 + (int)rng_below(&m.r, 4);
    for (int i = 0; i < results && i < m.count - 2; i++) {
        mil_value *v = m.v[m.count - 1 - i];
        bool again = !v->def;
        for (int k = 0; k < i; k++) again |= m.v[m.count - 1 - k] == v;
        if (!again) mil_build_result(&t.b, v);
    }
    if (!t.b.function->result_count) mil_build_result(&t.b, calm(&m, m.v[0]));
    compile(&t, fuse);
    *fused += t.program->fused_ops - t.program->tile_count;
    fill_inputs(&t, seed);
    run(&t);
    double worst = check(&t, 2e-5, label);
    end(&t);
    return worst;
}

TEST(random_programs) {
    double worst = 0;
    int fused = 0, apart = 0;
    for (uint64_t seed = 1; seed <= 400; seed++)
        for (int fuse = 0; fuse < 2; fuse++) {
            double w = random_program(seed, fuse, fuse ? &fused : &apart);
            if (w > worst) worst = w;
        }
    printf("  400 programs, %d operations taken into another's step, worst error %.2g\n", fused, worst);
    EXPECT(fused > 400 && apart == 0);
}

SUITE("cpu/plan", T(a_norm_is_one_step), T(softmax_with_scale_and_mask_and_its_gradient_are_one_step_each),
      T(products_that_pick_lines_are_elementwise), T(columns_go_over_their_fold_in_passes),
      T(products_go_into_what_reads_them), T(attention_with_shared_probabilities),
      T(products_of_the_same_operand_pack_it_once), T(taps_are_stored_by_the_step_that_makes_them),
      T(dropped_axes_are_not_confused), T(no_cycles_through_other_steps), T(products_take_the_sum_behind_them),
      T(pointwise_convolutions_meet_turned_images), T(the_sum_of_two_products_is_taken_once),
      T(weight_gradients_accumulate_in_place), T(products_add_up_their_squares),
      T(in_place_is_refused_where_the_input_is_read_later), T(elementwise_chains_reuse_memory),
      T(long_chains_of_selects_are_several_steps), T(selects_of_many_columns_are_several_steps),
      T(layout_operations_cost_nothing), T(what_cannot_be_a_view_is_copied), T(a_run_allocates_nothing),
      T(no_memory_is_reported), T(long_reductions), T(random_programs))
