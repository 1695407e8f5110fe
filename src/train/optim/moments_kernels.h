/* SPDX-License-Identifier: MIT
 * The functions for the small forms of moments that each instruction set provides to moments.c. Each set has one file,
 * which includes moments_body.h.
 */
#ifndef TRAIN_OPTIM_MOMENTS_KERNELS_H
#define TRAIN_OPTIM_MOMENTS_KERNELS_H

#include "train/optim/moments.h"

typedef struct moments_kernels {
    void (*load)(const moments *m, int64_t begin, int64_t count, float *out);
    void (*store)(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key);
    /* Loads a whole block of both moments. */
    void (*load_two)(const moments_pair *p, int64_t at, float *x1, float *x2);
    void (*store_two)(const moments_pair *p, int64_t at, const float *x1, const float *x2, uint32_t key);
} moments_kernels;

extern const moments_kernels moments_plain; /* 128 bits: NEON, SSE2 */
#if defined(__x86_64__)
extern const moments_kernels moments_avx2, moments_avx512;
#endif

#endif
