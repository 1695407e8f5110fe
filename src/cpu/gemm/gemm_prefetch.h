/* SPDX-License-Identifier: MIT
 * Prepares a thread's next block (prefetching, copying, packing) while the thread computes tiles of the current one.
 */
#ifndef CPU_GEMM_GEMM_PREFETCH_H
#define CPU_GEMM_GEMM_PREFETCH_H

#include "cpu/gemm/gemm_blocking.h"

/* The block that a thread will most likely compute next. Tiles prefetch the block's source. They also copy it, or it is
 * packed between tiles, a few panels or elements of k at a time, once these have arrived. A tile can prefetch lines
 * along k of two rows, or two lines across k per element of k. */
typedef struct gemm_prefetch {
    const char *base; /* NULL if nothing is prefetched */
    bool along;
    int64_t step, lines; /* bytes to the next row or the next k; number of rows, or of lines per k */
    int64_t tile, share; /* tiles so far; elements of k whose two lines each tile prefetches */
    cpu_matrix_view view;
    int64_t from, to, k0, k1;
    float *words;   /* receives the packed block; NULL if the block is only prefetched */
    int64_t packed; /* panels, or elements of k, packed so far */
    /* Tile that also copies a part of GEMM_PASS_PANELS panels; NULL if the block is packed between tiles. */
    gemm_tile pass;
} gemm_prefetch;

/* Describes the panels of block `block` of the streamed operand `v` in the pass k0 .. k1. They are prepared during
 * tiles of a pass with `now` elements of k. `words` receives the packed panels; if it is NULL, they are only
 * prefetched. */
gemm_prefetch gemm_prefetch_of(const gemm_plan *p, const cpu_matrix_view *v, int64_t block, int64_t k0, int64_t k1,
                               int64_t now, float *words);
/* Returns what the next tile prefetches or copies: a part of the next block, or `own` if nothing is left. `full` means
 * that the tile's panel is full. */
gemm_next gemm_prefetch_next(const gemm_plan *p, gemm_prefetch *h, const void *own, bool full);
/* Packs what has been prefetched of A, or everything that is left if `all`. */
void gemm_prefetch_pack(const gemm_plan *p, gemm_prefetch *h, bool all);

#endif
