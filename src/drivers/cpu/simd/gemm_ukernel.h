/* SPDX-License-Identifier: MIT
 * What gemm.c needs of one instruction set: packing, tiles, the finishing of a tile, and matrix-vector kernels.
 *
 * Packed operands consist of 32-bit words: one fp32 number, or two neighbours in k as bfloat16 where the machine multiplies
 * those (pair = 2). k is counted in words from here on: kw = ceil(k / pair).
 *   A: panels of `mr` rows (the last one of fewer, rounded up to `row_step`), each [kw][height], or, where A lies in memory
 *      with neighbours along k, [kw / 4][height][4]: what is copied there four at a time need not be turned
 *   B: panels of `nr` columns, each [kw][nr]
 * A panel has room for kw rounded up to 16. Rows and columns beyond the matrix are zeros.
 */
#ifndef CPU_SIMD_GEMM_UKERNEL_H
#define CPU_SIMD_GEMM_UKERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/cpu/gemm/gemm.h"

enum {
    GEMM_BLOCK = 16,
    GEMM_QUAD = 4,
    GEMM_STRIP = 16, /* elements of k that all panels pack before they go on to the next, where k is not contiguous */
    GEMM_TILE_MAX = 16 * 64,
    GEMM_LANES = 16 /* at least the lanes of a vector */
};

/* One item's matrix: where its element (0, 0) is. */
typedef struct gemm_view {
    const void *data;
    cpu_dtype dtype;
    int64_t row_stride, col_stride;
    const int64_t *pieces;
    const cpu_stored *stored;
} gemm_view;

typedef struct gemm_finish {
    const cpu_gemm *g;
    int64_t item;
    gemm_view c, residual;
    float *partial; /* sums of the k blocks before, fp32; C itself or scratch; NULL: there is one k block only */
    int64_t partial_stride;
    bool first, last;    /* k blocks */
    bool residual_first; /* added in the first of them */
    double *squares;     /* GEMM_LANES sums for each moving panel; NULL: not wanted, or not in this pass */
} gemm_finish;

/* Memory that is wanted soon, fetched line by line while a tile is computed: two streams of `step` bytes in turn. */
typedef struct gemm_next {
    const char *at;
    int64_t step, second; /* where the second stream begins, behind the first */
    const float *row;     /* and the first row of what the tile's sums are added to or written over, */
    int64_t row_step;     /* floats to the next */
    const float *addend;  /* what the sums are added to, with C's stride; NULL: C itself */
    float *put;           /* instead of two streams: where words of other panels are copied to; NULL: nowhere */
    int64_t put_step;     /* bytes from one of those panels to the next */
} gemm_next;

/* c[r * ldc + j] = alpha * sum (+ c, or the addend) for `height` rows and nr columns */
typedef void (*gemm_tile)(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add,
                          const gemm_next *fetch);

/* The same for a panel of mr rows of A in its second form that is packed by the way, from fp32 or fp16: `a` is written (the
 * whole panel but for its padding) and then read as a tile reads it. Element (r, k) is k elements behind source + r*stride,
 * stride in bytes; kw is a multiple of GEMM_QUAD. */
typedef void (*gemm_copy_tile)(float *a, const void *source, int64_t stride, const float *b, int64_t kw, float *c,
                               int64_t ldc, float alpha, bool add, const gemm_next *fetch);

/* The same for a full panel of B that is packed by the way: `b` is written. Element (k, j) is j elements behind
 * source + k*stride. */
typedef void (*gemm_copy_columns)(const float *a, float *b, const void *source, int64_t stride, int64_t kw, float *c,
                                  int64_t ldc, float alpha, bool add, const gemm_next *fetch);

/* A gemm_tile for a full panel of A in its first form that also copies while fetch->put is set: at each k of a part of it, kw / 16
 * of them `step` bytes apart, the mr words of each of GEMM_PASS_PANELS panels, which lie side by side from fetch->at on, go
 * to fetch->put, as fp32, and those `second` bytes ahead of them are fetched. kw is a multiple of GEMM_BLOCK. */
enum { GEMM_PASS_PANELS = 4 };

typedef struct gemm_kernels {
    int mr, nr, row_step, pair;
    gemm_tile tiles[8];                                     /* [height / row_step - 1] */
    gemm_tile row_tiles[8];                                 /* for the second form of A */
    gemm_copy_tile copy_tile, copy_tile_f16;                /* from fp32, from fp16; NULL: packing goes before */
    gemm_copy_columns copy_columns[2], copy_columns_f16[2]; /* for full panels of A in its first, its second form */
    gemm_tile pass_tile, pass_tile_f16;                     /* NULL: nothing is copied by the way */
    /* One panel of `width` rows of A (or columns of B), of which `count` are there; element (k, c) is at
     * data + c*across + k*along. round: to bfloat16 */
    void (*pack)(float *target, int width, const void *data, cpu_dtype dtype, int64_t across, int64_t along,
                 int64_t count, int64_t k0, int64_t k1, bool round);
    /* A's second form: elements (r, k) at data + r*stride + k, `rows` of `height` are there; whole blocks are written. */
    void (*pack_rows)(float *target, int height, const void *data, cpu_dtype dtype, int64_t stride, int64_t rows,
                      int64_t k0, int64_t k1, bool round);
    /* tile: rows x cols sums (already times alpha) with row stride `stride`; overwritten */
    void (*finish)(const gemm_finish *f, float *tile, int64_t stride, int64_t i, int64_t j, int64_t rows, int64_t cols);
    /* Adds the squares of rows x cols elements to `lanes`. */
    void (*squares)(double *lanes, const float *c, int64_t stride, int64_t rows, int64_t cols);
    /* y[r] = sum over k of w(r, :) x, for rows whose elements are neighbours in k (`along`) or across rows */
    void (*dot_rows)(float *y, const void *w, cpu_dtype dtype, int64_t stride, const float *x, int64_t rows, int64_t k,
                     bool round);
    void (*sum_columns)(float *y, const void *w, cpu_dtype dtype, int64_t stride, const float *x, int64_t count,
                        int64_t k, bool round);
    void (*load_strided)(float *y, const void *x, cpu_dtype dtype, int64_t step, int64_t count, bool round);
} gemm_kernels;

extern const gemm_kernels gemm_kernels_plain;
#if defined(__x86_64__)
extern const gemm_kernels gemm_kernels_avx2, gemm_kernels_avx512, gemm_kernels_avx512_bf16;
#elif defined(__aarch64__)
extern const gemm_kernels gemm_kernels_neon;
#endif

const gemm_kernels *gemm_kernels_of(cpu_isa isa); /* those for fp32 */

#endif
