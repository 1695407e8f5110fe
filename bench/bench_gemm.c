/* SPDX-License-Identifier: MIT
 * Measures matrix products at the shapes of training, as a part of the speed of the machine's multiply-add units,
 * alternating with OpenBLAS and oneDNN if they are installed. First it measures the machine itself: independent chains
 * of multiply-adds in registers.
 *
 *   bench_gemm [rounds] [part of a shape's name]        threads: PROPANE_THREADS, instruction set: PROPANE_ISA
 *
 * Each round runs a shape a few times with Propane, rests so that idle threads of either side fall asleep, and then
 * runs it with the others. It prints the median over all runs, and the best in brackets. With one thread, the times
 * are the process's processor time.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "cpu/gemm/gemm.h"
#include "machine.h"

enum { RUNS = 4, MOST_ROUNDS = 50 };

/* ---- shapes ------------------------------------------------------------------------------------------------------------ */

/* Stories110M: width 768, hidden 2048, vocabulary 32000, context 256; "x4" has a batch of 4 as columns. */
typedef struct shape {
    const char *name;
    int64_t m, n, k;
    bool turn_a, turn_b; /* the elements of a column are adjacent in memory */
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
    cpu_gemm g = {
        .kernels = cpu_kernels_of(isa), .bf16 = bf16, .m = s->m, .n = s->n, .k = s->k, .batch = s->batch, .alpha = 1};
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
        int64_t start = machine_ns();
        cpu_gemm_run(&g, scratch);
        t->ns[t->count++] = (double)(machine_ns() - start);
    }
    mem_pages_free(scratch, scratch_bytes);
    if (weights) mem_pages_free(weights, bytes);
    return true;
}

static void bench_other(const machine_library *l, const shape *s, const operands *o, times *t) {
    for (int i = -1; i < RUNS; i++) {
        int64_t start = machine_ns();
        for (int64_t b = 0; b < s->batch; b++)
            machine_run(l, &(machine_product){s->m, s->n, s->k, s->turn_a, s->turn_b, false, o->a + b * s->m * s->k,
                                              o->b + b * s->k * s->n, o->c + b * s->m * s->n});
        if (i >= 0) t->ns[t->count++] = (double)(machine_ns() - start);
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
        if (cpu_isa_available((cpu_isa)i) && machine_units((cpu_isa)i, 20) > 0)
            printf("peak %-12s %7.1f GFLOP/s with %d threads\n", cpu_isa_name((cpu_isa)i),
                   machine_units((cpu_isa)i, 60), threads);
    double peak = machine_units(isa, 60);
    machine_library others[MACHINE_LIBRARIES];
    machine_find(others);
    printf("%s; GFLOP/s, part of the peak, best in brackets\n", cpu_isa_name(isa));
    printf("%-24s  %14s  %14s  %14s  %14s", "", "fp32", "fp32 packed A", "fp16 storage", "bf16");
    for (int i = 0; i < MACHINE_LIBRARIES; i++) printf("  %14s", others[i].name);
    printf("\n");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        if (!strstr(s->name, part)) continue;
        operands o;
        if (!make_operands(&o, s)) {
            fprintf(stderr, "no memory for %s\n", s->name);
            return 1;
        }
        static times t[4 + MACHINE_LIBRARIES];
        memset(t, 0, sizeof t);
        for (int round = 0; round < rounds; round++) {
            for (int form = 0; form < 4; form++)
                if (!bench_ours(product_of(s, &o, isa, form == 2, form == 3), form == 1 && s->batch == 1, &t[form]))
                    return 1;
            for (int l = 0; l < MACHINE_LIBRARIES; l++) {
                machine_rest();
                if (machine_has(&others[l])) bench_other(&others[l], s, &o, &t[4 + l]);
            }
            machine_rest();
        }
        double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k * (double)s->batch;
        printf("%-24s", s->name);
        for (int c = 0; c < 4 + MACHINE_LIBRARIES; c++) print_cell(&t[c], flops, peak);
        printf("\n");
        fflush(stdout);
        free_operands(&o);
    }
    pool_stop();
    return 0;
}
