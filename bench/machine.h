/* SPDX-License-Identifier: MIT
 * The references that benches compare their rows with: a clock, the multiply-add units, and the fp32 matrix products
 * of the libraries that are installed here (OpenBLAS, oneDNN), found at run time. Included only by bench_*.c.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/pool.h"
#include "cpu/simd/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* With one thread, returns the process's processor time, so that other work on the machine counts less. */
static int64_t machine_ns(void) {
    struct timespec t;
    if (pool_threads() > 1) return clock_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Rests so that the idle threads of another library fall asleep. */
static void machine_rest(void) {
    if (pool_threads() > 1) nanosleep(&(struct timespec){0, 20000000}, NULL);
}

/* ---- the units: independent chains of multiply-adds in registers ------------------------------------------------- */

#define MACHINE_CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define MACHINE_UNITS(name, attribute, type, set, fma, lanes)                                                          \
    attribute static double name(int64_t steps) {                                                                      \
        type a = set(1.0f), b = set(1e-9f);                                                                            \
        MACHINE_CHAINS(DECLARE_##name)                                                                                 \
        for (int64_t i = 0; i < steps; i++) {                                                                          \
            MACHINE_CHAINS(STEP_##name)                                                                                \
        }                                                                                                              \
        float out[16];                                                                                                 \
        type sum = c0;                                                                                                 \
        MACHINE_CHAINS(JOIN_##name)                                                                                    \
        memcpy(out, &sum, sizeof sum);                                                                                 \
        volatile float keep = out[0];                                                                                  \
        (void)keep;                                                                                                    \
        return 12.0 * 2 * (lanes) * (double)steps;                                                                     \
    }
#if defined(__x86_64__)
#define DECLARE_units_avx512(i) __m512 c##i = _mm512_set1_ps(i);
#define STEP_units_avx512(i)    c##i = _mm512_fmadd_ps(c##i, a, b);
#define JOIN_units_avx512(i)    sum = _mm512_add_ps(sum, c##i);
MACHINE_UNITS(units_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
#define DECLARE_units_avx2(i) __m256 c##i = _mm256_set1_ps(i);
#define STEP_units_avx2(i)    c##i = _mm256_fmadd_ps(c##i, a, b);
#define JOIN_units_avx2(i)    sum = _mm256_add_ps(sum, c##i);
MACHINE_UNITS(units_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)
#elif defined(__aarch64__)
#define DECLARE_units_neon(i) float32x4_t c##i = vdupq_n_f32(i);
#define STEP_units_neon(i)    c##i = vfmaq_f32(b, c##i, a);
#define JOIN_units_neon(i)    sum = vaddq_f32(sum, c##i);
MACHINE_UNITS(units_neon, , float32x4_t, vdupq_n_f32, vfmaq_f32, 4)
#endif

typedef struct machine_loop {
    double (*loop)(int64_t);
    double flops[256];
} machine_loop;

static void task_units(void *context, int task, int worker) {
    machine_loop *p = context;
    (void)worker;
    p->flops[task] = p->loop(200000);
}

/* Returns the GFLOP/s of all threads, the best of `runs` short runs; 0 if this instruction set is not measured. */
static double machine_units(cpu_isa isa, int runs) {
    machine_loop p = {.loop = NULL};
#if defined(__x86_64__)
    if (isa == CPU_ISA_AVX512 || isa == CPU_ISA_AVX512_BF16)
        p.loop = units_avx512;
    else if (isa == CPU_ISA_AVX2)
        p.loop = units_avx2;
#elif defined(__aarch64__)
    if (isa == CPU_ISA_NEON) p.loop = units_neon;
#endif
    double best = 0;
    int threads = pool_threads();
    for (int i = 0; p.loop && i < runs; i++) {
        int64_t start = machine_ns();
        pool_run(task_units, &p, threads);
        double rate = p.flops[0] * threads / (double)(machine_ns() - start);
        if (rate > best) best = rate;
    }
    return best;
}

/* ---- other libraries --------------------------------------------------------------------------------------------- */

/* C = A B (+ C), row-major; a turned operand is stored as its transpose. */
typedef struct machine_product {
    int64_t m, n, k;
    bool turn_a, turn_b, add;
    const float *a, *b;
    float *c;
} machine_product;

typedef void (*machine_cblas)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                              float *, int);
typedef int (*machine_dnnl)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                            int64_t, float, float *, int64_t);

typedef struct machine_library {
    const char *name;
    machine_cblas cblas; /* only one of these two is set */
    machine_dnnl dnnl;
} machine_library;

enum { MACHINE_LIBRARIES = 2 };

static void *machine_symbol(void *library, const char *name, void *function) {
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol;
}

/* Finds OpenBLAS and oneDNN; a library that is not installed has no functions. They get as many threads as the
 * pool. */
static void machine_find(machine_library out[MACHINE_LIBRARIES]) {
    void (*set_threads)(int) = NULL;
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL), *dnnl = NULL;
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};
    for (int i = 0; i < 3 && !dnnl; i++) dnnl = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    out[0] = (machine_library){.name = "OpenBLAS"};
    out[1] = (machine_library){.name = "oneDNN"};
    machine_symbol(blas, "cblas_sgemm", &out[0].cblas);
    if (machine_symbol(blas, "openblas_set_num_threads", &set_threads)) set_threads(pool_threads());
    machine_symbol(dnnl, "dnnl_sgemm", &out[1].dnnl);
    if (machine_symbol(dnnl, "omp_set_num_threads", &set_threads)) set_threads(pool_threads());
}

static bool machine_has(const machine_library *l) { return l->cblas || l->dnnl; }

static void machine_run(const machine_library *l, const machine_product *p) {
    int64_t lda = p->turn_a ? p->m : p->k, ldb = p->turn_b ? p->k : p->n;
    float beta = p->add ? 1 : 0;
    if (l->cblas) /* 101: row-major; 112: transposed */
        l->cblas(101, p->turn_a ? 112 : 111, p->turn_b ? 112 : 111, (int)p->m, (int)p->n, (int)p->k, 1, p->a, (int)lda,
                 p->b, (int)ldb, beta, p->c, (int)p->n);
    else
        l->dnnl(p->turn_a ? 'T' : 'N', p->turn_b ? 'T' : 'N', p->m, p->n, p->k, 1, p->a, lda, p->b, ldb, beta, p->c,
                p->n);
}

#endif
