/* SPDX-License-Identifier: MIT
 * A matrix of weights times a few vectors: what decoding does. It reads each weight once, so it is bound by memory, and
 * the fewer bytes a weight has, the faster it is: the weights stay as they are stored and are turned into fp32 in registers.
 * Sums are fp32, in an order that the shape and the instruction set fix.
 *
 *   F32, F16, BF16   rows of k numbers
 *   INT8             rows of k signed bytes; each 32 share a scale (fp16): w = q * scale
 *   INT4             rows of k / 2 bytes, 16 for each 32 weights: low nibbles are the first 16, high ones the others;
 *                    w = (q - 8) * scale
 */
#ifndef CPU_GEMV_GEMV_H
#define CPU_GEMV_GEMV_H

#include "drivers/cpu/gemm/gemm.h"

typedef enum cpu_weights {
    CPU_WEIGHTS_F32,
    CPU_WEIGHTS_F16,
    CPU_WEIGHTS_BF16,
    CPU_WEIGHTS_INT8,
    CPU_WEIGHTS_INT4,
    CPU_WEIGHTS_COUNT
} cpu_weights;

enum { CPU_GEMV_COLUMNS = 8, CPU_GEMV_BLOCK = 32, CPU_GEMV_GROUP = 4 };

/* C = W X (+ R): W [m, k], X [k, n], n <= CPU_GEMV_COLUMNS. With scales, k is a multiple of CPU_GEMV_BLOCK. */
typedef struct cpu_gemv {
    cpu_isa isa;
    cpu_weights format;
    int64_t m, k;
    int n;
    bool exact;             /* vectors stay fp32, whatever the processor has for whole numbers (int_dot.h) */
    const void *w;          /* dense rows */
    const uint16_t *scales; /* [m, k / 32]; NULL: the format has none */
    cpu_matrix x, c;        /* batch is not looked at */
    const cpu_matrix *residual;
} cpu_gemv;

size_t cpu_gemv_scratch_bytes(const cpu_gemv *g);
void cpu_gemv_run(const cpu_gemv *g, void *scratch); /* 64-byte aligned */
/* Up to CPU_GEMV_GROUP products of the same vectors (k, n, x, format, isa) in one parallel loop. */
void cpu_gemv_run_group(const cpu_gemv *g, int count, void *scratch);
int64_t cpu_weights_row_bytes(cpu_weights format, int64_t k); /* scales not counted */
/* Weights of m rows as the A of a product of many columns; `data` and `scales` are the caller's to fill. */
cpu_stored cpu_weights_stored(cpu_isa isa, cpu_weights format, int64_t k);

/* One instruction set: y[r * columns + j] = row r of w times column j of x, whose columns are `step` apart. */
typedef void (*cpu_gemv_tile)(float *y, const void *w, const uint16_t *scales, const float *x, int64_t step, int64_t k);
/* out[r * step + i]: element i of row r as fp32; `w` and `scales` are where the first one's are. `count` is a multiple
 * of CPU_GEMV_BLOCK where there are scales. */
typedef void (*cpu_gemv_unpack)(float *out, int64_t step, const void *w, int64_t row_bytes, const uint16_t *scales,
                                int64_t row_scales, int64_t rows, int64_t count);
typedef struct cpu_gemv_kernels {
    cpu_gemv_unpack unpack[CPU_WEIGHTS_COUNT]; /* NULL: F32, F16, which products read as they are */
    /* [format][log2 of the columns]: `rows` rows at once, and one. */
    cpu_gemv_tile tiles[CPU_WEIGHTS_COUNT][4], singles[CPU_WEIGHTS_COUNT][4];
    int rows[4];
} cpu_gemv_kernels;

extern const cpu_gemv_kernels cpu_gemv_kernels_plain;
#if defined(__x86_64__)
extern const cpu_gemv_kernels cpu_gemv_kernels_avx2, cpu_gemv_kernels_avx512;
#elif defined(__aarch64__)
extern const cpu_gemv_kernels cpu_gemv_kernels_neon;
#endif

#endif
