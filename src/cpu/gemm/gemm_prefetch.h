/* SPDX-License-Identifier: MIT
 * What a thread does for its next block while it computes tiles of the current one.
 */
#ifndef CPU_GEMM_GEMM_PREFETCH_H
#define CPU_GEMM_GEMM_PREFETCH_H

#include "cpu/gemm/gemm_blocking.h"

/* The block that this thread will most likely take next. Tiles prefetch its source and copy it, or it is packed between
 * tiles, a few of its panels or of its k at a time, once they have arrived. A tile can prefetch lines along k, of two
 * rows, or lines across k, two per k. */
typedef struct gemm_prefetch {
    const char *base; /* NULL if nothing is prefetched */
    bool along;
    int64_t step, lines; /* bytes to the next row or the next k; number of rows, or of lines per k */
    int64_t tile, share; /* counts tiles; how many k of two lines each tile takes */
    cpu_matrix_view view;
    int64_t from, to, k0, k1;
    float *words;   /* where it is packed; NULL if it is not packed here */
    int64_t packed; /* panels, or k, packed so far */
    gemm_tile pass; /* tile that copies a part of all its panels; NULL if it is packed between tiles */
} gemm_prefetch;

/* Describes the panels of block `block` of the streamed operand `v`, in the pass k0 .. k1, prepared during tiles whose
 * pass has `now` of k. `words` is where they are to be packed; NULL only prefetches them. */
gemm_prefetch gemm_prefetch_of(const gemm_plan *p, const cpu_matrix_view *v, int64_t block, int64_t k0, int64_t k1,
                               int64_t now, float *words);
/* Returns what the next tile prefetches or copies: from the next block, or from `own` if nothing is left. `full` means
 * that its panel is full. */
gemm_next gemm_prefetch_next(const gemm_plan *p, gemm_prefetch *h, const void *own, bool full);
/* Packs what has been prefetched of A, or everything that is left if `all`. */
void gemm_prefetch_pack(const gemm_plan *p, gemm_prefetch *h, bool all);

#endif
