/* SPDX-License-Identifier: MIT
 * The plain version of the kernels of conv.h, in terms of vec_plain.h. Apart from kernels_plain.c: they take a compiler as
 * long as all others together.
 */
#include "drivers/cpu/simd/vec_plain.h"

#include "drivers/cpu/simd/vec_common.h"

#define CONV_NAME cpu_conv_kernels_plain
#define CONV_HALF 2
#define CONV_NRV  4
#include "drivers/cpu/simd/body/conv_body.h"
