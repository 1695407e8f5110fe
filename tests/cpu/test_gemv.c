/* SPDX-License-Identifier: MIT
 * Weights in every form times a few vectors: each instruction set against sums in double of the stored values, and
 * plans against the slow reference of the same program.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "core/mil/ops.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemv/gemv.h"
#include "cpu/plan/plan.h"
#include "lm/arch/quantize.h"
#include "support/test.h"

static propane_error err;

typedef struct stored {
    void *data;
    uint16_t *scales;
    double *value; /* [m, k]: the values that the bits represent */
} stored;

/* Random codes and scales: every byte of kquants.def's blocks is a code or a scale, and fp16 numbers may be
 * negative. */
static stored make_kquant(cpu_weights format, int64_t m, int64_t k, rng *r) {
    const model_packing packing = (model_packing)(MODEL_KQUANT + (format - CPU_WEIGHTS_KQUANT));
    int64_t scale_bytes, bytes = model_packing_bytes(packing, m * k, &scale_bytes);
    stored s = {mem_alloc((size_t)bytes), mem_alloc((size_t)scale_bytes), mem_array((size_t)(m * k), 8)};
    float *wide = mem_array((size_t)(m * k), 4);
    for (int64_t i = 0; i < bytes; i++) ((uint8_t *)s.data)[i] = (uint8_t)rng_below(r, 256);
    for (int64_t i = 128; format == CPU_WEIGHTS_IQ4_XS && i < bytes; i++) /* has scales of six bits */
        if (i % 136 >= 128) ((uint8_t *)s.data)[i] = (uint8_t)(KQUANT_SCALE_BIAS - 32 + (int)rng_below(r, 64));
    for (int64_t i = 0; i < scale_bytes / 2; i++) s.scales[i] = fp16_from_f32((float)(0.002 * rng_normal(r)));
    model_unpack(packing, s.data, s.scales, 0, m * k, wide);
    for (int64_t i = 0; i < m * k; i++) s.value[i] = (double)wide[i];
    mem_free(wide);
    return s;
}

static stored make(cpu_weights format, int64_t m, int64_t k, rng *r) {
    if (format >= CPU_WEIGHTS_KQUANT) return make_kquant(format, m, k, r);
    stored s = {mem_alloc((size_t)(m * k) * 4 + 64), mem_alloc((size_t)(m * k / 32 + 1) * 2),
                mem_array((size_t)(m * k), 8)};
    for (int64_t b = 0; b < m * k / 32 && format >= CPU_WEIGHTS_INT8; b++)
        s.scales[b] = fp16_from_f32((float)(0.02 * rng_normal(r)));
    for (int64_t i = 0; i < m * k; i++) {
        float x = (float)rng_normal(r);
        double scale = format >= CPU_WEIGHTS_INT8 ? (double)fp16_to_f32(s.scales[i / 32]) : 1;
        int q = (int)rng_below(r, format == CPU_WEIGHTS_INT8 ? 256 : 16);
        uint8_t *nibbles = (uint8_t *)s.data + i / 32 * 16 + i % 16;
        switch (format) {
        case CPU_WEIGHTS_F32: ((float *)s.data)[i] = x; break;
        case CPU_WEIGHTS_F16: x = fp16_to_f32(((uint16_t *)s.data)[i] = fp16_from_f32(x)); break;
        case CPU_WEIGHTS_BF16: x = bf16_to_f32(((uint16_t *)s.data)[i] = bf16_from_f32(x)); break;
        case CPU_WEIGHTS_INT8: x = ((int8_t *)s.data)[i] = (int8_t)(q - 128); break;
        default: *nibbles = (uint8_t)(i % 32 < 16 ? q : *nibbles | q << 4); x = (float)(q - 8);
        }
        s.value[i] = (double)x * scale;
    }
    return s;
}

static void drop(stored *s) {
    mem_free(s->data);
    mem_free(s->scales);
    mem_free(s->value);
}

static double check(cpu_isa isa, cpu_weights format, const stored *w, int64_t m, int64_t k, int n, bool exact, rng *r) {
    bool residual = n % 2 == 0, half = n % 3 == 0;
    int64_t x_col = n > 2 ? 1 : k + 3, x_row = n > 2 ? n : 1, c_row = n + 2;
    float *x = mem_array((size_t)(k * n + 64), 4), *c = mem_array((size_t)(m * c_row), 4),
          *add = mem_array((size_t)m, 4);
    uint16_t *xh = mem_array((size_t)(k * n + 64), 2);
    for (int64_t i = 0; i < k; i++)
        for (int j = 0; j < n; j++) {
            float value = (float)rng_normal(r);
            xh[i * x_row + j * x_col] = fp16_from_f32(value);
            x[i * x_row + j * x_col] = half ? fp16_to_f32(xh[i * x_row + j * x_col]) : value;
        }
    for (int64_t i = 0; i < m; i++) add[i] = (float)rng_normal(r);
    cpu_matrix_view extra = {.data = add, .row_stride = 1, .col_stride = 0};
    cpu_gemv g = {
        .kernels = cpu_kernels_of(isa), .format = format, .m = m, .k = k, .n = n, .exact = exact, .w = w->data};
    g.scales = format >= CPU_WEIGHTS_INT8 ? w->scales : NULL;
    g.x = (cpu_matrix_view){.data = half ? (void *)xh : (void *)x,
                            .dtype = half ? CPU_F16 : CPU_F32,
                            .row_stride = x_row,
                            .col_stride = x_col};
    g.c = (cpu_matrix_view){.data = c, .row_stride = c_row, .col_stride = 1};
    if (residual) g.residual = &extra;
    void *scratch = mem_pages_alloc(cpu_gemv_scratch_bytes(&g));
    cpu_gemv_run_group(&g, 1, scratch);
    double worst = 0;
    for (int64_t i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double want = residual ? (double)add[i] : 0, size = fabs(want) + 1e-6;
            for (int64_t l = 0; l < k; l++) {
                double term = w->value[i * k + l] * (double)x[l * x_row + j * x_col];
                want += term;
                size += fabs(term);
            }
            worst = fmax(worst, fabs((double)c[i * c_row + j] - want) / size);
        }
    mem_pages_free(scratch, cpu_gemv_scratch_bytes(&g));
    mem_free(x);
    mem_free(xh);
    mem_free(c);
    mem_free(add);
    return worst;
}

/* Checks one matrix in one form, for each instruction set and number of vectors. */
static void check_everywhere(cpu_weights format, int64_t m, int64_t k, rng *r) {
    stored w = make(format, m, k, r);
    for (int i = 0; i < CPU_ISA_COUNT; i++) {
        const cpu_isa isa = (cpu_isa)i;
        if (!cpu_isa_available(isa)) continue;
        for (int n = 1; n <= CPU_GEMV_COLUMNS; n++) {
            double e = check(isa, format, &w, m, k, n, true, r);
            /* observed: 2e-7; plain C, with one long chain of sums: 2e-6 */
            EXPECT_MSG(e < 1e-5, "%s, form %d, [%lld, %lld] x %d: error %g", cpu_isa_name(isa), format, (long long)m,
                       (long long)k, n, e);
            if (format < CPU_WEIGHTS_INT8 || !cpu_kernels_of(isa)->int_dot.prepare) continue;
            e = check(isa, format, &w, m, k, n, false, r);
            /* 16-bit vectors; observed: 1.4e-5 */
            EXPECT_MSG(e < 3e-5, "integers, form %d, [%lld, %lld] x %d: error %g", format, (long long)m, (long long)k,
                       n, e);
        }
    }
    drop(&w);
}

TEST(every_form_on_every_instruction_set) {
    static const int64_t shapes[][2] = {{1, 32}, {3, 64}, {5, 96},  {7, 288}, {33, 1056}, {130, 2048},
                                        {9, 33}, {6, 1},  {1, 256}, {3, 768}, {67, 512}};
    rng r;
    rng_init(&r, 5);
    for (int format = 0; format < CPU_WEIGHTS_COUNT; format++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            if (shapes[i][1] % cpu_weights_block((cpu_weights)format) == 0)
                check_everywhere((cpu_weights)format, shapes[i][0], shapes[i][1], &r);
}

/* The decoded operand of products with many columns: exactly the numbers of the fp32 reading, from any block on. */
TEST(rows_of_blocks_are_the_fp32_reading) {
    enum { ROWS = 3, K = 768 };
    rng r;
    rng_init(&r, 6);
    for (int format = CPU_WEIGHTS_KQUANT; format < CPU_WEIGHTS_COUNT; format++) {
        const cpu_weights form = (cpu_weights)format;
        stored w = make(form, ROWS, K, &r);
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
            for (int first = 0; cpu_isa_available((cpu_isa)isa) && first < K; first += 32) {
                float got[ROWS * K];
                const int count = first % 3 ? 32 : K - first;
                cpu_kernels_of((cpu_isa)isa)
                    ->gemv.unpack[format](got, K, w.data, cpu_weights_row_bytes(form, K), w.scales,
                                          cpu_weights_row_scales(form, K), ROWS, first, count);
                for (int i = 0; i < ROWS * count; i++) {
                    const float want = (float)w.value[i / count * K + first + i % count],
                                have = got[i / count * K + i % count];
                    EXPECT_MSG(fabsf(want - have) <= 0, "%s, form %d, from %d on, element %d: %g, want %g",
                               cpu_isa_name((cpu_isa)isa), format, first, i, (double)have, (double)want);
                }
            }
        drop(&w);
    }
}

/* The same forms as one operand of a product with many columns, which decodes rows of them while it packs. */
/* A NaN in a vector reaches all of its results, wherever it is; infinities leave none finite. */
TEST(nothing_finite_comes_of_nan_and_infinity) {
    enum { ROWS = 5, K = 256 };
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    rng r;
    rng_init(&r, 12);
    for (int format = 0; format < CPU_WEIGHTS_COUNT; format++) {
        stored w = make((cpu_weights)format, ROWS, K, &r);
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
            for (int at = 0; cpu_isa_available((cpu_isa)isa) && at < K; at++)
                for (int v = 0; v < 3; v++) {
                    float x[K + 16], c[ROWS];
                    for (int i = 0; i < K; i++) x[i] = (float)rng_normal(&r);
                    x[at] = odd[v];
                    cpu_gemv g = {.kernels = cpu_kernels_of((cpu_isa)isa),
                                  .format = (cpu_weights)format,
                                  .m = ROWS,
                                  .k = K,
                                  .n = 1,
                                  .w = w.data};
                    g.scales = format >= CPU_WEIGHTS_INT8 ? w.scales : NULL;
                    g.x = (cpu_matrix_view){.data = x, .dtype = CPU_F32, .row_stride = 1, .col_stride = K};
                    g.c = (cpu_matrix_view){.data = c, .row_stride = 1, .col_stride = 1};
                    void *scratch = mem_pages_alloc(cpu_gemv_scratch_bytes(&g));
                    cpu_gemv_run_group(&g, 1, scratch);
                    for (int i = 0; i < ROWS; i++)
                        EXPECT_MSG(v ? !isfinite(c[i]) : isnan(c[i]), "%s, form %d: %g at %d gives %g",
                                   cpu_isa_name((cpu_isa)isa), format, (double)odd[v], at, (double)c[i]);
                    mem_pages_free(scratch, cpu_gemv_scratch_bytes(&g));
                }
        drop(&w);
    }
}

static double check_product(cpu_isa isa, cpu_weights format, int64_t m, int64_t k, int64_t n, bool turned, rng *r) {
    stored w = make(format, m, k, r);
    float *x = mem_array((size_t)(k * n), 4), *c = mem_array((size_t)(m * n), 4);
    for (int64_t i = 0; i < k * n; i++) x[i] = (float)rng_normal(r);
    cpu_stored s = {.format = format, .k = k};
    s.data = w.data;
    s.scales = format >= CPU_WEIGHTS_INT8 ? w.scales : NULL;
    cpu_gemm g = {.kernels = cpu_kernels_of(isa), .m = m, .n = n, .k = k, .batch = 1, .alpha = 1};
    g.a = (cpu_matrix){.data = w.data, .row_stride = k, .col_stride = 1, .stored = &s};
    g.b = (cpu_matrix){.data = x, .row_stride = n, .col_stride = 1};
    g.c = (cpu_matrix){.data = c, .row_stride = turned ? 1 : n, .col_stride = turned ? m : 1};
    size_t bytes = cpu_gemm_scratch_bytes(&g, pool_threads());
    void *scratch = mem_pages_alloc(bytes + 64);
    cpu_gemm_run(&g, scratch);
    double worst = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double want = 0, size = 1e-6;
            for (int64_t l = 0; l < k; l++) {
                double term = w.value[i * k + l] * (double)x[l * n + j];
                want += term;
                size += fabs(term);
            }
            worst = fmax(worst, fabs((double)c[i * g.c.row_stride + j * g.c.col_stride] - want) / size);
        }
    mem_pages_free(scratch, bytes + 64);
    mem_free(x);
    mem_free(c);
    drop(&w);
    return worst;
}

TEST(products_make_rows_while_they_pack) {
    static const int64_t shapes[][3] = {{16, 32, 9},  {1, 64, 20}, {33, 96, 70},  {20, 1056, 17}, {34, 2080, 70},
                                        {70, 33, 12}, {6, 2, 9},   {33, 512, 20}, {5, 1280, 70}};
    rng r;
    rng_init(&r, 8);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!cpu_isa_available((cpu_isa)isa)) continue;
        for (int f = CPU_WEIGHTS_BF16; f < CPU_WEIGHTS_COUNT; f++)
            for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
                for (int turned = 0; turned < 2; turned++) {
                    const int64_t *s = shapes[i];
                    if (s[1] % cpu_weights_block((cpu_weights)f)) continue;
                    double e = check_product((cpu_isa)isa, (cpu_weights)f, s[0], s[1], s[2], turned, &r);
                    /* seen: 2e-7 */
                    EXPECT_MSG(e < 2e-6, "%s, form %d, [%lld, %lld] x %lld: error %g", cpu_isa_name((cpu_isa)isa), f,
                               (long long)s[0], (long long)s[1], (long long)s[2], e);
                }
    }
}

/* Makes a random value of its type for each input, as stored and as the reference reads it. The inputs after the third
 * are `scale` times as large. */
static void random_inputs(const mil_function *f, arena *a, uint64_t seed, double scale, mil_tensor *in, void **inputs) {
    rng r;
    rng_init(&r, seed);
    for (int i = 0; i < f->param_count; i++) {
        const mil_type *t = &f->params[i]->type;
        int64_t count = mil_type_count(t);
        in[i] = (mil_tensor){.type = *t, .data = ARENA_ARRAY(a, count, double)};
        for (int64_t e = 0; e < count; e++)
            in[i].data[e] = t->dtype == MIL_int8    ? (double)rng_below(&r, 256) - 128
                            : t->dtype == MIL_uint8 ? (double)rng_below(&r, 256)
                                                    : rng_normal(&r) * (i > 2 ? scale : 1);
        inputs[i] = arena_alloc(a, (size_t)mil_type_bytes(t) + 64);
        mil_pack_f64(inputs[i], t->dtype, in[i].data, count);
        mil_unpack_f64(in[i].data, t->dtype, inputs[i], count);
    }
}

/* y = W x + z with W packed, as a program: the plan reads the stored form, and its results match the operations. */
static void check_program(model_packing packing, mil_dtype dtype, int64_t m, int64_t k, int64_t n, int gemvs) {
    mil_module *module = mil_module_create("test");
    mil_builder b = {0};
    mil_build_begin(&b, module, "main", MIL_IOS18);
    const int64_t x_dim[] = {1, 1, k, n}, w_dim[] = {1, 1, m, k}, z_dim[] = {1, 1, m, n};
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(dtype, 4, x_dim));
    mil_value *z = mil_build_param(&b, "z", mil_type_tensor(dtype, 4, z_dim));
    mil_value *w = mil_build_reshape(&b, model_pack_build(&b, packing, dtype, "w", m, k), w_dim, 4);
    mil_value *y = mil_build_binary(&b, MIL_OP_add, mil_build_matmul(&b, w, x, false, false), z);
    mil_build_result(&b, y);
    EXPECT_OK(mil_build_end(&b, &err));
    const mil_function *f = b.function;
    arena *a = arena_create();
    cpu_isa isa;
    EXPECT_OK(cpu_isa_current(&isa, &err));
    cpu_program *p;
    const cpu_plan_options options = {.kernels = cpu_kernels_of(isa), .fuse = true};
    EXPECT_OK(cpu_plan_compile(f, &options, a, &p, &err));
    EXPECT_MSG(p->gemv_count == gemvs && p->reference_count == 0 && p->tile_count == 0,
               "packing %d, %d vectors: %d products of weights, %d tiles, %d references", packing, (int)n,
               p->gemv_count, p->tile_count, p->reference_count);
    mil_tensor *in = ARENA_ARRAY(a, f->param_count, mil_tensor), *want;
    void *inputs[8];
    random_inputs(f, a, 3, 0.02, in, inputs);
    void *out = arena_alloc(a, (size_t)(m * n) * 4), *block = mem_pages_alloc((size_t)p->block_bytes + 64);
    double *got = ARENA_ARRAY(a, m * n, double);
    EXPECT_OK(mil_eval_function(f, in, false, a, &want, &err));
    EXPECT_OK(cpu_program_run(p, block, inputs, &out, &err));
    mil_unpack_f64(got, dtype, out, m * n);
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < m * n; i++) {
        worst = fmax(worst, fabs(got[i] - want->data[i]));
        largest = fmax(largest, fabs(want->data[i]));
    }
    /* Observed: fp32 3e-7, 1.6e-5 if vectors become integers; fp16 4e-4, half a unit of the result. */
    double bound = dtype == MIL_fp16 ? 2e-3 : packing >= MODEL_INT8 ? 6e-5 : 1e-5;
    EXPECT_MSG(worst <= largest * bound, "packing %d: %g of %g", packing, worst, largest);
    mem_pages_free(block, (size_t)p->block_bytes + 64);
    cpu_program_deinit(p);
    arena_free(a);
    mil_module_free(module);
}

TEST(plans_read_what_is_stored) {
    for (int i = 0; i < MODEL_PACKINGS; i++)
        for (int half = 0; half < 2; half++) {
            mil_dtype dtype = half ? MIL_fp16 : MIL_fp32;
            const model_packing packing = (model_packing)i;
            const int64_t k = model_packing_block(packing) <= 32 ? 96 : 512;
            check_program(packing, dtype, 48, k, 1, 1);
            check_program(packing, dtype, 48, k, 7, 1);
            check_program(packing, dtype, 48, k, 20, 0); /* too many columns: a product */
        }
    check_program(MODEL_INT4, MIL_fp32, 48, 40, 1, 1); /* rows that stay fp16 */
}

/* Returns how often a plan of W x, with W in blocks of 256, reads the stored form. With `seen`, W is also a result. */
static int stored_products(bool seen) {
    mil_module *module = mil_module_create("test");
    mil_builder b = {0};
    mil_build_begin(&b, module, "main", MIL_IOS18);
    const int64_t x_dim[] = {256, 1};
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp32, 2, x_dim));
    mil_value *w = model_pack_build(&b, MODEL_Q5_K, MIL_fp32, "w", 32, 256);
    mil_build_result(&b, mil_build_matmul(&b, w, x, false, false));
    if (seen) mil_build_result(&b, w);
    EXPECT_OK(mil_build_end(&b, &err));
    arena *a = arena_create();
    cpu_isa isa;
    EXPECT_OK(cpu_isa_current(&isa, &err));
    cpu_program *p;
    const cpu_plan_options options = {.kernels = cpu_kernels_of(isa), .fuse = true};
    EXPECT_OK(cpu_plan_compile(b.function, &options, a, &p, &err));
    int fired = 0;
    for (int i = 0; i < p->fusion_count; i++)
        if (strcmp(p->fusions[i].name, "quantized_weights") == 0) fired = p->fusions[i].count;
    cpu_program_deinit(p);
    arena_free(a);
    mil_module_free(module);
    return fired;
}

TEST(weights_that_something_else_reads_are_made) { EXPECT(stored_products(false) == 1 && stored_products(true) == 0); }

/* Three products of the same vectors are one step; a fourth of other vectors, and one with a sum after it, are not. */
TEST(products_of_the_same_vectors_are_one_step) {
    enum { K = 64, N = 2, MOST = 48 };
    static const int64_t rows[] = {32, 48, 16, 32, 32};
    mil_module *module = mil_module_create("test");
    mil_builder b = {0};
    mil_build_begin(&b, module, "main", MIL_IOS18);
    const int64_t x_dim[] = {K, N}, z_dim[] = {32, N};
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp32, 2, x_dim));
    mil_value *other = mil_build_param(&b, "other", mil_type_tensor(MIL_fp32, 2, x_dim));
    mil_value *z = mil_build_param(&b, "z", mil_type_tensor(MIL_fp32, 2, z_dim));
    for (int i = 0; i < 5; i++) {
        const char name[] = {'w', (char)('a' + i), 0};
        mil_value *w = model_pack_build(&b, MODEL_BF16, MIL_fp32, name, rows[i], K);
        mil_value *y = mil_build_matmul(&b, w, i == 3 ? other : x, false, false);
        mil_build_result(&b, i == 4 ? mil_build_binary(&b, MIL_OP_add, y, z) : y);
    }
    EXPECT_OK(mil_build_end(&b, &err));
    const mil_function *f = b.function;
    arena *a = arena_create();
    cpu_isa isa;
    EXPECT_OK(cpu_isa_current(&isa, &err));
    cpu_program *p;
    const cpu_plan_options options = {.kernels = cpu_kernels_of(isa), .fuse = true};
    EXPECT_OK(cpu_plan_compile(f, &options, a, &p, &err));
    EXPECT_MSG(p->gemv_count == 5 && p->step_count == 3, "%d products in %d steps", p->gemv_count, p->step_count);
    mil_tensor *in = ARENA_ARRAY(a, f->param_count, mil_tensor), *want;
    void *inputs[8], *outputs[5];
    random_inputs(f, a, 4, 1, in, inputs);
    for (int i = 0; i < 5; i++) outputs[i] = arena_alloc(a, MOST * N * 4);
    void *block = mem_pages_alloc((size_t)p->block_bytes + 64);
    EXPECT_OK(mil_eval_function(f, in, false, a, &want, &err));
    EXPECT_OK(cpu_program_run(p, block, inputs, outputs, &err));
    for (int i = 0; i < 5; i++)
        for (int64_t e = 0; e < rows[i] * N; e++) { /* observed: 4e-6 */
            double got = (double)((const float *)outputs[i])[e];
            EXPECT_MSG(fabs(got - want[i].data[e]) < 2e-5, "product %d: %g, want %g", i, got, want[i].data[e]);
        }
    mem_pages_free(block, (size_t)p->block_bytes + 64);
    cpu_program_deinit(p);
    arena_free(a);
    mil_module_free(module);
}

/* A vector gets the same bits alone and among others, in any part of the matrix: a stream of text does not depend on
 * the streams that run at the same time. */
static void check_alone(cpu_isa isa, cpu_weights format, int64_t m, int64_t k, bool exact, rng *r) {
    stored w = make(format, m, k, r);
    float *x = mem_array((size_t)(k * CPU_GEMV_COLUMNS), 4), *alone = mem_array((size_t)(m * CPU_GEMV_COLUMNS), 4),
          *together = mem_array((size_t)(m * CPU_GEMV_COLUMNS), 4);
    for (int64_t i = 0; i < k * CPU_GEMV_COLUMNS; i++) x[i] = (float)rng_normal(r);
    for (int n = 0; n <= CPU_GEMV_COLUMNS; n++) {
        for (int from = 0; from < (n ? 1 : CPU_GEMV_COLUMNS); from++) {
            cpu_gemv g = {.kernels = cpu_kernels_of(isa),
                          .format = format,
                          .m = m,
                          .k = k,
                          .n = n ? n : 1,
                          .exact = exact,
                          .w = w.data,
                          .scales = format >= CPU_WEIGHTS_INT8 ? w.scales : NULL,
                          .x = {.data = x + from * k, .dtype = CPU_F32, .row_stride = 1, .col_stride = k},
                          .c = {.data = (n ? together : alone) + from * m, .row_stride = 1, .col_stride = m}};
            void *scratch = mem_pages_alloc(cpu_gemv_scratch_bytes(&g));
            cpu_gemv_run_group(&g, 1, scratch);
            mem_pages_free(scratch, cpu_gemv_scratch_bytes(&g));
        }
        EXPECT_MSG(memcmp(alone, together, (size_t)(m * n) * 4) == 0, "%s, form %d, [%lld, %lld], %d vectors%s",
                   cpu_isa_name(isa), format, (long long)m, (long long)k, n, exact ? ", fp32" : "");
    }
    mem_free(x);
    mem_free(alone);
    mem_free(together);
    drop(&w);
}

TEST(a_vector_gets_the_same_bits_alone_and_with_others) {
    static const int64_t shapes[][2] = {{1, 256}, {15, 512}, {16, 96}, {37, 1024}, {5, 33}};
    rng r;
    rng_init(&r, 14);
    for (int format = 0; format < CPU_WEIGHTS_COUNT; format++)
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
            for (size_t i = 0; cpu_isa_available((cpu_isa)isa) && i < 2 * sizeof shapes / sizeof shapes[0]; i++)
                if (shapes[i / 2][1] % cpu_weights_block((cpu_weights)format) == 0)
                    check_alone((cpu_isa)isa, (cpu_weights)format, shapes[i / 2][0], shapes[i / 2][1], i % 2, &r);
}

TEST(packing_keeps_what_it_can) {
    rng r;
    rng_init(&r, 2);
    float w[64];
    int8_t q8[64];
    uint8_t q4[32];
    uint16_t s[2];
    for (int i = 0; i < 64; i++) w[i] = (float)rng_normal(&r);
    w[5] = 4; /* the extremes are preserved */
    w[40] = -5;
    model_pack(MODEL_INT8, w, 1, 64, q8, s);
    EXPECT(q8[5] == 127 && q8[40] == -127);
    for (int i = 0; i < 64; i++) {
        float d = fp16_to_f32(s[i / 32]);
        EXPECT(fabsf(w[i] - (float)q8[i] * d) <= 0.51f * d);
    }
    model_pack(MODEL_INT4, w, 1, 64, q4, s);
    for (int i = 0; i < 64; i++) {
        int b = i / 32, e = i % 32, nibble = e < 16 ? q4[b * 16 + e] & 15 : q4[b * 16 + e - 16] >> 4;
        float d = fp16_to_f32(s[b]), back = (float)(nibble - 8) * d;
        EXPECT_MSG(fabsf(w[i] - back) <= 1.01f * fabsf(d), "%d: %g, back %g", i, (double)w[i], (double)back);
        if (i == 5 || i == 40) EXPECT(fabsf(w[i] - back) < 2e-3f);
    }
    memset(w, 0, sizeof w);
    model_pack(MODEL_INT8, w, 1, 64, q8, s);
    EXPECT(q8[0] == 0 && s[0] == 0);
    model_pack(MODEL_INT4, w, 1, 64, q4, s);
    EXPECT(q4[0] == 0x88 && (s[0] & 0x7fff) == 0);
    EXPECT(model_packing_for(MODEL_INT4, 40) == MODEL_FP16 && model_packing_for(MODEL_INT8, 64) == MODEL_INT8);
}

SUITE("cpu/gemv", T(every_form_on_every_instruction_set), T(rows_of_blocks_are_the_fp32_reading),
      T(products_make_rows_while_they_pack), T(plans_read_what_is_stored),
      T(weights_that_something_else_reads_are_made), T(products_of_the_same_vectors_are_one_step),
      T(a_vector_gets_the_same_bits_alone_and_with_others), T(packing_keeps_what_it_can),
      T(nothing_finite_comes_of_nan_and_infinity))
