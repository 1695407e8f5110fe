/* SPDX-License-Identifier: MIT
 * The attention kernels of an instruction set, in addition to the tiles of gemm_ukernel.h: from scores to
 * probabilities, and moves between layouts (body/attention_body.h); scores and sums over listed keys
 * (body/attention_decode_body.h).
 */
#ifndef CPU_SIMD_ATTENTION_UKERNEL_H
#define CPU_SIMD_ATTENTION_UKERNEL_H

#include <stdbool.h>
#include <stdint.h>

/* Columns are stored in panels of `nr` columns, `step` floats apart, or of 4 columns in a first operand in its second
 * form. */
typedef struct attention_row {
    float *at;
    int64_t step;
} attention_row;

enum { ATTENTION_LANES = 16 }; /* at least the lanes of a vector */

typedef struct cpu_attention_kernels {
    /* s is [rows][nr], with one query row per column; a column sees row j if j <= first + column. largest and sums [nr]
     * are updated from the previous blocks of keys to include this one. s becomes 2^(s - largest), or 0 if it is not
     * seen. factor is the multiplier for the results of the previous blocks. */
    void (*columns)(float *s, int64_t rows, int64_t first, float *largest, float *sums, float *factor);
    /* to [width][cols] = from [width][nr], each column multiplied by its factor. Rows of `to` are `step` apart; it may
     * be `from`. */
    void (*scale)(float *to, int64_t step, const float *from, const float *factor, int64_t width, int64_t cols);
    /* Processes a row lane by lane, with a separate maximum per lane (`before` is the previous block's, NULL in the
     * first block). The first `count` columns become s = 2^(s - largest). sums [2][lanes] are the sums of s and of s *
     * dp. */
    void (*begin)(attention_row s, attention_row dp, int64_t count, const float *before, float *largest, float *sums);
    /* Combines the lanes of each row after the last block: totals[0 ..] is the maximum, [step ..] is 1 / its sum, [2
     * step ..] is the mean of dp. Rows are ATTENTION_LANES floats apart (in sums twice that). Whole vectors of rows are
     * read and written. */
    void (*join)(const float *largest, const float *sums, float *totals, int64_t step, int64_t rows);
    /* s becomes the probabilities of the first `count` columns, and dp the gradient of the scores, which is also
     * written to `copy`, in panels of 4. Both are zero up to `width`. largest is what `begin` returned for the
     * block. */
    void (*finish)(attention_row s, attention_row dp, attention_row copy, int64_t count, int64_t width,
                   const float *largest, const float *totals, int64_t step);
    /* Writes to `to` panels of mr rows, one after the other, [depth][mr]. Row i of line k is from[k * step + i]. Whole
     * panels only. */
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
