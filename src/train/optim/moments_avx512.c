/* SPDX-License-Identifier: MIT
 * The small forms of moments, compiled for AVX-512.
 */
#if defined(__x86_64__)
#define LANES           16
#define MOMENTS_TARGET  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define MOMENTS_KERNELS moments_avx512
#include "train/optim/moments_body.h"
#else
typedef int moments_avx512_is_not_here;
#endif
