/* SPDX-License-Identifier: MIT
 * What gemv needs of an instruction set: rows of weights, as they are stored, times one to eight vectors, in fp32
 * (body/gemv_body.h) or, where the machine adds up products of bytes, in integers (int_dot).
 *
 *   F32, F16, BF16   rows of k numbers
 *   INT8             rows of k signed bytes; each 32 share a scale (fp16): w = q * scale
 *   INT4             rows of k / 2 bytes, 16 for each 32 weights: low nibbles are the first 16, high ones the others;
 *                    w = (q - 8) * scale
 */
#ifndef CPU_SIMD_GEMV_UKERNEL_H
#define CPU_SIMD_GEMV_UKERNEL_H

#include <stddef.h>
#include <stdint.h>

typedef enum cpu_weights {
    CPU_WEIGHTS_F32,
    CPU_WEIGHTS_F16,
    CPU_WEIGHTS_BF16,
    CPU_WEIGHTS_INT8,
    CPU_WEIGHTS_INT4,
    CPU_WEIGHTS_COUNT
} cpu_weights;

enum { CPU_GEMV_COLUMNS = 8, CPU_GEMV_BLOCK = 32, CPU_GEMV_GROUP = 4 };

/* Bytes of a row of k weights, scales not counted. */
int64_t cpu_weights_row_bytes(cpu_weights format, int64_t k);

/* y[r * columns + j] = row r of w times column j of x, whose columns are `step` apart; r < rows. */
typedef void (*cpu_gemv_tile)(float *y, const void *w, const uint16_t *scales, const float *x, int64_t step, int64_t k,
                              int rows);
/* out[r * step + i]: element i of row r as fp32; `w` and `scales` are where the first one's are. `count` is a multiple
 * of CPU_GEMV_BLOCK where there are scales. */
typedef void (*cpu_gemv_unpack)(float *out, int64_t step, const void *w, int64_t row_bytes, const uint16_t *scales,
                                int64_t row_scales, int64_t rows, int64_t count);
typedef struct cpu_gemv_kernels {
    cpu_gemv_unpack unpack[CPU_WEIGHTS_COUNT]; /* NULL: F32, F16, which products read as they are */
    cpu_gemv_tile tiles[CPU_WEIGHTS_COUNT][4]; /* [format][log2 of the columns] */
} cpu_gemv_kernels;

/* ---- int_dot
 * ---------------------------------------------------------------------------------------------------------- Products
 * of weights in few bits with vectors that became integers, for processors that add up products of bytes (AVX-512
 * VNNI). A vector's 32 neighbours share a scale and are sixteen bits wide, as a high and a low byte, so nothing is lost
 * that fp32 sums of a row would show: 1 / 65024 of the largest of the 32.
 *
 *     w x = scale_w scale_x sum (u - bias) q,   u = w + bias unsigned,   q = 256 high + low
 *
 * `start` holds -bias times the sums of four neighbouring q, which is where the sums begin: integers, so exact.
 */

/* Steps of 64 weights, in this order of bytes: INT8 as they lie; INT4 first halves of both blocks, then the second
 * ones. */
typedef struct cpu_int_dot_step {
    int8_t high[64], low[64];
    int32_t start[16];
} cpu_int_dot_step;

/* A column: k / 64 steps (rounded up), after all of them a scale for each block. */
static inline int64_t cpu_int_dot_steps(int64_t k) { return (k + 63) / 64; }
static inline size_t cpu_int_dot_column_bytes(int64_t k) { /* a multiple of 64 */
    size_t steps = (size_t)cpu_int_dot_steps(k);
    return steps * sizeof(cpu_int_dot_step) + (2 * steps * sizeof(float) + 63) / 64 * 64;
}

/* y[r * columns + j] as in cpu_gemv_tile; columns are cpu_int_dot_column_bytes(k) apart. */
typedef void (*cpu_int_dot_tile)(float *y, const void *w, const uint16_t *scales, const void *x, int64_t k, int rows);
typedef struct cpu_int_dot_kernels {
    /* One column of k (a multiple of 32) numbers, 64-byte aligned; `format` INT8 or INT4. NULL: this
     * machine has no such products. */
    void (*prepare)(void *out, const float *x, int64_t k, cpu_weights format);
    /* [format - CPU_WEIGHTS_INT8][log2 of the columns] */
    cpu_int_dot_tile tiles[2][4];
} cpu_int_dot_kernels;

#endif
