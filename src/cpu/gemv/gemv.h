/* SPDX-License-Identifier: MIT
 * Multiplies a matrix of weights by a few vectors, as decoding does. Each weight is read once, so memory bandwidth is
 * the limit, and smaller weights are faster. Weights therefore stay in their stored form. They are converted to fp32 in
 * registers, or multiplied by vectors of integers (int_dot). Sums are fp32, in an order that depends only on the shape
 * and the instruction set.
 */
#ifndef CPU_GEMV_GEMV_H
#define CPU_GEMV_GEMV_H

#include <stdbool.h>
#include <stddef.h>

#include "cpu/simd/kernels.h"

/* C = W X (+ R), where W is [m, k], X is [k, n] and n <= CPU_GEMV_COLUMNS. k is a multiple of the format's block. */
typedef struct cpu_gemv {
    const cpu_kernels *kernels;
    int threads; /* most threads at once; 0 means all of the pool */
    cpu_weights format;
    int64_t m, k;
    int n;
    bool exact;             /* keeps vectors in fp32 even if the processor has integer kernels (int_dot) */
    const void *w;          /* dense rows */
    const uint16_t *scales; /* [m, cpu_weights_row_scales]; NULL if the format has none */
    cpu_matrix_view x, c;
    const cpu_matrix_view *residual; /* NULL if none */
} cpu_gemv;

size_t cpu_gemv_scratch_bytes(const cpu_gemv *g);
/* Runs up to CPU_GEMV_GROUP products of the same vectors (k, n, x, format, kernels) in one parallel loop. scratch must
 * be 64-byte aligned. */
void cpu_gemv_run_group(const cpu_gemv *g, int count, void *scratch);

#endif
