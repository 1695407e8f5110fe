/* SPDX-License-Identifier: MIT
 * Matrix products: C = alpha * A * B + (accumulate ? C : 0) + residual, for one product or a batch of them, in one
 * parallel loop of core/base/pool.h.
 *
 *
 *     for each pass of k           kc            C is written in the last one; partial sums lie in C or in scratch
 *       pack the stationary operand              all threads together, once for all
 *       for each streamed block    nc or mc      tasks: packed into the thread's own memory, read from L2
 *         for each stationary panel  mr or nr
 *           for each streamed panel  nr or mr    read from L1
 *             microtile: mr x nr sums in registers, over kc
 *
 * The stationary operand is A if C is at least as wide as tall, or whichever operand a batch shares; then blocks are nc
 * columns of B, else mc rows of A. Sizes are in the context (cpu_gemm_sizes), mr and nr in cpu_gemm_kernels. The
 * streamed operand is packed on the fly where it can be: by the first tile that reads a panel, or by the tiles of the
 * block before.
 *
 * Nothing is allocated: the caller gives cpu_gemm_scratch_bytes() of 64-byte aligned memory, asked for once when a
 * program is planned. The sums' order depends on the shape and the instruction set alone, never on the number of
 * threads, so the results of 1 and of 64 threads have the same bits. Operands are not checked: planner and kernels are
 * one driver. C must not overlap A or B (the residual may be C's own memory, element on element).
 */
#ifndef CPU_GEMM_GEMM_H
#define CPU_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/simd/kernels.h"

/* Weights of m rows in a form that only gemv reads as it is (gemv_ukernel.h): rows become fp32 while they are
 * packed. */
typedef struct cpu_stored {
    cpu_weights format; /* any but F32 and F16 */
    int64_t k;
    const void *data;
    const uint16_t *scales; /* NULL: the format has none */
} cpu_stored;

/* A matrix in memory: element (i, j) of batch item b is at data + b*batch_stride + i*row_stride + j*col_stride, all
 * counted in elements. Fast when row_stride or col_stride is 1 (a transposed matrix is one with the strides swapped);
 * any strides work, also 0 (broadcast) for A and B. */
typedef struct cpu_matrix {
    const void *data; /* C: written, so it must not be const memory */
    cpu_dtype dtype;
    int64_t row_stride, col_stride, batch_stride;
    const void *const *batch; /* not NULL: item b begins at batch[b] instead; data and batch_stride are not used */
    const int64_t *pieces;    /* A or B of a product whose k is cut in pieces; see cpu_gemm */
    const void *packed;       /* A or B: made by cpu_gemm_pack; then data, strides and dtype are not used. NULL: not */
    const cpu_stored *stored; /* A, batch 1, k at least 2: where its elements come from instead; strides are k and 1 */
} cpu_matrix;

#define CPU_GEMM_PIECE 32

typedef struct cpu_gemm {
    const cpu_kernels *kernels;
    int threads; /* at most that many at once; 0: all of the pool */
    /* operands are rounded to bfloat16 (nearest even) before multiplying; sums stay fp32. vdpbf16ps where it is */
    bool bf16;
    int64_t m, n, k, batch; /* [m,k] x [k,n], `batch` times; any of them may be 0 (k = 0: the product is zero) */
    cpu_matrix a, b, c;
    /* Not 0: k consists of pieces of that many elements (a multiple of CPU_GEMM_PIECE), each somewhere else: element k
     * of A (and of B) lies `pieces[k / piece]` bytes behind where element k % piece of the first would. */
    int64_t piece;
    float alpha;
    bool accumulate;
    const cpu_matrix *residual; /* [m, n], added to what C becomes; may be C; NULL: none */
    /* Not NULL: becomes the sum of the squares of all that C holds in the end, which must be fp32 and of one item.
     * Taken while it is in L1: in fp32 inside of a tile, in double over the tiles. */
    double *squares;
    /* Not NULL: the product that runs behind this one. What its tasks read of A first is fetched during the last of
     * this one's. */
    const struct cpu_gemm *next;
} cpu_gemm;

/* Scratch for cpu_gemm_run with that many threads (pool_threads()); 0 is possible. */
size_t cpu_gemm_scratch_bytes(const cpu_gemm *g, int threads);
void cpu_gemm_run(const cpu_gemm *g, void *scratch);

/* Operands that change rarely (weights) can be packed beforehand; only for batch 1 or an operand that all items share
 * (batch_stride 0). The form depends on kernels, bf16, m, n and k of `g`, which must be the same in the run. 64-byte
 * aligned. */
typedef enum cpu_gemm_side { CPU_GEMM_A, CPU_GEMM_B } cpu_gemm_side;
size_t cpu_gemm_pack_bytes(const cpu_gemm *g,
                           cpu_gemm_side side); /* 0: this shape does not pack (gemv): leave packed NULL */
void cpu_gemm_pack(const cpu_gemm *g, cpu_gemm_side side, void *packed);

#endif
