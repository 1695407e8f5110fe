/* SPDX-License-Identifier: MIT
 * The gemv kernels of an instruction set: rows of stored weights times one to eight vectors, in fp32 (body/gemv_body.h)
 * or, if the machine adds products of bytes, in integers (int_dot).
 *
 *   F32, F16, BF16   rows of k numbers
 *   INT8             rows of k signed bytes; 32 share one scale (fp16): w = q * scale
 *   INT4             rows of k / 2 bytes, 16 per 32 weights: low nibbles are the first 16, high ones the others;
 *                    w = (q - 8) * scale
 *   Q4_1, Q2_K, ...  blocks of 32 or 256 (core/base/kquant.h); their fp16 numbers are the scales
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
#define KQUANT(NAME, name, ...) CPU_WEIGHTS_##NAME,
#include "core/base/kquants.def"
#undef KQUANT
    CPU_WEIGHTS_COUNT,
    CPU_WEIGHTS_KQUANT = CPU_WEIGHTS_INT4 + 1 /* the first form of kquants.def */
} cpu_weights;

enum {
    CPU_GEMV_COLUMNS = 8,
    CPU_GEMV_BLOCK = 32,
    CPU_GEMV_GROUP = 4,
    CPU_WEIGHTS_BLOCKS = CPU_WEIGHTS_COUNT - CPU_WEIGHTS_INT8 /* forms that have blocks */
};

/* Return the bytes of a row of k weights without scales, and the number of fp16 scales of a row. */
int64_t cpu_weights_row_bytes(cpu_weights format, int64_t k);
int64_t cpu_weights_row_scales(cpu_weights format, int64_t k);
/* Returns the number of weights in a block. The number of weights in a row is a multiple of it. */
int64_t cpu_weights_block(cpu_weights format);

/* y[r * columns + j] = row r of w times column j of x, whose columns are `step` apart; r < rows. */
typedef void (*cpu_gemv_tile)(float *y, const void *w, const uint16_t *scales, const float *x, int64_t step, int64_t k,
                              int rows);
/* out[r * step + i] = element first + i of row r as fp32. `w` and `scales` point to the first row. `first` and
 * `count` are multiples of CPU_GEMV_BLOCK if the format has scales. */
typedef void (*cpu_gemv_unpack)(float *out, int64_t step, const void *w, int64_t row_bytes, const uint16_t *scales,
                                int64_t row_scales, int64_t rows, int64_t first, int64_t count);
typedef struct cpu_gemv_kernels {
    cpu_gemv_unpack unpack[CPU_WEIGHTS_COUNT]; /* NULL for F32 and F16, which matrix products read directly */
    cpu_gemv_tile tiles[CPU_WEIGHTS_COUNT][4]; /* [format][log2 of the columns] */
} cpu_gemv_kernels;

/* ---- int_dot ----------------------------------------------------------------------------------------------------- */
/* Matrix products of weights in few bits with vectors converted to integers, for processors that add products of bytes
 * (AVX-512 VNNI). 32 neighbours of a vector share a scale and have sixteen bits each, as a high and a low byte. The
 * rounding error is therefore at most 1 / 65024 of the largest of the 32, which does not show in fp32 sums of a row.
 *
 *     w x = scale_w scale_x sum (u - bias) q,   u = w + bias unsigned,   q = 256 high + low
 *
 * `start` holds -bias times the sums of four neighbouring q, from which the sums of products begin. All of these are
 * integers and therefore exact.
 */

/* A step of 64 numbers of a vector. The bytes are in order; with blocks of 32, the first halves of both blocks come
 * first, then the second halves. Forms that are computed sixteen rows at a time have another layout
 * (body/rows_dot_avx512.h). */
typedef struct cpu_int_dot_step {
    int8_t high[64], low[64];
    int32_t start[16];
} cpu_int_dot_step;

/* Additional factors for blocks of 256: for each of a block's bytes of scales and minima, the vector's scale at that
 * position, or the sum of its numbers there. */
typedef struct cpu_int_dot_block {
    float beside[32];
} cpu_int_dot_block;

/* A column consists of k / 64 steps (rounded up), followed by one scale per block of 32 and, if the form has minima,
 * the negative sum of the block's numbers, or by one cpu_int_dot_block per block of 256. */
static inline int64_t cpu_int_dot_steps(int64_t k) { return (k + 63) / 64; }
static inline size_t cpu_int_dot_column_bytes(int64_t k) { /* a multiple of 64 */
    size_t steps = (size_t)cpu_int_dot_steps(k);
    return steps * sizeof(cpu_int_dot_step) + (4 * steps * sizeof(float) + 63) / 64 * 64;
}
static inline size_t cpu_int_dot_block_bytes(int64_t k) { /* the same, for blocks of 256 */
    return (size_t)(k / 64) * sizeof(cpu_int_dot_step) + (size_t)(k / 256) * sizeof(cpu_int_dot_block);
}

/* y[r * columns + j] as in cpu_gemv_tile. Columns are cpu_int_dot_column_bytes(k) apart,
 * or cpu_int_dot_block_bytes(k) for blocks of 256. */
typedef void (*cpu_int_dot_tile)(float *y, const void *w, const uint16_t *scales, const void *x, int64_t k, int rows);
typedef struct cpu_int_dot_kernels {
    /* Converts one column of k numbers to 64-byte aligned memory. k is a multiple of the form's block. NULL if this
     * machine has no such instructions. */
    void (*prepare)(void *out, const float *x, int64_t k, cpu_weights format);
    /* [format - CPU_WEIGHTS_INT8][log2 of the columns] */
    cpu_int_dot_tile tiles[CPU_WEIGHTS_BLOCKS][4];
} cpu_int_dot_kernels;

#endif
