/* SPDX-License-Identifier: MIT
 * The small forms of moments, compiled for AVX2.
 */
#if defined(__x86_64__)
#define LANES           8
#define MOMENTS_TARGET  __attribute__((target("avx2")))
#define MOMENTS_KERNELS moments_avx2
#include "train/optim/moments_body.h"
#else
typedef int moments_avx2_is_not_here;
#endif
