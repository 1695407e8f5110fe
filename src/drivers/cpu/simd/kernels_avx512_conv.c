/* SPDX-License-Identifier: MIT
 * The avx512 version of the kernels of conv.h, in terms of vec_avx512.h. Apart from kernels_avx512.c: they take a compiler as
 * long as all others together.
 */
#if defined(__x86_64__)
#include "drivers/cpu/simd/vec_avx512.h"

#include "drivers/cpu/simd/vec_common.h"

#define CONV_NAME cpu_conv_kernels_avx512
#define CONV_HALF 7
#define CONV_NRV  2
#include "drivers/cpu/simd/body/conv_body.h"
#else
typedef int kernels_avx512_channels_absent; /* ISO C wants a declaration in each file */
#endif
