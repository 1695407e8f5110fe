/* SPDX-License-Identifier: MIT
 * The gemm kernels of an instruction set: packing, microtiles, the finishing of a tile, and matrix-vector kernels.
 * gemm/gemm.h shows the loops around the tiles.
 *
 * Packed operands consist of 32-bit words: one fp32 number, or two neighbours in k as bfloat16 if the machine
 * multiplies those (pair = 2). Below, k is counted in words: kw = ceil(k / pair).
 *   A: panels of `mr` rows (the last one of fewer, rounded up to `row_step`), each [kw][height], or, in quads,
 *      [kw / 4][height][4], for an A with neighbours along k: groups of four are copied and not transposed
 *   B: panels of `nr` columns, each [kw][nr]
 * A panel has space for kw rounded up to 16. Rows and columns beyond the matrix are zero.
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
    GEMM_STRIP = 16, /* elements of k that all panels pack before they continue with the next, if k is not contiguous */
    GEMM_TILE_MAX = 16 * 64,
    GEMM_LANES = 16 /* at least the lanes of a vector */
};

/* How a tile's sums are finished: they become partial sums, or C = sums (+ C) (+ residual). */
typedef struct gemm_finish {
    cpu_matrix_view c, residual;
    bool accumulate, has_residual; /* C is added; the residual is added */
    float *partial;                /* sums of the previous k blocks, fp32, in C itself or in scratch */
    int64_t partial_stride;
    bool first, last;    /* whether this is the first and the last k block */
    bool residual_first; /* the residual is added in the first k block */
    double *squares;     /* GEMM_LANES sums per streamed panel; NULL if not wanted, or not in this pass */
} gemm_finish;

/* Memory that is needed soon. It is prefetched line by line while a tile is computed, in two alternating streams with
 * steps of `step` bytes. */
typedef struct gemm_next {
    const char *at;
    int64_t step, second; /* second: offset of the second stream from the first */
    const float *row;     /* the first row of the memory to which the tile's sums are added or written */
    int64_t row_step;     /* floats to the next row */
    const float *addend;  /* what the sums are added to, with C's stride; NULL for C itself */
    float *put; /* destination for words of other panels, whose copying replaces the two streams; NULL for no copying */
    int64_t put_step; /* bytes from one of those panels to the next */
} gemm_next;

/* c[r * ldc + j] = alpha * sum (+ c, or the addend) for `height` rows and nr columns */
typedef void (*gemm_tile)(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add,
                          const gemm_next *fetch);

/* Like gemm_tile, for a full panel of A in quads that is packed on the fly, from fp32 or fp16. `a` is written (the
 * whole panel except its padding) and then read as a tile reads it. Element (r, k) is k elements after source +
 * r*stride, stride in bytes. kw is a multiple of GEMM_QUAD. */
typedef void (*gemm_pack_a_tile)(float *a, const void *source, int64_t stride, const float *b, int64_t kw, float *c,
                                 int64_t ldc, float alpha, bool add, const gemm_next *fetch);

/* Like gemm_tile, for a full panel of B that is packed on the fly: `b` is written. Element (k, j) is j elements after
 * source + k*stride. */
typedef void (*gemm_pack_b_tile)(const float *a, float *b, const void *source, int64_t stride, int64_t kw, float *c,
                                 int64_t ldc, float alpha, bool add, const gemm_next *fetch);

/* A pack_next_tile computes a full tile with A not in quads and also packs part of the next block of A. fetch->put must
 * be set. For kw / 16 values of k, `step` bytes apart, it converts the mr words of each of GEMM_PASS_PANELS adjacent
 * panels from fetch->at to fp32 and stores them at fetch->put. It prefetches `second` bytes ahead. kw is a multiple of
 * GEMM_BLOCK. */
enum { GEMM_PASS_PANELS = 4 };

typedef struct cpu_gemm_kernels {
    int mr, nr, row_step, pair;
    gemm_tile tiles[8];                                  /* [height / row_step - 1] */
    gemm_tile quad_tiles[8];                             /* the same for A in quads */
    gemm_pack_a_tile pack_a_tile, pack_a_tile_f16;       /* from fp32, from fp16; NULL if A must be packed before */
    gemm_pack_b_tile pack_b_tile[2], pack_b_tile_f16[2]; /* [A in quads]; NULL if B must be packed before */
    gemm_tile pack_next_tile, pack_next_tile_f16;        /* NULL if no tile packs the next block */
    /* Packs one panel of `width` rows of A (or columns of B), of which `count` exist. Element (k, c) is at data +
     * c*across + k*along. `round` means to round to bfloat16. */
    void (*pack)(float *target, int width, const void *data, cpu_dtype dtype, int64_t across, int64_t along,
                 int64_t count, int64_t k0, int64_t k1, bool round);
    /* Packs a panel of A in quads. Element (r, k) is at data + r*stride + k, and `rows` of `height` exist. Whole blocks
     * are written. */
    void (*pack_quads)(float *target, int height, const void *data, cpu_dtype dtype, int64_t stride, int64_t rows,
                       int64_t k0, int64_t k1, bool round);
    /* Finishes a tile of rows x cols sums, already multiplied by alpha, with row stride `stride`. `tile` is
     * overwritten. */
    void (*finish)(const gemm_finish *f, float *tile, int64_t stride, int64_t i, int64_t j, int64_t rows, int64_t cols);
    /* Adds the squares of rows x cols elements to `lanes`. */
    void (*squares)(double *lanes, const float *c, int64_t stride, int64_t rows, int64_t cols);
    /* y[r] = sum over k of w(r, k) x[k]. dot_rows is for rows that are contiguous along k, sum_columns for a w that is
     * contiguous across rows. */
    void (*dot_rows)(float *y, const void *w, cpu_dtype dtype, int64_t stride, const float *x, int64_t rows, int64_t k,
                     bool round);
    void (*sum_columns)(float *y, const void *w, cpu_dtype dtype, int64_t stride, const float *x, int64_t count,
                        int64_t k, bool round);
    void (*load_strided)(float *y, const void *x, cpu_dtype dtype, int64_t step, int64_t count, bool round);
} cpu_gemm_kernels;

#endif
