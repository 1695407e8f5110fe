/* SPDX-License-Identifier: MIT
 * The attention kernels of an instruction set, in addition to the tiles of gemm_ukernel.h. Some turn scores into
 * probabilities or move data between layouts (body/attention_body.h). Others compute scores and sums over listed keys
 * (body/attention_decode_body.h).
 */
#ifndef CPU_SIMD_ATTENTION_UKERNEL_H
#define CPU_SIMD_ATTENTION_UKERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* A row of scores. Its columns are stored in panels of nr columns, `step` floats apart, or in panels of 4 columns if it
 * is part of a first operand in quads. */
typedef struct attention_row {
    float *at;
    int64_t step;
} attention_row;

enum { ATTENTION_LANES = 16 }; /* at least the lanes of a vector */

typedef struct cpu_attention_kernels {
    /* s is [rows][nr], with one query row per column. A column sees row j if j <= first + column. `largest` and `sums`,
     * both [nr], hold the values of the previous blocks of keys and are updated to include this block. s becomes 2^(s -
     * largest), or 0 where a column does not see the row. `factor` receives the multiplier for the results of the
     * previous blocks. */
    void (*columns)(float *s, int64_t rows, int64_t first, float *largest, float *sums, float *factor);
    /* to [width][cols] = from [width][nr], each column multiplied by its factor. Rows of `to` are `step` apart. `to`
     * may be `from`. */
    void (*scale)(float *to, int64_t step, const float *from, const float *factor, int64_t width, int64_t cols);
    /* Processes a row's scores for one block of keys, with a separate maximum per lane. `before` holds the maxima up to
     * the previous block; NULL in the first block. `largest` receives the maxima including this block. The first
     * `count` columns of s become 2^(s - largest). `sums` [2][lanes] are the sums of s and of s * dp over the blocks so
     * far. */
    void (*begin)(attention_row s, attention_row dp, int64_t count, const float *before, float *largest, float *sums);
    /* Combines the lanes of each row after the last block. totals[0 ..] receives the maxima of the rows, [step ..] 1 /
     * their sums, and [2 step ..] their means of dp. Rows of `largest` are ATTENTION_LANES floats apart, those of
     * `sums` twice as many. Whole vectors of rows are read and written. */
    void (*join)(const float *largest, const float *sums, float *totals, int64_t step, int64_t rows);
    /* s becomes the probabilities of the first `count` columns, and dp the gradient of the scores, which is also
     * written to `copy`, in panels of 4. Columns from `count` to `width` become 0. `largest` holds the maxima from
     * `begin` for this block. */
    void (*finish)(attention_row s, attention_row dp, attention_row copy, int64_t count, int64_t width,
                   const float *largest, const float *totals, int64_t step);
    /* Writes panels of mr rows to `to`, one after the other, [depth][mr]. Row i of line k is from[k * step + i]. Only
     * whole panels are written. */
    void (*strips)(float *to, const float *from, int64_t step, int64_t rows, int64_t depth);
    /* to[c * step + i] = from[i * from_step + c]. Whole vectors of rows and columns of `from` are read. */
    void (*turn)(float *to, int64_t step, const float *from, int64_t from_step, int64_t rows, int64_t width);
} cpu_attention_kernels;

/* Attention with a mask that is read when the program runs (attention_decode.h). Row t of `k` or `v` is at element t *
 * row. `half` means fp16. */
typedef struct cpu_attention_decode_kernels {
    /* s[i] = q . k[keys[i]] + add[i] */
    void (*scores)(float *s, const float *q, const void *k, bool half, int64_t row, int64_t width, const int32_t *keys,
                   const float *add, int64_t count);
    /* o = sum over i of p[i] v[keys[i]] */
    void (*mix)(float *o, const float *p, const void *v, bool half, int64_t row, int64_t width, const int32_t *keys,
                int64_t count);
} cpu_attention_decode_kernels;

#endif
