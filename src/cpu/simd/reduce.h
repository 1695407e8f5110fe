/* SPDX-License-Identifier: MIT
 * Kernels that combine many elements to one: reductions, softmax, dot products. Sums are blocked: fp32 over at most
 * CPU_REDUCE_BLOCK neighbours (or 64 rows of a strided axis). The sums of the blocks are added afterwards, in an order
 * that depends only on the length and the instruction set.
 *
 * An axis is contiguous (rows of `length` neighbours) or strided (columns: element i of column j is x[i*stride + j]).
 * These are single-threaded kernels: a planner divides rows, or ranges of columns, among the pool.
 */
#ifndef CPU_SIMD_REDUCE_H
#define CPU_SIMD_REDUCE_H

#include <stdint.h>

#define CPU_REDUCE_BLOCK 1024
#define CPU_REDUCE_INNER 256 /* strided kernels process this many columns at once, without scratch from the caller */

typedef enum cpu_reduce_code {
    CPU_REDUCE_SUM,
    CPU_REDUCE_SUMSQ, /* sum of squares */
    CPU_REDUCE_SUMABS,
    CPU_REDUCE_MAX, /* NaN anywhere results in NaN; length 0 results in -inf (max), inf (min), 0 (sums), 1 (prod) */
    CPU_REDUCE_MIN,
    CPU_REDUCE_PROD,
    CPU_REDUCE_COUNT
} cpu_reduce_code;

typedef struct cpu_reduce_kernels {
    /* y[r] = reduce of x[r*stride .. +length-1], r < rows */
    void (*reduce[CPU_REDUCE_COUNT])(float *y, const float *x, int64_t rows, int64_t length, int64_t stride);
    /* y[j] = reduce over i of x[i*stride + j], i < length, j < width: a strided axis */
    void (*reduce_strided[CPU_REDUCE_COUNT])(float *y, const float *x, int64_t length, int64_t width, int64_t stride);

    /* y[r,:] = softmax(x[r,:]), possibly in place. A row of only -inf results in NaN, as defined. */
    void (*softmax)(float *y, const float *x, int64_t rows, int64_t length, int64_t y_stride, int64_t x_stride);
    /* y[:,j] = softmax(x[:,j]) over i < length, for j < width */
    void (*softmax_strided)(float *y, const float *x, int64_t length, int64_t width, int64_t y_stride,
                            int64_t x_stride);
    /* y[r] = log(sum(exp(x[r,:]))) */
    void (*log_sum_exp)(float *y, const float *x, int64_t rows, int64_t length, int64_t stride);
    void (*log_sum_exp_strided)(float *y, const float *x, int64_t length, int64_t width, int64_t stride);

    /* y[j] = sum over i of x[i*x_stride + j] z[i*z_stride + j], i < length, j < width */
    void (*dot_strided)(float *y, const float *x, const float *z, int64_t length, int64_t width, int64_t x_stride,
                        int64_t z_stride);
    float (*dot)(const float *x, const float *y, int64_t count);
} cpu_reduce_kernels;

#endif
