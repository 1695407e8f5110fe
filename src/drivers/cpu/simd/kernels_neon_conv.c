/* SPDX-License-Identifier: MIT
 * The neon version of the kernels of conv.h, in terms of vec_neon.h. Apart from kernels_neon.c: they take a compiler as
 * long as all others together.
 */
#if defined(__aarch64__)
#include "drivers/cpu/simd/vec_neon.h"

#include "drivers/cpu/simd/vec_common.h"

#define CONV_NAME cpu_conv_kernels_neon
#define CONV_HALF 4
#define CONV_NRV  3
#include "drivers/cpu/simd/body/conv_body.h"
#else
typedef int kernels_neon_channels_absent; /* ISO C wants a declaration in each file */
#endif
