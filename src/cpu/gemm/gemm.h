/* SPDX-License-Identifier: MIT
 * Matrix products: C = alpha * A * B + (accumulate ? C : 0) + residual, for one product or a batch, in one parallel
 * loop of core/base/pool.h.
 *
 *     for each pass of k           kc            the last pass writes C; partial sums are in C or in scratch
 *       pack the stationary operand              all threads together, once
 *       for each streamed block    nc or mc      tasks: packed into the thread's memory, read from L2
 *         for each stationary panel  mr or nr
 *           for each streamed panel  nr or mr    read from L1
 *             microtile: mr x nr sums in registers, over kc
 *
 * Usually, the stationary operand is the one that is already packed or that a batch shares, or else A if C is at least
 * as wide as tall. If A is stationary, blocks are nc columns of B, else mc rows of A. The context has these sizes in
 * cpu_gemm_sizes, and mr and nr in cpu_gemm_kernels. If possible, the streamed operand is packed on the fly: by the
 * first tile that reads a panel, or by the tiles of the previous block.
 *
 * Nothing is allocated: the caller provides cpu_gemm_scratch_bytes() of 64-byte aligned memory, queried once when a
 * program is planned. The order of the sums depends only on the shape and the instruction set, never on the number of
 * threads, so 1 and 64 threads produce the same bits. Operands are not checked, because planner and kernels belong to
 * one driver. C must not overlap A or B (the residual may be C's memory if their elements coincide).
 */
#ifndef CPU_GEMM_GEMM_H
#define CPU_GEMM_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/simd/kernels.h"

/* Weights of m rows in a format that only gemv reads directly (gemv_ukernel.h). A matrix product converts them to fp32
 * while it packs them. */
typedef struct cpu_stored {
    cpu_weights format; /* any but F32 and F16 */
    int64_t k;
    const void *data;
    const uint16_t *scales; /* NULL if the format has none */
} cpu_stored;

/* A matrix in memory: element (i, j) of batch item b is at data + b*batch_stride + i*row_stride + j*col_stride, all
 * counted in elements. Products are fast if row_stride or col_stride is 1. To transpose a matrix, swap these strides.
 * Any strides work; for A and B, even 0 (broadcast). */
typedef struct cpu_matrix {
    const void *data; /* C is written, so its memory must not be const */
    cpu_dtype dtype;
    int64_t row_stride, col_stride, batch_stride;
    const void *const *batch; /* if not NULL, item b begins at batch[b] instead; data and batch_stride are not used */
    const int64_t *pieces;    /* byte offsets of pieces, for A or B of a product whose k is split; see cpu_gemm */
    /* A or B as packed by cpu_gemm_pack; data, strides and dtype are then not used. NULL if not packed. */
    const void *packed;
    /* For A with batch 1 and k >= 2: weights that replace data; the strides are k and 1. NULL otherwise. */
    const cpu_stored *stored;
} cpu_matrix;

#define CPU_GEMM_PIECE 32

typedef struct cpu_gemm {
    const cpu_kernels *kernels;
    int threads; /* maximum used at once; 0 means all of the pool */
    /* Operands are rounded to bfloat16 (nearest even) before multiplying; sums stay fp32. Kernels use vdpbf16ps if the
     * processor has it. */
    bool bf16;
    int64_t m, n, k, batch; /* [m,k] x [k,n], `batch` times; any may be 0 (the product is zero if k = 0) */
    cpu_matrix a, b, c;
    /* If not 0, k is divided into pieces of this many elements (a multiple of CPU_GEMM_PIECE), each at its own address.
     * Element k of A (and of B) is `pieces[k / piece]` bytes after the address that element k % piece has relative to
     * `data`. */
    int64_t piece;
    float alpha;
    bool accumulate;
    const cpu_matrix *residual; /* [m, n], added to the result; may be C; NULL if there is none */
    /* If not NULL, receives the sum of the squares of the final C, which must be fp32 and have one item. Usually
     * computed while C is in L1, in fp32 within a tile and in double over the tiles. */
    double *squares;
    /* If not NULL, the product that runs next. The last tasks of this product prefetch the part of A that the first
     * tasks of that product read. */
    const struct cpu_gemm *next;
} cpu_gemm;

/* Returns the scratch size in bytes of cpu_gemm_run with that many threads (pool_threads()). May be 0. */
size_t cpu_gemm_scratch_bytes(const cpu_gemm *g, int threads);
void cpu_gemm_run(const cpu_gemm *g, void *scratch);

/* Packs operands that rarely change (weights) beforehand. The batch must be 1, or all items must share the operand
 * (batch_stride 0). The format depends on kernels, bf16, m, n and k of `g`, which must be the same in the run. `packed`
 * is 64-byte aligned. */
typedef enum cpu_gemm_side { CPU_GEMM_A, CPU_GEMM_B } cpu_gemm_side;
size_t cpu_gemm_pack_bytes(const cpu_gemm *g,
                           cpu_gemm_side side); /* 0 if such a product is not packed; then leave `packed` NULL */
void cpu_gemm_pack(const cpu_gemm *g, cpu_gemm_side side, void *packed);

#endif
