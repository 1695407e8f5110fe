/* SPDX-License-Identifier: MIT
 * Matrix products as an engine's multiply-add array computes them (see ane/h13/accumulate.h), CPU_ARRAY_ROWS rows by
 * CPU_ARRAY_COLUMNS columns at a time. Sums are integers in units of 2^-16; the caller ensures that none leaves int32.
 */
#ifndef CPU_SIMD_ARRAY_UKERNEL_H
#define CPU_SIMD_ARRAY_UKERNEL_H

#include <stdint.h>

enum { CPU_ARRAY_ROWS = 4, CPU_ARRAY_COLUMNS = 64 };

/* The left factors, row by row, in the form that the kernels read (made by the kernel `left`). */
typedef struct cpu_array_left {
    /* Factors times 2^16, moved to the next float away from 0, so that halves are rounded away from 0. */
    const float *up;
    const float *least; /* the smallest absolute value of a right factor whose product is kept */
    int64_t step;       /* floats from one row to the next */
} cpu_array_left;

/* Adds the rounded products of row r and column j of the panel [depth][CPU_ARRAY_COLUMNS] to sum[r][j]. All numbers are
 * fp16 values. Products must be below 64 in absolute value for the kernels near_*, and below 32768 for far_*. The
 * kernels *_one compute one row, *_rows CPU_ARRAY_ROWS rows. */
typedef void (*cpu_array_add)(int32_t (*sum)[CPU_ARRAY_COLUMNS], cpu_array_left left, const float *panel,
                              int64_t depth);
typedef struct cpu_array_kernels {
    cpu_array_add near_one, near_rows, far_one, far_rows;
    void (*left)(float *up, float *least, const float *x, int64_t count);
} cpu_array_kernels;

#endif
