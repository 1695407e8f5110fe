/* SPDX-License-Identifier: MIT
 * What attention needs of an instruction set beside the tiles of gemm_ukernel.h: from scores to probabilities, and
 * moves between layouts (body/attention_body.h); scores and sums over listed keys (body/attention_decode_body.h).
 */
#ifndef CPU_SIMD_ATTENTION_UKERNEL_H
#define CPU_SIMD_ATTENTION_UKERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Columns lie in panels of `nr` columns, `step` floats apart; in a first operand in its second form, of 4. */
typedef struct attention_row {
    float *at;
    int64_t step;
} attention_row;

enum { ATTENTION_LANES = 16 }; /* at least those of a vector */

typedef struct cpu_attention_kernels {
    /* s [rows][nr], a query row in each column, which sees row j if j <= first + column. largest, sums [nr] are of the
     * blocks of keys before and then with this one: s = 2^(s - largest), 0 for what it does not see; factor = what the
     * blocks before are to be multiplied by. */
    void (*columns)(float *s, int64_t rows, int64_t first, float *largest, float *sums, float *factor);
    /* to [width][cols] (rows `step` apart, may be `from`) = from [width][nr], each column times its factor */
    void (*scale)(float *to, int64_t step, const float *from, const float *factor, int64_t width, int64_t cols);
    /* A row, of which each lane has a largest of its own (in the block before: `before`, NULL in the first one), lane
     * by lane: the first `count` columns become s = 2^(s - largest); sums [2][lanes] are those of s and of s * dp. */
    void (*begin)(attention_row s, attention_row dp, int64_t count, const float *before, float *largest, float *sums);
    /* Of each row, from its lanes in the last block: totals[0 ..] the largest, [step ..] 1 / its sum, [2 step ..] the
     * mean of dp. Rows are ATTENTION_LANES floats (in sums twice that) apart; whole vectors of rows are read and
     * written. */
    void (*join)(const float *largest, const float *sums, float *totals, int64_t step, int64_t rows);
    /* s becomes the probabilities of the first `count` columns, dp the scores' gradient, which is also written to
     * `copy`, in panels of 4; zeros up to `width`. largest: what `begin` gave for the block. */
    void (*finish)(attention_row s, attention_row dp, attention_row copy, int64_t count, int64_t width,
                   const float *largest, const float *totals, int64_t step);
    /* to, panels of mr rows, one after the other, [depth][mr]; row i of line k is from[k * step + i]. Whole panels
     * only. */
    void (*strips)(float *to, const float *from, int64_t step, int64_t rows, int64_t depth);
    /* to[c * step + i] = from[i * from_step + c]; of `from` whole vectors of rows and columns are read */
    void (*turn)(float *to, int64_t step, const float *from, int64_t from_step, int64_t rows, int64_t width);
} cpu_attention_kernels;

/* Attention behind a mask that is read when the program runs (attention_decode.h). Row t of `k` or `v` is at element t
 * * row; half: fp16. */
typedef struct cpu_attention_decode_kernels {
    /* s[i] = q . k[keys[i]] + add[i] */
    void (*scores)(float *s, const float *q, const void *k, bool half, int64_t row, int64_t width, const int32_t *keys,
                   const float *add, int64_t count);
    /* o = sum over i of p[i] v[keys[i]] */
    void (*mix)(float *o, const float *p, const void *v, bool half, int64_t row, int64_t width, const int32_t *keys,
                int64_t count);
} cpu_attention_decode_kernels;

#endif
