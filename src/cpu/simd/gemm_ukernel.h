/* SPDX-License-Identifier: MIT
 * What gemm needs of an instruction set: packing, microtiles, the finishing of a tile, and matrix-vector kernels. The
 * loops around the tiles are drawn in gemm/gemm.h.
 *
 * Packed operands consist of 32-bit words: one fp32 number, or two neighbours in k as bfloat16 where the machine
 * multiplies those (pair = 2). k is counted in words from here on: kw = ceil(k / pair).
 *   A: panels of `mr` rows (the last one of fewer, rounded up to `row_step`), each [kw][height], or, in quads,
 *      [kw / 4][height][4]: for an A with neighbours along k, whose fours are copied and need not be transposed
 *   B: panels of `nr` columns, each [kw][nr]
 * A panel has room for kw rounded up to 16. Rows and columns beyond the matrix are zeros.
 */
#ifndef CPU_SIMD_GEMM_UKERNEL_H
#define CPU_SIMD_GEMM_UKERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/simd/element.h"

enum {
    GEMM_BLOCK = 16,
    GEMM_QUAD = 4,
    GEMM_STRIP = 16, /* elements of k that all panels pack before they go on to the next, where k is not contiguous */
    GEMM_TILE_MAX = 16 * 64,
    GEMM_LANES = 16 /* at least the lanes of a vector */
};

/* What becomes of a tile's sums: partial sums, or C = sums (+ C) (+ residual). */
typedef struct gemm_finish {
    cpu_matrix_view c, residual;
    bool accumulate, has_residual; /* C, the residual is added */
    float *partial; /* sums of the k blocks before, fp32; C itself or scratch; NULL: there is one k block only */
    int64_t partial_stride;
    bool first, last;    /* k blocks */
    bool residual_first; /* added in the first of them */
    double *squares;     /* GEMM_LANES sums for each streamed panel; NULL: not wanted, or not in this pass */
} gemm_finish;

/* Memory that is needed soon, fetched line by line while a tile is computed: two streams of `step` bytes in turn. */
typedef struct gemm_next {
    const char *at;
    int64_t step, second; /* where the second stream begins, after the first */
    const float *row;     /* and the first row of what the tile's sums are added to or written over, */
    int64_t row_step;     /* floats to the next */
    const float *addend;  /* what the sums are added to, with C's stride; NULL: C itself */
    float *put;           /* instead of two streams: where words of other panels are copied to; NULL: nowhere */
    int64_t put_step;     /* bytes from one of those panels to the next */
} gemm_next;

/* c[r * ldc + j] = alpha * sum (+ c, or the addend) for `height` rows and nr columns */
typedef void (*gemm_tile)(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add,
                          const gemm_next *fetch);

/* The same for a full panel of A in quads that is packed on the fly, from fp32 or fp16: `a` is written (the whole panel
 * but for its padding) and then read as a tile reads it. Element (r, k) is k elements after source + r*stride, stride
 * in bytes; kw is a multiple of GEMM_QUAD. */
typedef void (*gemm_pack_a_tile)(float *a, const void *source, int64_t stride, const float *b, int64_t kw, float *c,
                                 int64_t ldc, float alpha, bool add, const gemm_next *fetch);

/* The same for a full panel of B that is packed on the fly: `b` is written. Element (k, j) is j elements after
 * source + k*stride. */
typedef void (*gemm_pack_b_tile)(const float *a, float *b, const void *source, int64_t stride, int64_t kw, float *c,
                                 int64_t ldc, float alpha, bool add, const gemm_next *fetch);

/* `pack_next`: computes a full tile, A not in quads, and, where fetch->put is set, packs part of the next block of A
 * beside it: for kw / 16 values of k, `step` bytes apart, it converts the mr words of each of GEMM_PASS_PANELS adjacent
 * panels from fetch->at on to fp32 and stores them at fetch->put. It prefetches `second` bytes ahead. kw is a multiple
 * of GEMM_BLOCK. */
enum { GEMM_PASS_PANELS = 4 };

typedef struct cpu_gemm_kernels {
    int mr, nr, row_step, pair;
    gemm_tile tiles[8];                                  /* [height / row_step - 1] */
    gemm_tile quad_tiles[8];                             /* the same for A in quads */
    gemm_pack_a_tile pack_a_tile, pack_a_tile_f16;       /* from fp32, from fp16; NULL: A is packed before */
    gemm_pack_b_tile pack_b_tile[2], pack_b_tile_f16[2]; /* [A in quads]; NULL: B is packed before */
    gemm_tile pack_next_tile, pack_next_tile_f16;        /* NULL: no tile packs the next block */
    /* One panel of `width` rows of A (or columns of B), of which `count` are there; element (k, c) is at
     * data + c*across + k*along. round: to bfloat16 */
    void (*pack)(float *target, int width, const void *data, cpu_dtype dtype, int64_t across, int64_t along,
                 int64_t count, int64_t k0, int64_t k1, bool round);
    /* A panel of A in quads: elements (r, k) at data + r*stride + k, `rows` of `height` are there; whole blocks are
     * written. */
    void (*pack_quads)(float *target, int height, const void *data, cpu_dtype dtype, int64_t stride, int64_t rows,
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
} cpu_gemm_kernels;

#endif
