/* SPDX-License-Identifier: MIT
 * Products of weights in few bits with vectors that became whole numbers, for processors that add up products of bytes
 * (AVX-512 VNNI). A vector's 32 neighbours share a scale and are sixteen bits wide, as a high and a low byte, so nothing
 * is lost that fp32 sums of a row would show: 1 / 65024 of the largest of the 32.
 *
 *     w x = scale_w scale_x sum (u - bias) q,   u = w + bias unsigned,   q = 256 high + low
 *
 * `start` holds -bias times the sums of four neighbouring q, which is where the sums begin: whole numbers, so exact.
 */
#ifndef CPU_SIMD_INT_DOT_H
#define CPU_SIMD_INT_DOT_H

#include "drivers/cpu/gemv/gemv.h"

/* Steps of 64 weights, in this order of bytes: INT8 as they lie; INT4 first halves of both blocks, then the second ones. */
typedef struct cpu_gemv_step {
    int8_t high[64], low[64];
    int32_t start[16];
} cpu_gemv_step;

/* A column: k / 64 steps (rounded up), behind all of them a scale for each block. */
size_t cpu_gemv_column_bytes(int64_t k); /* a multiple of 64 */
static inline int64_t cpu_gemv_steps(int64_t k) { return (k + 63) / 64; }

/* y[r * columns + j] as in cpu_gemv_tile; columns are cpu_gemv_column_bytes(k) apart. */
typedef void (*cpu_gemv_dot_tile)(float *y, const void *w, const uint16_t *scales, const void *x, int64_t k);
typedef struct cpu_gemv_dots {
    /* One column of k (a multiple of 32) numbers, 64-byte aligned; `format` INT8 or INT4. */
    void (*prepare)(void *out, const float *x, int64_t k, cpu_weights format);
    /* [format - CPU_WEIGHTS_INT8][log2 of the columns] */
    cpu_gemv_dot_tile tiles[2][4], singles[2][4];
    int rows[4];
} cpu_gemv_dots;

/* NULL: this machine has none. */
const cpu_gemv_dots *cpu_gemv_dots_of(cpu_isa isa);

#endif
