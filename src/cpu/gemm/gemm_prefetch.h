/* SPDX-License-Identifier: MIT
 * What a thread does for its next block while it computes tiles of this one.
 */
#ifndef CPU_GEMM_GEMM_PREFETCH_H
#define CPU_GEMM_GEMM_PREFETCH_H

#include "cpu/gemm/gemm_blocking.h"

/* The block that this thread will most likely take next: tiles fetch what it is packed from, and they copy it, or
 * between them it is packed, a few of its panels or of its k at a time, as they have come. A tile can fetch lines along
 * k, two rows, or lines across, two of each k. */
typedef struct gemm_prefetch {
    const char *base; /* NULL: nothing is fetched */
    bool along;
    int64_t step, lines; /* bytes to the next row or the next k; rows or lines of a k */
    int64_t tile, share; /* counts tiles; how many k of two lines each of them takes */
    cpu_matrix_view view;
    int64_t from, to, k0, k1;
    float *words;   /* where it is packed; NULL: not here */
    int64_t packed; /* panels, or k, so far */
    gemm_tile pass; /* tiles that copy a part of all its panels each; NULL: it is packed between tiles */
} gemm_prefetch;

/* Panels of block `block` of the streamed operand `v`, in the pass k0 .. k1, beside tiles whose pass has `now` of k.
 * `words`: where they are to be packed; NULL: only fetched. */
gemm_prefetch gemm_prefetch_of(const gemm_plan *p, const cpu_matrix_view *v, int64_t block, int64_t k0, int64_t k1,
                               int64_t now, float *words);
/* What the next tile fetches or copies: of the block ahead, or, if nothing is left, at `own`. `full`: it is one of a
 * full panel. */
gemm_next gemm_prefetch_next(const gemm_plan *p, gemm_prefetch *h, const void *own, bool full);
/* Packs what has been fetched, of A; `all`: what is left. */
void gemm_prefetch_pack(const gemm_plan *p, gemm_prefetch *h, bool all);

#endif
