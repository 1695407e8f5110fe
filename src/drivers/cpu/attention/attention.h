/* SPDX-License-Identifier: MIT
 * Attention in one step, forward and backward: the scores of a few rows are computed, turned into probabilities and used up
 * before the next rows begin, so memory grows with the context, not with its square, and what a causal mask kills is left
 * out. An item is one group of query heads with its own keys and values: `rows` query rows, one head behind the other,
 * each of `period` rows, by `keys` keys, all `width` wide.
 *
 *   forward    O = P V,  P = softmax(scale Q K')
 *   backward   dV = P' dO,  dS = P * (dO V' - rowsum(P * dO V')),  dQ = scale dS K,  dK = scale dS' Q; P is computed again
 *
 * An item's sums over query rows are one thread's: the bits do not depend on the number of threads.
 */
#ifndef CPU_ATTENTION_ATTENTION_H
#define CPU_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/cpu/gemm/gemm.h"
#include "drivers/cpu/simd/isa.h"

typedef enum cpu_attention_role {
    CPU_ATTENTION_Q,
    CPU_ATTENTION_K,
    CPU_ATTENTION_V,
    CPU_ATTENTION_O, /* written forward; backward: dO, read */
    CPU_ATTENTION_DQ,
    CPU_ATTENTION_DK,
    CPU_ATTENTION_DV,
    CPU_ATTENTION_ROLES
} cpu_attention_role;

/* Element (position, channel) of item i is at data + offset[i] bytes + position*row + channel*col elements. */
typedef struct cpu_attention_operand {
    void *data;
    cpu_dtype dtype;
    int64_t row, col;
    const int64_t *offset;
} cpu_attention_operand;

typedef struct cpu_attention {
    cpu_isa isa;
    bool backward, causal;
    int64_t items, rows, period, keys, width; /* rows: a multiple of the period, which is `keys` if causal */
    float scale;
    cpu_attention_operand at[CPU_ATTENTION_ROLES];
} cpu_attention;

size_t cpu_attention_scratch_bytes(const cpu_attention *a, int threads);
/* scratch: 64-byte aligned, for pool_threads(). */
void cpu_attention_run(const cpu_attention *a, void *scratch);

/* ---- scores, for each instruction set (attention_body.h) -------------------------------------------------------------- */

/* Columns lie in panels of `nr` columns, `step` floats apart; in a first operand in its second form, of 4. */
typedef struct attention_row {
    float *at;
    int64_t step;
} attention_row;

enum { ATTENTION_LANES = 16 }; /* at least those of a vector */

typedef struct attention_kernels {
    /* s [rows][nr], a query row in each column, which sees row j if j <= first + column. largest, sums [nr] are of the
     * blocks of keys before and then with this one: s = 2^(s - largest), 0 for what it does not see; factor = what the
     * blocks before are to be multiplied by. */
    void (*columns)(float *s, int64_t rows, int64_t first, float *largest, float *sums, float *factor);
    /* to [width][cols] (rows `step` apart, may be `from`) = from [width][nr], each column times its factor */
    void (*scale)(float *to, int64_t step, const float *from, const float *factor, int64_t width, int64_t cols);
    /* A row, of which each lane has a largest of its own (in the block before: `before`, NULL in the first one), lane by
     * lane: the first `count` columns become s = 2^(s - largest); sums [2][lanes] are those of s and of s * dp. */
    void (*begin)(attention_row s, attention_row dp, int64_t count, const float *before, float *largest, float *sums);
    /* Of each row, from its lanes in the last block: totals[0 ..] the largest, [step ..] 1 / its sum, [2 step ..] the mean
     * of dp. Rows are ATTENTION_LANES floats (in sums twice that) apart; whole vectors of rows are read and written. */
    void (*join)(const float *largest, const float *sums, float *totals, int64_t step, int64_t rows);
    /* s becomes the probabilities of the first `count` columns, dp the scores' gradient, which is also written to `copy`,
     * in panels of 4; zeros up to `width`. largest: what `begin` gave for the block. */
    void (*finish)(attention_row s, attention_row dp, attention_row copy, int64_t count, int64_t width,
                   const float *largest, const float *totals, int64_t step);
    /* to, panels of mr rows, one behind the other, [depth][mr]; row i of line k is from[k * step + i]. Whole panels only. */
    void (*strips)(float *to, const float *from, int64_t step, int64_t rows, int64_t depth);
    /* to[c * step + i] = from[i * from_step + c]; of `from` whole vectors of rows and columns are read */
    void (*turn)(float *to, int64_t step, const float *from, int64_t from_step, int64_t rows, int64_t width);
} attention_kernels;

extern const attention_kernels attention_kernels_plain;
#if defined(__x86_64__)
extern const attention_kernels attention_kernels_avx2, attention_kernels_avx512;
#elif defined(__aarch64__)
extern const attention_kernels attention_kernels_neon;
#endif

#endif
