/* SPDX-License-Identifier: MIT
 * Measures one training step end to end, as a part of what the machine allows: forward, loss, backward, norm of the
 * gradients, AdamW, at the sizes of known models, with random weights and tokens.
 *
 *     bench_step [ROUNDS [part of a row's name [fp32|fp16|bf16 [wait]]]]
 *
 * Threads: PROPANE_THREADS, instruction set: PROPANE_ISA. With `wait` each round begins when it reads a line, and
 * prints its steps, so that another program's steps can alternate with these (bench/peers/pytorch_step.py).
 *
 * Two limits are measured in the same rounds, before each step (before four, if a step is short). Each limit is the
 * sum of two times. The first is the arithmetic of the matrix products (causal attention counted as context * (context
 * + 1) / 2, nothing counted that is computed twice) at a rate. The second is 28 bytes per parameter at the rate of a
 * sweep that reads four arrays and writes three of them. The arithmetic rate is that of the multiply-add units
 * ("units"), which no matrix product reaches, or that of the fastest matrix product ("products"): Propane's, or
 * OpenBLAS's or oneDNN's if they are installed, of a large square and of the step's shapes.
 *
 * The best step is compared with the best rates, and the median step with the median ones, because a short measurement
 * meets a calm moment of the machine more often than one of a second. With one thread, times are the thread's
 * processor time, so that other work on the machine counts less.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "cpu/gemm/gemm.h"
#include "lm/step/step.h"
#include "machine.h"

enum {
    MOST_ROUNDS = 100,
    SHORT_STEPS = 4,
    SHORT_NS = 300000000,
    SWEEP_FLOATS = 1 << 23,
    SQUARE = 1024,
    SHAPES = 4,
    RUNS = 3, /* counted runs of a product per round, after one that does not count */
    PRODUCT_FLOATS = 1 << 22
};

typedef struct row {
    const char *name;
    int layers, width, hidden, heads, vocab, context, batch;
} row;

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

enum { PROPANE, OTHERS, MAKERS = OTHERS + MACHINE_LIBRARIES };

/* The rates measured for one thing, per nanosecond. */
typedef struct rates {
    double each[MOST_ROUNDS * RUNS];
    int count;
} rates;

typedef struct machine {
    cpu_isa isa;
    float *sweep;     /* four arrays of SWEEP_FLOATS */
    float *memory[4]; /* operands and scratch of matrix products, PRODUCT_FLOATS each */
    rates units, bytes, products[SHAPES][MAKERS];
    machine_library others[MACHINE_LIBRARIES];
} machine;

static void note(rates *r, double rate) {
    int i = r->count++;
    for (; i > 0 && r->each[i - 1] < rate; i--) r->each[i] = r->each[i - 1];
    r->each[i] = rate;
}

static double rate_of(const rates *r, bool median) { return r->count ? r->each[median ? r->count / 2 : 0] : 0; }

/* Returns the rate of the fastest matrix product. `who` (may be NULL) receives its library. */
static double product_rate(const machine *m, bool median, const char **who) {
    double most = 0;
    for (int i = 0; i < SHAPES * MAKERS; i++) {
        const double rate = rate_of(&m->products[i / MAKERS][i % MAKERS], median);
        if (rate <= most) continue;
        most = rate;
        if (who) *who = i % MAKERS == PROPANE ? "Propane" : m->others[i % MAKERS - OTHERS].name;
    }
    return most;
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

/* Measures a product with each library. The first run, which packs into new memory, does not count. */
static void measure_product(machine *m, int shape, machine_product p, bool bf16) {
    cpu_gemm g = {
        .kernels = cpu_kernels_of(m->isa), .bf16 = bf16, .m = p.m, .n = p.n, .k = p.k, .batch = 1, .alpha = 1};
    p.a = m->memory[0], p.b = m->memory[1], p.c = m->memory[2];
    g.a = (cpu_matrix){.data = p.a, .row_stride = p.turn_a ? 1 : p.k, .col_stride = p.turn_a ? p.m : 1};
    g.b = (cpu_matrix){.data = p.b, .row_stride = p.turn_b ? 1 : p.n, .col_stride = p.turn_b ? p.k : 1};
    g.c = (cpu_matrix){.data = p.c, .row_stride = p.n, .col_stride = 1};
    if (cpu_gemm_scratch_bytes(&g, pool_threads()) > PRODUCT_FLOATS * sizeof(float)) return;
    for (int maker = 0; maker < MAKERS; maker++) {
        if (maker != PROPANE && !machine_has(&m->others[maker - OTHERS])) continue;
        for (int i = 0; i <= RUNS; i++) {
            int64_t start = machine_ns();
            if (maker == PROPANE)
                cpu_gemm_run(&g, m->memory[3]);
            else
                machine_run(&m->others[maker - OTHERS], &p);
            const double flops = 2.0 * (double)p.m * (double)p.n * (double)p.k;
            if (i > 0) note(&m->products[shape][maker], flops / (double)(machine_ns() - start));
        }
        machine_rest();
    }
}

static void measure_machine(machine *m, const row *r, bool bf16) {
    note(&m->units, machine_units(m->isa, 8));
    int64_t start = machine_ns(), tokens = (int64_t)r->batch * r->context;
    pool_run(task_sweep, m->sweep, SWEEP_FLOATS / 16384);
    note(&m->bytes, 28.0 * SWEEP_FLOATS / (double)(machine_ns() - start));
    if (tokens > 1024) tokens = 1024;
    measure_product(m, 0, (machine_product){SQUARE, SQUARE, SQUARE}, bf16);
    measure_product(m, 1, (machine_product){r->hidden, tokens, r->width}, bf16);
    measure_product(m, 2, (machine_product){r->hidden, r->width, tokens, .turn_b = true}, bf16);
    measure_product(m, 3, (machine_product){r->width, tokens, r->hidden, .turn_a = true}, bf16);
}

/* Forgets the rates, because each row is compared only with rates measured with it. */
static void forget_rates(machine *m) {
    m->units.count = m->bytes.count = 0;
    for (int i = 0; i < SHAPES * MAKERS; i++) m->products[i / MAKERS][i % MAKERS].count = 0;
}

static bool open_machine(machine *m) {
    propane_error err = {0};
    if (cpu_isa_current(&m->isa, &err)) return false;
    machine_find(m->others);
    m->sweep = mem_pages_alloc(4 * (size_t)SWEEP_FLOATS * sizeof(float));
    bool there = m->sweep != NULL;
    for (int i = 0; i < 4; i++) {
        m->memory[i] = mem_pages_alloc((size_t)PRODUCT_FLOATS * sizeof(float));
        there &= m->memory[i] != NULL;
        for (int64_t j = 0; there && j < PRODUCT_FLOATS; j++) m->memory[i][j] = (float)(j % 89) * 0.01f;
    }
    return there;
}

static void close_machine(machine *m) {
    mem_pages_free(m->sweep, 4 * (size_t)SWEEP_FLOATS * sizeof(float));
    for (int i = 0; i < 4; i++) mem_pages_free(m->memory[i], (size_t)PRODUCT_FLOATS * sizeof(float));
}

/* ---- a row ---------------------------------------------------------------------------------------------------------------- */

static const row rows[] = {
    {"stories110M_b1", 12, 768, 2048, 12, 32000, 256, 1}, {"stories110M_b4", 12, 768, 2048, 12, 32000, 256, 4},
    {"layer_t512", 1, 768, 2048, 12, 256, 512, 1},        {"gpt2_size_4x64", 12, 768, 2048, 12, 50257, 64, 4},
    {"stories15M_b4", 6, 288, 768, 6, 32000, 256, 4},     {"layer_t2048", 1, 768, 2048, 12, 256, 2048, 1},
    {"stories42M_b4", 8, 512, 1376, 8, 32000, 256, 4},    {"layer_t4096", 1, 768, 2048, 12, 256, 4096, 1},
    {"layer_t1024", 1, 768, 2048, 12, 256, 1024, 1},      {"layer_t256", 1, 768, 2048, 12, 256, 256, 1},
    {"layer_t64", 1, 768, 2048, 12, 256, 64, 1},
};

typedef struct part {
    int64_t all, batch, norm, update;
} part;

typedef struct times {
    part step[MOST_ROUNDS * SHORT_STEPS];
    int count, run; /* run: including those that do not count */
} times;

static int compare(const void *a, const void *b) {
    const part *x = a, *y = b;
    return (x->all > y->all) - (x->all < y->all);
}

static propane_status run_step(train_step *s, const row *r, const int32_t *tokens, times *t, part *p,
                               propane_error *err) {
    double loss, norm;
    adamw_step how = {.lr = 1e-4,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .gradient_scale = 1,
                      .step = ++t->run};
    int64_t start = machine_ns();
    PROPANE_TRY(train_step_batch(s, tokens, tokens + (int64_t)r->batch * r->context, true, 1, &loss, err));
    int64_t batch = machine_ns();
    PROPANE_TRY(train_step_gradient_norm(s, &norm, err));
    int64_t normed = machine_ns();
    if (norm > 1) how.gradient_scale = 1 / norm;
    PROPANE_TRY(train_step_update(s, &how, err));
    int64_t end = machine_ns();
    *p = (part){end - start, batch - start, normed - batch, end - normed};
    return PROPANE_OK;
}

/* Runs one round: the machine's measurements, then steps. The first step follows other libraries' products, whose
 * threads still spin and whose operands are in the caches. A short step would be affected by that, so it is run
 * again. */
static propane_status run_round(train_step *s, const row *r, const int32_t *tokens, bool warm_up, machine *m, bool bf16,
                                times *t, propane_error *err) {
    part p;
    measure_machine(m, r, bf16);
    machine_rest();
    PROPANE_TRY(run_step(s, r, tokens, t, &p, err));
    const bool brief = p.all < SHORT_NS;
    if (!warm_up && !brief) t->step[t->count++] = p;
    for (int i = 0; i < SHORT_STEPS && brief && !warm_up; i++) {
        PROPANE_TRY(run_step(s, r, tokens, t, &p, err));
        t->step[t->count++] = p;
    }
    return PROPANE_OK;
}

/* Prints a step of `ns` as a part of the limits that the machine's rates set. */
static void print_limits(const machine *m, double flops, double bytes, bool median, double ns) {
    const double sweep = bytes / rate_of(&m->bytes, median), rate = rate_of(&m->units, median);
    const double units = rate > 0 ? flops / rate + sweep : 0, products = flops / product_rate(m, median, NULL) + sweep;
    printf(" %8.1f %8.1f %5.1f%% %8.1f %5.1f%%", ns / 1e6, units / 1e6, 100 * units / ns, products / 1e6,
           100 * products / ns);
}

static void print_row(const row *r, const model_weights *w, const machine *m, times *t) {
    double tokens = (double)r->batch * r->context;
    double flops = 6 * (double)w->parameters * tokens + 6.0 * r->width * r->layers * tokens * (r->context + 1);
    double bytes = 28 * (double)w->parameters;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    qsort(t->step, (size_t)t->count, sizeof t->step[0], compare);
    const part *best = &t->step[0], *median = &t->step[t->count / 2];
    printf("%-15s", r->name);
    print_limits(m, flops, bytes, false, (double)best->all);
    print_limits(m, flops, bytes, true, (double)median->all);
    printf(" %8.1f %7.1f %7.1f %8ld\n", (double)median->batch / 1e6, (double)median->norm / 1e6,
           (double)median->update / 1e6, usage.ru_maxrss / 1024);
    const char *who = "";
    double fastest = product_rate(m, false, &who);
    printf("  best and median: units %.1f and %.1f GFLOP/s, product %.1f (%s)", rate_of(&m->units, false),
           rate_of(&m->units, true), fastest, who);
    fastest = product_rate(m, true, &who);
    printf(" and %.1f (%s), sweep %.1f and %.1f GB/s\n", fastest, who, rate_of(&m->bytes, false),
           rate_of(&m->bytes, true));
    fflush(stdout);
}

/* Waits for a line from another program. */
static void wait_turn(void) {
    for (int c = 0; c != '\n' && c != EOF;) c = getchar();
}

static void print_steps(const times *t, int from) {
    printf("steps");
    for (int i = from; i < t->count; i++) printf(" %.3f", (double)t->step[i].all / 1e6);
    printf("\n");
    fflush(stdout);
}

static propane_status bench_with(const row *r, const train_step_options *o, model_weights *w, machine *m, int rounds,
                                 bool wait, propane_error *err) {
    train_step *s = NULL;
    times t = {.count = 0};
    int64_t count = (int64_t)r->batch * r->context;
    int32_t *tokens = mem_array((size_t)count * 2, sizeof *tokens);
    if (!tokens) return propane_fail_memory(err, (size_t)count * 8);
    for (int64_t i = 0; i < 2 * count; i++) tokens[i] = (int32_t)((i * 7919 + 13) % r->vocab);
    propane_status status = train_step_create(o, w, &s, err);
    forget_rates(m);
    for (int i = 0; i < rounds && status == PROPANE_OK; i++) {
        const int from = t.count;
        if (wait) wait_turn();
        status = run_round(s, r, tokens, i == 0, m, o->bf16, &t, err);
        if (wait) print_steps(&t, from);
    }
    if (status == PROPANE_OK) print_row(r, w, m, &t);
    train_step_free(s);
    mem_free(tokens);
    return status;
}

static propane_status bench(const row *r, const char *precision, machine *m, int rounds, bool wait,
                            propane_error *err) {
    model_config c;
    model_weights *w = NULL;
    model_config_default(&c);
    c.hidden_size = r->width, c.intermediate_size = r->hidden, c.num_hidden_layers = r->layers;
    c.num_attention_heads = c.num_key_value_heads = r->heads, c.head_dim = r->width / r->heads;
    c.vocab_size = r->vocab, c.max_position_embeddings = r->context, c.tie_word_embeddings = true;
    c.bos_token_id = c.eos_token_id = -1;
    train_step_options o = {.partition = {.name = "layer",
                                          .batch = r->batch,
                                          .context = r->context,
                                          .precision = MIL_fp32,
                                          .squares = PARTITION_SQUARES}};
    if (strcmp(precision, "fp16") == 0) o.partition.precision = MIL_fp16;
    o.bf16 = strcmp(precision, "bf16") == 0;
    PROPANE_TRY(model_weights_create(&c, &w, err));
    model_weights_init(w, 1, 0);
    propane_status status = bench_with(r, &o, w, m, rounds, wait, err);
    model_weights_free(w);
    return status;
}

int main(int argc, char **argv) {
    static machine m;
    propane_error err = {0};
    int rounds = argc > 1 ? atoi(argv[1]) : 5;
    const char *only = argc > 2 ? argv[2] : "stories110M_b1", *precision = argc > 3 ? argv[3] : "fp32";
    const bool wait = argc > 4 && strcmp(argv[4], "wait") == 0;
    if (rounds < 2) rounds = 2;
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    if (!open_machine(&m)) return 1;
    printf("%d threads, %s; milliseconds, and as a part of two limits: the best step of those at the best rates, the "
           "median "
           "step of those at the median ones\n",
           pool_threads(), precision);
    printf("%-15s", "");
    for (int i = 0; i < 2; i++) printf(" %8s %8s %6s %8s %6s", i ? "median" : "best", "units", "", "products", "");
    printf(" %8s %7s %7s %8s\n", "kernels", "norm", "AdamW", "peak MB");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(rows[i].name, only) && bench(&rows[i], precision, &m, rounds, wait, &err) != PROPANE_OK) {
            fprintf(stderr, "bench_step: %s: %s\n", rows[i].name, err.text);
            return 1;
        }
    close_machine(&m);
    return 0;
}
