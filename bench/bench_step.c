/* SPDX-License-Identifier: MIT
 * One training step end to end, as a part of what the machine allows: forward, loss, backward, norm of the gradients,
 * AdamW, at the sizes of known models, with random weights and tokens.
 *
 *     bench_step [ROUNDS [part of a row's name [fp32|fp16|bf16]]]      threads: PROPANE_THREADS, instruction set: PROPANE_ISA
 *
 * The limit is measured in the same rounds, in alternation with the steps: arithmetic of the matrix products (causal
 * attention counted as context * (context + 1) / 2, nothing that is computed twice) at the rate of the multiply-add units,
 * and 28 bytes a parameter at the rate at which a sweep reads four arrays and writes three of them. Times are the best and
 * the median; with one thread they are the thread's own, so that other work on the machine counts less.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/rng.h"
#include "drivers/cpu/isa.h"
#include "train/step.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { MOST_ROUNDS = 100, SWEEP_FLOATS = 1 << 23 };

static int64_t now_ns(void) {
    struct timespec t;
    if (pool_threads() > 1) return clock_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#if defined(__x86_64__)
#define START(i) __m512 c##i = _mm512_set1_ps(i);
#define STEP(i)  c##i = _mm512_fmadd_ps(c##i, a, b);
#define JOIN(i)  sum = _mm512_add_ps(sum, c##i);
__attribute__((target("avx512f"))) static float fma_avx512(int64_t steps) {
    __m512 a = _mm512_set1_ps(1), b = _mm512_set1_ps(1e-9f), sum = b;
    TWELVE(START)
    for (int64_t i = 0; i < steps; i++) {
        TWELVE(STEP)
    }
    TWELVE(JOIN)
    return _mm512_cvtss_f32(sum);
}
#undef START
#undef STEP
#undef JOIN
#define START(i) __m256 c##i = _mm256_set1_ps(i);
#define STEP(i)  c##i = _mm256_fmadd_ps(c##i, a, b);
#define JOIN(i)  sum = _mm256_add_ps(sum, c##i);
__attribute__((target("avx2,fma"))) static float fma_avx2(int64_t steps) {
    __m256 a = _mm256_set1_ps(1), b = _mm256_set1_ps(1e-9f), sum = b;
    TWELVE(START)
    for (int64_t i = 0; i < steps; i++) {
        TWELVE(STEP)
    }
    TWELVE(JOIN)
    return _mm256_cvtss_f32(sum);
}
#elif defined(__aarch64__)
#define START(i) float32x4_t c##i = vdupq_n_f32(i);
#define STEP(i)  c##i = vfmaq_f32(b, c##i, a);
#define JOIN(i)  sum = vaddq_f32(sum, c##i);
static float fma_neon(int64_t steps) {
    float32x4_t a = vdupq_n_f32(1), b = vdupq_n_f32(1e-9f), sum = b;
    TWELVE(START)
    for (int64_t i = 0; i < steps; i++) {
        TWELVE(STEP)
    }
    TWELVE(JOIN)
    return vaddvq_f32(sum);
}
#endif

typedef struct machine {
    float (*fma)(int64_t steps);
    int lanes;
    float *sweep;        /* four arrays of SWEEP_FLOATS */
    double flops, bytes; /* a nanosecond: the best so far */
} machine;

static void task_fma(void *context, int task, int worker) {
    volatile float keep = ((machine *)context)->fma(200000);
    (void)keep, (void)task, (void)worker;
}

static void task_sweep(void *context, int task, int worker) {
    float *w = (float *)context + (int64_t)task * 16384, *m = w + SWEEP_FLOATS, *v = m + SWEEP_FLOATS;
    const float *g = v + SWEEP_FLOATS;
    (void)worker;
    for (int i = 0; i < 16384; i++) {
        m[i] = m[i] * 0.9f + g[i];
        v[i] = v[i] * 0.9f + g[i];
        w[i] = w[i] - m[i] * v[i];
    }
}

static void measure_machine(machine *m) {
    for (int i = 0; m->fma && i < 8; i++) {
        int64_t start = now_ns();
        pool_run(task_fma, m, pool_threads());
        double rate = 12.0 * 2 * m->lanes * 200000 * pool_threads() / (double)(now_ns() - start);
        if (rate > m->flops) m->flops = rate;
    }
    int64_t start = now_ns();
    pool_run(task_sweep, m->sweep, SWEEP_FLOATS / 16384);
    double rate = 28.0 * SWEEP_FLOATS / (double)(now_ns() - start);
    if (rate > m->bytes) m->bytes = rate;
}

static bool open_machine(machine *m) {
    cpu_isa isa;
    propane_error err = {0};
    if (cpu_isa_current(&isa, &err)) return false;
#if defined(__x86_64__)
    if (isa == CPU_ISA_AVX512 || isa == CPU_ISA_AVX512_BF16)
        m->fma = fma_avx512, m->lanes = 16;
    else if (isa == CPU_ISA_AVX2)
        m->fma = fma_avx2, m->lanes = 8;
#elif defined(__aarch64__)
    if (isa == CPU_ISA_NEON) m->fma = fma_neon, m->lanes = 4;
#endif
    m->sweep = mem_pages_alloc(4 * (size_t)SWEEP_FLOATS * sizeof(float));
    return m->sweep != NULL;
}

/* ---- a row ---------------------------------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    int layers, width, hidden, heads, vocab, context, batch;
} row;

static const row rows[] = {
    {"stories110M_b1", 12, 768, 2048, 12, 32000, 256, 1}, {"stories110M_b4", 12, 768, 2048, 12, 32000, 256, 4},
    {"layer_t512", 1, 768, 2048, 12, 256, 512, 1},        {"gpt2_size_4x64", 12, 768, 2048, 12, 50257, 64, 4},
    {"stories15M_b4", 6, 288, 768, 6, 32000, 256, 4},     {"layer_t2048", 1, 768, 2048, 12, 256, 2048, 1},
    {"stories42M_b4", 8, 512, 1376, 8, 32000, 256, 4},    {"layer_t4096", 1, 768, 2048, 12, 256, 4096, 1},
    {"layer_t1024", 1, 768, 2048, 12, 256, 1024, 1},      {"layer_t256", 1, 768, 2048, 12, 256, 256, 1},
    {"layer_t64", 1, 768, 2048, 12, 256, 64, 1},
};

typedef struct times {
    int64_t all[MOST_ROUNDS], batch, norm, update; /* the last three: of the best step */
} times;

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static propane_status run_step(train_step *s, const row *r, const int32_t *tokens, int index, times *t,
                               propane_error *err) {
    double loss, norm;
    adamw_step how = {.lr = 1e-4,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .gradient_scale = 1,
                      .step = index + 1};
    int64_t start = now_ns();
    PROPANE_TRY(train_step_batch(s, tokens, tokens + (int64_t)r->batch * r->context, true, 1, &loss, err));
    int64_t batch = now_ns();
    PROPANE_TRY(train_step_gradient_norm(s, &norm, err));
    int64_t normed = now_ns();
    if (norm > 1) how.gradient_scale = 1 / norm;
    PROPANE_TRY(train_step_update(s, &how, err));
    int64_t end = now_ns();
    bool best = index > 0; /* the first one warms up */
    for (int i = 1; i < index; i++) best &= end - start < t->all[i];
    t->all[index] = end - start;
    if (best || index == 0) t->batch = batch - start, t->norm = normed - batch, t->update = end - normed;
    return PROPANE_OK;
}

static void print_row(const row *r, const model_weights *w, machine *m, times *t, int rounds) {
    double tokens = (double)r->batch * r->context;
    double flops = 6 * (double)w->parameters * tokens + 6.0 * r->width * r->layers * tokens * (r->context + 1);
    double limit = m->flops > 0 ? flops / m->flops + 28 * (double)w->parameters / m->bytes : 0;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    qsort(t->all + 1, (size_t)rounds - 1, sizeof t->all[0], compare);
    double best = (double)t->all[1], median = (double)t->all[1 + (rounds - 1) / 2];
    printf("%-15s %8.1f %8.1f %8.1f %7.1f%% %7.1f%% %9.1f %8.1f %7.1f %7.1f %8ld\n", r->name, limit / 1e6, best / 1e6,
           median / 1e6, 100 * limit / best, 100 * limit / median, flops / best, (double)t->batch / 1e6,
           (double)t->norm / 1e6, (double)t->update / 1e6, usage.ru_maxrss / 1024);
    fflush(stdout);
}

static propane_status bench_with(const row *r, const train_step_options *o, model_weights *w, machine *m, int rounds,
                                 propane_error *err) {
    train_step *s = NULL;
    times t = {.all = {0}};
    int64_t count = (int64_t)r->batch * r->context;
    int32_t *tokens = mem_array((size_t)count * 2, sizeof *tokens);
    if (!tokens) return propane_fail_memory(err, (size_t)count * 8);
    for (int64_t i = 0; i < 2 * count; i++) tokens[i] = (int32_t)((i * 7919 + 13) % r->vocab);
    propane_status status = train_step_create(o, w, &s, err);
    for (int i = 0; i < rounds && status == PROPANE_OK; i++) {
        measure_machine(m);
        status = run_step(s, r, tokens, i, &t, err);
    }
    if (status == PROPANE_OK) print_row(r, w, m, &t, rounds);
    train_step_free(s);
    mem_free(tokens);
    return status;
}

static propane_status bench(const row *r, const char *precision, machine *m, int rounds, propane_error *err) {
    model_config c;
    model_weights *w = NULL;
    model_config_default(&c);
    c.hidden_size = r->width, c.intermediate_size = r->hidden, c.num_hidden_layers = r->layers;
    c.num_attention_heads = c.num_key_value_heads = r->heads, c.head_dim = r->width / r->heads;
    c.vocab_size = r->vocab, c.max_position_embeddings = r->context, c.tie_word_embeddings = true;
    c.bos_token_id = c.eos_token_id = -1;
    train_step_options o = {.plan = {.name = "layer", .batch = r->batch, .context = r->context, .precision = MIL_fp32}};
    if (strcmp(precision, "fp16") == 0) o.plan.precision = MIL_fp16;
    o.bf16 = strcmp(precision, "bf16") == 0;
    PROPANE_TRY(model_weights_create(&c, &w, err));
    model_weights_init(w, 1, 0);
    propane_status status = bench_with(r, &o, w, m, rounds, err);
    model_weights_free(w);
    return status;
}

int main(int argc, char **argv) {
    machine m = {0};
    propane_error err = {0};
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    const char *only = argc > 2 ? argv[2] : "stories110M_b1", *precision = argc > 3 ? argv[3] : "fp32";
    if (rounds < 2) rounds = 2;
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    if (!open_machine(&m)) return 1;
    printf("%d threads, %s; milliseconds\n%-15s %8s %8s %8s %8s %8s %9s %8s %7s %7s %8s\n", pool_threads(), precision,
           "", "limit", "best", "median", "of it", "of it", "GFLOP/s", "kernels", "norm", "AdamW", "peak MB");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(rows[i].name, only) && bench(&rows[i], precision, &m, rounds, &err) != PROPANE_OK) {
            fprintf(stderr, "bench_step: %s: %s\n", rows[i].name, err.text);
            return 1;
        }
    printf("multiply-adds %.1f GFLOP/s, sweep %.1f GB/s\n", m.flops, m.bytes);
    mem_pages_free(m.sweep, 4 * (size_t)SWEEP_FLOATS * sizeof(float));
    return 0;
}
