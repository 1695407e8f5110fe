/* SPDX-License-Identifier: MIT
 * Measures generation with a model of the shape of Stories110M and random weights. For each form of the weights it
 * prints tokens/s, the bytes read per token, and their rate as a part of the memory's speed. Reading a prompt is shown
 * as a part of the speed of the same machine's matrix products. All forms are measured in turns, so that each is
 * affected equally by changes of the machine's speed; the best turn is printed.
 *
 *   bench_decode [rounds] [position] [names]    threads: PROPANE_THREADS, instruction set: PROPANE_ISA
 *
 * names: rows of the table, separated by commas; all without it.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "cpu/gemm/gemm.h"
#include "lm/arch/stored_weights.h"
#include "lm/infer/generate.h"

enum { TOKENS = 16, PROMPT = 512, MOST = 14 };

static propane_error err;

static void must(propane_status status) {
    if (!status) return;
    fprintf(stderr, "bench_decode: %s\n", err.text);
    exit(1);
}

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

#define STREAM_BYTES ((size_t)1 << 29)
#define STREAM_PART  ((size_t)1 << 20)

static uint64_t sink;

/* Reads in eight independent chains of loads, so that only memory limits the speed. */
static void read_part(void *context, int task, int worker) {
    const uint64_t *p = (const uint64_t *)context + (size_t)task * STREAM_PART / 8;
    uint64_t x[32] = {0};
    (void)worker;
    for (size_t i = 0; i < STREAM_PART / 8; i += 32)
        for (int k = 0; k < 32; k++) x[k] |= p[i + (size_t)k];
    for (int k = 1; k < 32; k++) x[0] |= x[k];
    if (x[0] == 1) sink++;
}

/* Returns the best speed of several stretches, each about as long as a token. */
static double read_speed(char *memory) {
    double best = 0;
    for (size_t at = 0; at < STREAM_BYTES; at += STREAM_BYTES / 4) {
        int64_t start = clock_ns();
        pool_run(read_part, memory + at, (int)(STREAM_BYTES / 4 / STREAM_PART));
        best = fmax(best, (double)(STREAM_BYTES / 4) / (double)(clock_ns() - start));
    }
    return best;
}

static double product_speed(void) {
    enum { N = 1024 };
    static float *a, *b, *c;
    static void *scratch;
    cpu_gemm g = {.m = N, .n = N, .k = N, .batch = 1, .alpha = 1};
    cpu_isa isa;
    must(cpu_isa_current(&isa, &err));
    g.kernels = cpu_kernels_of(isa);
    if (!a) {
        a = mem_pages_alloc(N * N * 4);
        b = mem_pages_alloc(N * N * 4);
        c = mem_pages_alloc(N * N * 4);
        for (int i = 0; i < N * N; i++) a[i] = b[i] = 0.5f;
    }
    g.a = (cpu_matrix){.data = a, .row_stride = N, .col_stride = 1};
    g.b = (cpu_matrix){.data = b, .row_stride = N, .col_stride = 1};
    g.c = (cpu_matrix){.data = c, .row_stride = N, .col_stride = 1};
    if (!scratch) scratch = mem_pages_alloc(cpu_gemm_scratch_bytes(&g, pool_threads()));
    int64_t start = clock_ns();
    cpu_gemm_run(&g, scratch);
    return 2.0 * N * N * N / (double)(clock_ns() - start);
}

/* ---- the model -------------------------------------------------------------------------------------------------------- */

static model_weights *stories110m(void) {
    model_config c;
    model_weights *w;
    model_config_default(&c);
    c.hidden_size = 768;
    c.intermediate_size = 2048;
    c.num_hidden_layers = 12;
    c.num_attention_heads = c.num_key_value_heads = 12;
    c.head_dim = 64;
    c.vocab_size = 32000;
    c.max_position_embeddings = 1024;
    c.tie_word_embeddings = true;
    must(model_weights_create(&c, &w, &err));
    model_weights_init(w, 1, 0);
    return w;
}

/* Makes the same sizes as a file of k-quants holds them: each matrix in one form, with arbitrary bytes, and scales
 * small enough that the numbers stay finite. */
static model_weights *as_stored(const model_config *c, model_packing form) {
    model_weights *w;
    uint32_t state = 1;
    must(model_weights_declare(c, &w, &err));
    for (int i = 0; i < w->count; i++)
        if (w->tensors[i].rank == 2) w->tensors[i].form = form;
    must(stored_weights_reserve(w, &err));
    for (size_t i = 0; i < w->stored_bytes; i++) w->stored[i] = (uint8_t)((state = state * 1664525 + 1013904223) >> 24);
    for (int i = 0; i < w->count; i++) {
        int64_t scale_bytes;
        uint16_t *scales;
        float *numbers = stored_weights_at(w, &w->tensors[i], &scales);
        (void)model_packing_bytes(w->tensors[i].form, w->tensors[i].count, &scale_bytes);
        for (int64_t k = 0; k < scale_bytes / 2; k++) scales[k] = 0x0100; /* 1.5e-5 */
        for (int64_t k = 0; !scale_bytes && k < w->tensors[i].count; k++) numbers[k] = 1;
    }
    return w;
}

/* Returns the multiplications and additions of a prompt's matrix products, including attention's; the head
 * processes only its last position. */
static double prompt_flops(const model_config *c, int64_t n) {
    double d = (double)c->hidden_size, h = (double)c->intermediate_size, q = (double)model_config_q(c);
    double layer = 4 * d * q + 3 * d * h + (double)n * q;
    return 2.0 * ((double)c->num_hidden_layers * layer * (double)n + d * (double)c->vocab_size);
}

typedef struct contender {
    const char *name;
    mil_dtype dtype;
    model_packing packing;
    bool stored;            /* as in a file: made by as_stored */
    model_weights *weights; /* set if stored */
    infer *machine;
    double token, prompt; /* best times, seconds */
} contender;

static contender contenders[MOST] = {{.name = "fp32", .dtype = MIL_fp32, .packing = MODEL_UNPACKED},
                                     {.name = "fp16", .dtype = MIL_fp32, .packing = MODEL_FP16},
                                     {.name = "bf16", .dtype = MIL_fp32, .packing = MODEL_BF16},
                                     {.name = "int8", .dtype = MIL_fp32, .packing = MODEL_INT8},
                                     {.name = "int4", .dtype = MIL_fp32, .packing = MODEL_INT4},
                                     {.name = "q4_1", .dtype = MIL_fp32, .packing = MODEL_Q4_1, .stored = true},
                                     {.name = "q5_0", .dtype = MIL_fp32, .packing = MODEL_Q5_0, .stored = true},
                                     {.name = "q5_1", .dtype = MIL_fp32, .packing = MODEL_Q5_1, .stored = true},
                                     {.name = "iq4_nl", .dtype = MIL_fp32, .packing = MODEL_IQ4_NL, .stored = true},
                                     {.name = "iq4_xs", .dtype = MIL_fp32, .packing = MODEL_IQ4_XS, .stored = true},
                                     {.name = "q4_k", .dtype = MIL_fp32, .packing = MODEL_Q4_K, .stored = true},
                                     {.name = "q5_k", .dtype = MIL_fp32, .packing = MODEL_Q5_K, .stored = true},
                                     {.name = "q6_k", .dtype = MIL_fp32, .packing = MODEL_Q6_K, .stored = true},
                                     {.name = "fp16*", .dtype = MIL_fp16, .packing = MODEL_UNPACKED}};

/* Keeps the contenders that `names` lists, in their order, and returns how many there are. */
static int chosen(const char *names) {
    int count = 0;
    for (int i = 0; i < MOST; i++) {
        const char *at = names ? strstr(names, contenders[i].name) : NULL;
        const size_t length = strlen(contenders[i].name);
        while (at && ((at > names && at[-1] != ',') || (at[length] && at[length] != ',')))
            at = strstr(at + 1, contenders[i].name);
        if (at || !names) contenders[count++] = contenders[i];
    }
    return count;
}

static double seconds_since(int64_t start) { return (double)(clock_ns() - start) / 1e9; }

static void turn(contender *c, const int32_t *ids, int64_t position) {
    static float logits[32000];
    infer_reset(c->machine);
    must(infer_read(c->machine, ids, position > 0 ? position : 1, NULL, &err));
    for (int i = 0; i < TOKENS; i++) {
        int64_t start = clock_ns();
        must(infer_read(c->machine, ids, 1, logits, &err));
        c->token = fmin(c->token, seconds_since(start));
    }
    infer_reset(c->machine);
    int64_t start = clock_ns();
    must(infer_read(c->machine, ids, PROMPT, logits, &err));
    c->prompt = fmin(c->prompt, seconds_since(start));
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    int64_t position = argc > 2 ? atoi(argv[2]) : 32;
    const int count = chosen(argc > 3 ? argv[3] : NULL);
    model_weights *w = stories110m();
    propane_device *device;
    must(propane_device_open("cpu", &device, &err));
    void *memory = mem_pages_alloc(STREAM_BYTES);
    if (!memory || !count || rounds < 1 || position < 1 || position > 1000) return 1;
    memset(memory, 2, STREAM_BYTES);
    int32_t ids[1024];
    for (int i = 0; i < 1024; i++) ids[i] = (i * 7919 + 13) % 32000;
    for (int i = 0; i < count; i++) {
        contender *c = &contenders[i];
        infer_options o = {.dtype = c->dtype, .context = 1024, .exact = c->stored};
        if (c->stored)
            c->weights = as_stored(&w->config, c->packing);
        else
            o.weights = c->packing;
        must(infer_create(device, c->stored ? c->weights : w, &o, &c->machine, &err));
        c->token = c->prompt = 1e9;
    }
    double memory_speed = 0, peak = 0;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < count; i++) {
            memory_speed = fmax(memory_speed, read_speed(memory));
            peak = fmax(peak, product_speed());
            turn(&contenders[i], ids, position);
        }
    printf("%d threads; memory is read at %.1f GB/s, a product of 1024^3 runs at %.0f GFLOP/s\n", pool_threads(),
           memory_speed, peak);
    printf("%-8s %10s %12s %8s %10s %14s %10s\n", "weights", "tokens/s", "MB/token", "GB/s", "of memory",
           "prompt tok/s", "of GEMM");
    for (int i = 0; i < count; i++) {
        const contender *c = &contenders[i];
        double bytes = (double)infer_weight_bytes(c->machine), speed = bytes / c->token / 1e9;
        printf("%-8s %10.1f %12.1f %8.1f %9.0f%% %14.0f %9.0f%%\n", c->name, 1 / c->token, bytes / 1e6, speed,
               100 * speed / memory_speed, PROMPT / c->prompt,
               100 * prompt_flops(&w->config, PROMPT) / c->prompt / 1e9 / peak);
        infer_free(c->machine);
        model_weights_free(c->weights);
    }
    printf("tokens at position %lld; fp16*: fp16 programs, the others compute in fp32\n", (long long)position);
    propane_device_close(device);
    model_weights_free(w);
    mem_pages_free(memory, STREAM_BYTES);
    return 0;
}
