/* SPDX-License-Identifier: MIT
 * A matrix of weights times a few vectors: what decoding does. It reads each weight once, so it is bound by memory, and
 * the fewer bytes a weight has, the faster it is: the weights stay as they are stored and are turned into fp32 in
 * registers. Sums are fp32, in an order that the shape and the instruction set fix.
 */
#ifndef CPU_GEMV_GEMV_H
#define CPU_GEMV_GEMV_H

#include <stdbool.h>
#include <stddef.h>

#include "cpu/simd/kernels.h"

/* C = W X (+ R): W [m, k], X [k, n], n <= CPU_GEMV_COLUMNS. k is a multiple of the format's block. */
typedef struct cpu_gemv {
    const cpu_kernels *kernels;
    int threads; /* at most that many at once; 0: all of the pool */
    cpu_weights format;
    int64_t m, k;
    int n;
    bool exact;             /* vectors stay fp32, whatever the processor has for integers (int_dot) */
    const void *w;          /* dense rows */
    const uint16_t *scales; /* [m, cpu_weights_row_scales]; NULL: the format has none */
    cpu_matrix_view x, c;
    const cpu_matrix_view *residual; /* NULL: none */
} cpu_gemv;

size_t cpu_gemv_scratch_bytes(const cpu_gemv *g);
void cpu_gemv_run(const cpu_gemv *g, void *scratch); /* 64-byte aligned */
/* Up to CPU_GEMV_GROUP products of the same vectors (k, n, x, format, kernels) in one parallel loop. */
void cpu_gemv_run_group(const cpu_gemv *g, int count, void *scratch);

#endif
