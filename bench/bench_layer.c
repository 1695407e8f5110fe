/* SPDX-License-Identifier: MIT
 * Measures one Llama layer's kernels (plan "layer": forward, backward, weight gradients) on the cpu driver:
 * milliseconds and GFLOP/s of each, and with a third argument the time of each step. The peak is the speed of one
 * large fp32 matrix product on the same machine in the same minute. Usage: bench_layer [BATCH] [CONTEXT] [profile]
 * (768 wide, 2048 hidden, 12 heads)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "cpu/cpu_program.h"
#include "cpu/gemm/gemm.h"
#include "cpu/profile.h"
#include "lm/step/partition.h"

extern const propane_driver cpu_driver;

static double peak(void) {
    enum { N = 1024, ROUNDS = 7 };
    float *x = mem_pages_alloc(3 * N * N * sizeof *x);
    cpu_gemm g = {.m = N, .n = N, .k = N, .batch = 1, .alpha = 1};
    propane_error err = {0};
    cpu_isa isa;
    if (!x || cpu_isa_current(&isa, &err)) return 0;
    g.kernels = cpu_kernels_of(isa);
    cpu_matrix *all[3] = {&g.a, &g.b, &g.c};
    for (int i = 0; i < 3; i++) *all[i] = (cpu_matrix){.data = x + i * N * N, .row_stride = N, .col_stride = 1};
    size_t bytes = cpu_gemm_scratch_bytes(&g, pool_threads()) + 64;
    void *scratch = mem_pages_alloc(bytes);
    double best = 0;
    for (int r = 0; r < ROUNDS && scratch; r++) {
        int64_t begin = clock_ns();
        cpu_gemm_run(&g, scratch);
        double rate = 2.0 * N * N * N / (double)(clock_ns() - begin);
        if (rate > best) best = rate;
    }
    mem_pages_free(scratch, bytes);
    mem_pages_free(x, 3 * N * N * sizeof *x);
    return best;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void fill(driver_buffer *b, const propane_io *io, rng *r) {
    size_t count = io->bytes / (io->dtype == PROPANE_FP16 ? 2 : 4);
    double scale = io->rank == 2 ? 0.03 : 1;
    for (size_t i = 0; i < count; i++) {
        float v = (float)(scale * (2 * rng_unit(r) - 1));
        if (io->dtype == PROPANE_FP16)
            ((uint16_t *)b->memory)[i] = fp16_from_f32(v);
        else
            ((float *)b->memory)[i] = v;
    }
}

/* Prints a table in the order of execution: time per run, share, GFLOP/s, GB/s. */
static void print_profile(const cpu_program *p) {
    double total = 0;
    for (int i = 0; i < p->step_count; i++) total += (double)p->steps[i].ns;
    printf("%4s %-9s %-32s %-12s %9s %6s %9s %8s\n", "step", "kind", "value", "stage", "us", "share", "GFLOP/s",
           "GB/s");
    for (int i = 0; i < p->step_count; i++) {
        const cpu_step *s = &p->steps[i];
        double ns = s->runs ? (double)s->ns / (double)s->runs : 0;
        printf("%4d %-9s %-32.32s %-12.12s %9.1f %5.1f%% %9.2f %8.2f\n", i, s->kind, s->name, s->stage ? s->stage : "",
               ns / 1e3, total > 0 ? 100 * (double)s->ns / total : 0, ns > 0 ? s->flops / ns : 0,
               ns > 0 ? s->bytes / ns : 0);
    }
}

static propane_status bench(void *device, const partition_kernel *k, double limit, bool profile, double *ms,
                            propane_error *err) {
    enum { ROUNDS = 15 };
    driver_program program = {.arena = arena_create()};
    int64_t begin = clock_ns(), ns[ROUNDS];
    PROPANE_TRY(cpu_driver.compile(device, k->function, NULL, &program, err));
    double compile_ms = (double)(clock_ns() - begin) / 1e6;
    driver_buffer *in = mem_array((size_t)program.input_count, sizeof *in),
                  *out = mem_array((size_t)program.output_count, sizeof *out);
    driver_buffer **ins = mem_array((size_t)program.input_count + 1, sizeof *ins);
    driver_buffer **outs = mem_array((size_t)program.output_count + 1, sizeof *outs);
    rng r;
    rng_init(&r, 7);
    for (int i = 0; i < program.input_count; i++) {
        in[i].bytes = program.inputs[i].bytes;
        PROPANE_TRY(cpu_driver.buffer_create(device, in[i].bytes, &in[i], err));
        fill(&in[i], &program.inputs[i], &r);
        ins[i] = &in[i];
    }
    for (int i = 0; i < program.output_count; i++) {
        out[i].bytes = program.outputs[i].bytes;
        PROPANE_TRY(cpu_driver.buffer_create(device, out[i].bytes, &out[i], err));
        outs[i] = &out[i];
    }
    driver_execution e = {&program, ins, outs};
    propane_completion done = {.size = sizeof done};
    for (int i = -2; i < ROUNDS; i++) {
        PROPANE_TRY(cpu_driver.execute(device, &e, &done, err));
        if (i >= 0) ns[i] = done.device_ns;
    }
    qsort(ns, ROUNDS, sizeof *ns, compare);
    const cpu_program *p = program.impl;
    *ms = (double)ns[ROUNDS / 2] / 1e6;
    printf("%s,%.3f,%.1f,%.3f,%d,%d,%d,%d,%d,%.2f,%.2f\n", k->name, *ms, k->flops / *ms / 1e6,
           k->flops / *ms / 1e6 / limit, p->step_count, p->gemm_count, p->tile_count, p->fused_ops, p->copy_count,
           (double)p->block_bytes / 1e6, compile_ms);
    if (profile) {
        cpu_profile_enable(&program, true);
        for (int i = 0; i < 5; i++) PROPANE_TRY(cpu_driver.execute(device, &e, &done, err));
        print_profile(p);
    }
    for (int i = 0; i < program.input_count; i++) cpu_driver.buffer_free(device, &in[i]);
    for (int i = 0; i < program.output_count; i++) cpu_driver.buffer_free(device, &out[i]);
    mem_free(in), mem_free(out), mem_free(ins), mem_free(outs);
    cpu_driver.program_free(device, &program);
    arena_free(program.arena);
    return PROPANE_OK;
}

static propane_status run(int64_t batch, int64_t context, bool profile, propane_error *err) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = 768;
    c.intermediate_size = 2048;
    c.num_attention_heads = c.num_key_value_heads = 12;
    c.head_dim = 64;
    c.max_position_embeddings = context;
    partition_options o = {.name = "layer", .precision = MIL_fp32, .batch = batch, .context = context};
    partition *p = NULL;
    void *device = NULL;
    double total = 0, flops = 0, limit = peak();
    PROPANE_TRY(partition_create(&c, &o, &p, err));
    PROPANE_TRY(cpu_driver.open("", &device, err));
    printf("# batch %lld, context %lld, %d threads, one 1024^3 product reaches %.1f GFLOP/s\n", (long long)batch,
           (long long)context, pool_threads(), limit);
    printf("kernel,ms,gflops,fraction,steps,products,tiles,fused_ops,copies,block_mb,compile_ms\n");
    for (int i = 0; i < p->kernel_count; i++) {
        const partition_kernel *k = &p->kernels[i];
        if (k->part == MODEL_HEAD) continue;
        double ms = 0;
        PROPANE_TRY(bench(device, k, limit, profile, &ms, err));
        total += ms;
        flops += k->flops;
    }
    printf("all,%.3f,%.1f,%.3f\n", total, flops / total / 1e6, flops / total / 1e6 / limit);
    cpu_driver.close(device);
    partition_free(p);
    return PROPANE_OK;
}

int main(int argc, char **argv) {
    propane_error err = {0};
    int64_t batch = argc > 1 ? atoll(argv[1]) : 1, context = argc > 2 ? atoll(argv[2]) : 256;
    if (run(batch, context, argc > 3, &err)) {
        fprintf(stderr, "bench_layer: %s\n", err.text);
        return 1;
    }
    return 0;
}
