/* SPDX-License-Identifier: MIT
 * Matrix products at the shapes of training, as a part of what the machine's multiply-add units can do, in alternation with
 * OpenBLAS where it is installed. First the machine itself is measured: independent chains of multiply-adds in registers.
 *
 *   bench_gemm [rounds] [part of a shape's name]        threads: PROPANE_THREADS, instruction set: PROPANE_ISA
 *
 * Each round runs a shape a few times with Propane, rests so that idle threads of either side fall asleep, then with
 * OpenBLAS. The median over all runs is printed, and the best in brackets.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/pool.h"
#include "drivers/cpu/gemm.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { RUNS = 4, MOST_ROUNDS = 50 };

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define PEAK(name, attribute, type, set, fma, lanes)                                                                   \
    attribute static double name(int64_t steps) {                                                                      \
        type a = set(1.0f), b = set(1e-9f);                                                                            \
        CHAINS(PEAK_DECLARE_##name)                                                                                    \
        for (int64_t i = 0; i < steps; i++) {                                                                          \
            CHAINS(PEAK_STEP_##name)                                                                                   \
        }                                                                                                              \
        float out[16];                                                                                                 \
        type sum = c0;                                                                                                 \
        CHAINS(PEAK_JOIN_##name)                                                                                       \
        memcpy(out, &sum, sizeof sum);                                                                                 \
        volatile float keep = out[0];                                                                                  \
        (void)keep;                                                                                                    \
        return 12.0 * 2 * (lanes) * (double)steps;                                                                     \
    }
#if defined(__x86_64__)
#define PEAK_DECLARE_peak_avx512(i) __m512 c##i = _mm512_set1_ps(i);
#define PEAK_STEP_peak_avx512(i)    c##i = _mm512_fmadd_ps(c##i, a, b);
#define PEAK_JOIN_peak_avx512(i)    sum = _mm512_add_ps(sum, c##i);
PEAK(peak_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
#define PEAK_DECLARE_peak_avx2(i) __m256 c##i = _mm256_set1_ps(i);
#define PEAK_STEP_peak_avx2(i)    c##i = _mm256_fmadd_ps(c##i, a, b);
#define PEAK_JOIN_peak_avx2(i)    sum = _mm256_add_ps(sum, c##i);
PEAK(peak_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
#elif defined(__aarch64__)
#define PEAK_DECLARE_peak_neon(i) float32x4_t c##i = vdupq_n_f32(i);
#define PEAK_STEP_peak_neon(i)    c##i = vfmaq_f32(b, c##i, a);
#define PEAK_JOIN_peak_neon(i)    sum = vaddq_f32(sum, c##i);
PEAK(peak_neon, , float32x4_t, vdupq_n_f32, vfmaq_f32, 4)
#endif

typedef struct peak_loop {
    double (*loop)(int64_t);
    int64_t steps;
    double flops[256];
} peak_loop;

static void task_peak(void *context, int task, int worker) {
    peak_loop *p = context;
    (void)worker;
    p->flops[task] = p->loop(p->steps);
}

/* GFLOP/s of all threads; the best of many short runs. 0: not measured for this instruction set. */
static double measure_peak(cpu_isa isa) {
    peak_loop p = {.steps = 400000};
#if defined(__x86_64__)
    if (isa == CPU_ISA_AVX512 || isa == CPU_ISA_AVX512_BF16)
        p.loop = peak_avx512;
    else if (isa == CPU_ISA_AVX2)
        p.loop = peak_avx2;
#elif defined(__aarch64__)
    if (isa == CPU_ISA_NEON) p.loop = peak_neon;
#endif
    if (!p.loop) return 0;
    double best = 0;
    int threads = pool_threads();
    for (int i = 0; i < 60; i++) {
        int64_t start = clock_ns();
        pool_run(task_peak, &p, threads);
        double rate = p.flops[0] * threads / (double)(clock_ns() - start);
        if (rate > best) best = rate;
    }
    return best;
}

/* ---- OpenBLAS ---------------------------------------------------------------------------------------------------------- */

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };
typedef void (*sgemm_function)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                               float *, int);

static sgemm_function find_blas(int threads) {
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) return NULL;
    sgemm_function sgemm = NULL;
    void (*set_threads)(int) = NULL;
    void *symbol = dlsym(library, "cblas_sgemm");
    memcpy(&sgemm, &symbol, sizeof symbol);
    symbol = dlsym(library, "openblas_set_num_threads");
    memcpy(&set_threads, &symbol, sizeof symbol);
    if (set_threads) set_threads(threads);
    return sgemm;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------ */

/* Stories110M: width 768, hidden 2048, vocabulary 32000, context 256; "x4" has a batch of 4 as columns. */
typedef struct shape {
    const char *name;
    int64_t m, n, k;
    bool turn_a, turn_b; /* the operand's columns are neighbours in memory */
    int64_t batch;
} shape;

static const shape shapes[] = {
    {"forward q/o 768x768", 768, 256, 768, false, false, 1},
    {"forward qkv 2304x768", 2304, 256, 768, false, false, 1},
    {"forward up 2048x768", 2048, 256, 768, false, false, 1},
    {"forward down 768x2048", 768, 256, 2048, false, false, 1},
    {"forward head 32000x768", 32000, 256, 768, false, false, 1},
    {"forward up x4", 2048, 1024, 768, false, false, 1},
    {"dx q/o 768x768", 768, 256, 768, true, false, 1},
    {"dx up 768x2048", 768, 256, 2048, true, false, 1},
    {"dx down 2048x768", 2048, 256, 768, true, false, 1},
    {"dx head 768x32000", 768, 256, 32000, true, false, 1},
    {"dx up x4", 768, 1024, 2048, true, false, 1},
    {"dw q/o 768x768", 768, 768, 256, false, true, 1},
    {"dw up 2048x768", 2048, 768, 256, false, true, 1},
    {"dw down 768x2048", 768, 2048, 256, false, true, 1},
    {"dw head 32000x768", 32000, 768, 256, false, true, 1},
    {"dw up x4", 2048, 768, 1024, false, true, 1},
    {"attention scores 12x", 256, 256, 64, true, false, 12},
    {"attention mix 12x", 64, 256, 256, false, true, 12},
    {"cube 1024", 1024, 1024, 1024, false, false, 1},
    {"decode 768x768", 768, 1, 768, false, false, 1},
    {"decode head 32000x768", 32000, 1, 768, false, false, 1},
    {"decode turned 2048x768", 2048, 1, 768, true, false, 1},
};

typedef struct operands {
    float *a, *b, *c;
    uint16_t *a16, *b16;
    size_t na, nb, nc;
} operands;

static void fill(float *x, uint16_t *half, size_t n) {
    uint32_t s = 1;
    for (size_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = (float)(s >> 8) * 0x1p-24f - 0.5f;
        half[i] = fp16_from_f32(x[i]);
    }
}

static bool make_operands(operands *o, const shape *s) {
    o->na = (size_t)(s->m * s->k * s->batch), o->nb = (size_t)(s->k * s->n * s->batch),
    o->nc = (size_t)(s->m * s->n * s->batch);
    o->a = mem_pages_alloc(o->na * 4), o->b = mem_pages_alloc(o->nb * 4), o->c = mem_pages_alloc(o->nc * 4);
    o->a16 = mem_pages_alloc(o->na * 2), o->b16 = mem_pages_alloc(o->nb * 2);
    if (!o->a || !o->b || !o->c || !o->a16 || !o->b16) return false;
    fill(o->a, o->a16, o->na);
    fill(o->b, o->b16, o->nb);
    return true;
}

static void free_operands(operands *o) {
    mem_pages_free(o->a, o->na * 4), mem_pages_free(o->b, o->nb * 4), mem_pages_free(o->c, o->nc * 4);
    mem_pages_free(o->a16, o->na * 2), mem_pages_free(o->b16, o->nb * 2);
}

static cpu_gemm product_of(const shape *s, const operands *o, cpu_isa isa, bool half, bool bf16) {
    cpu_gemm g = {.isa = isa, .bf16 = bf16, .m = s->m, .n = s->n, .k = s->k, .batch = s->batch, .alpha = 1};
    g.a = (cpu_matrix){.data = half ? (void *)o->a16 : o->a,
                       .dtype = half ? CPU_F16 : CPU_F32,
                       .row_stride = s->turn_a ? 1 : s->k,
                       .col_stride = s->turn_a ? s->m : 1,
                       .batch_stride = s->m * s->k};
    g.b = (cpu_matrix){.data = half ? (void *)o->b16 : o->b,
                       .dtype = half ? CPU_F16 : CPU_F32,
                       .row_stride = s->turn_b ? 1 : s->n,
                       .col_stride = s->turn_b ? s->k : 1,
                       .batch_stride = s->k * s->n};
    g.c = (cpu_matrix){.data = o->c, .row_stride = s->n, .col_stride = 1, .batch_stride = s->m * s->n};
    return g;
}

/* ---- timing ------------------------------------------------------------------------------------------------------------ */

typedef struct times {
    double ns[MOST_ROUNDS * RUNS];
    int count;
} times;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(times *t) {
    qsort(t->ns, (size_t)t->count, sizeof t->ns[0], by_value);
    return t->ns[t->count / 2];
}

static void rest(void) {
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
}

static bool bench_ours(cpu_gemm g, bool packed, times *t) {
    size_t bytes = packed ? cpu_gemm_pack_bytes(&g, CPU_GEMM_A) : 0;
    void *weights = bytes ? mem_pages_alloc(bytes) : NULL;
    if (weights) cpu_gemm_pack(&g, CPU_GEMM_A, weights);
    g.a.packed = weights;
    size_t scratch_bytes = cpu_gemm_scratch_bytes(&g, pool_threads());
    void *scratch = mem_pages_alloc(scratch_bytes);
    if (!scratch || (packed && bytes && !weights)) return false;
    cpu_gemm_run(&g, scratch);
    for (int i = 0; i < RUNS; i++) {
        int64_t start = clock_ns();
        cpu_gemm_run(&g, scratch);
        t->ns[t->count++] = (double)(clock_ns() - start);
    }
    mem_pages_free(scratch, scratch_bytes);
    if (weights) mem_pages_free(weights, bytes);
    return true;
}

static void bench_blas(sgemm_function sgemm, const shape *s, const operands *o, times *t) {
    for (int i = -1; i < RUNS; i++) {
        int64_t start = clock_ns();
        for (int64_t b = 0; b < s->batch; b++)
            sgemm(ROW_MAJOR, s->turn_a ? TRANSPOSE : NO_TRANSPOSE, s->turn_b ? TRANSPOSE : NO_TRANSPOSE, (int)s->m,
                  (int)s->n, (int)s->k, 1, o->a + b * s->m * s->k, (int)(s->turn_a ? s->m : s->k),
                  o->b + b * s->k * s->n, (int)(s->turn_b ? s->k : s->n), 0, o->c + b * s->m * s->n, (int)s->n);
        if (i >= 0) t->ns[t->count++] = (double)(clock_ns() - start);
    }
}

static void print_cell(times *t, double flops, double peak) {
    if (!t->count) {
        printf("  %14s", "-");
        return;
    }
    double middle = flops / median(t), best = flops / t->ns[0];
    if (peak > 0)
        printf("  %4.0f %3.0f%% (%3.0f%%)", middle, 100 * middle / peak, 100 * best / peak);
    else
        printf("  %6.1f (%6.1f)", middle, best);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    const char *part = argc > 2 ? argv[2] : "";
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 3;
    propane_error err = {0};
    cpu_isa isa;
    if (cpu_isa_current(&isa, &err) != PROPANE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int threads = pool_threads();
    for (int i = 0; i < CPU_ISA_COUNT; i++)
        if (cpu_isa_available((cpu_isa)i) && measure_peak((cpu_isa)i) > 0)
            printf("peak %-12s %7.1f GFLOP/s with %d threads\n", cpu_isa_name((cpu_isa)i), measure_peak((cpu_isa)i),
                   threads);
    double peak = measure_peak(isa);
    sgemm_function sgemm = find_blas(threads);
    printf("%s; GFLOP/s, part of the peak, best in brackets%s\n", cpu_isa_name(isa),
           sgemm ? "" : "; OpenBLAS is not here");
    printf("%-24s  %14s  %14s  %14s  %14s  %14s\n", "", "fp32", "fp32 packed A", "fp16 storage", "bf16", "OpenBLAS");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        if (!strstr(s->name, part)) continue;
        operands o;
        if (!make_operands(&o, s)) {
            fprintf(stderr, "no memory for %s\n", s->name);
            return 1;
        }
        static times t[5];
        memset(t, 0, sizeof t);
        for (int round = 0; round < rounds; round++) {
            for (int form = 0; form < 4; form++)
                if (!bench_ours(product_of(s, &o, isa, form == 2, form == 3), form == 1 && s->batch == 1, &t[form]))
                    return 1;
            rest();
            if (sgemm) bench_blas(sgemm, s, &o, &t[4]);
            rest();
        }
        double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
        printf("%-24s", s->name);
        for (int c = 0; c < 5; c++) print_cell(&t[c], flops, peak);
        printf("\n");
        fflush(stdout);
        free_operands(&o);
    }
    pool_stop();
    return 0;
}
