/* SPDX-License-Identifier: MIT
 * The kernels' neon version: the bodies in terms of vec_neon.h.
 */
#if defined(__aarch64__)
#include "drivers/cpu/simd/vec_neon.h"

#include "drivers/cpu/simd/vec_common.h"

#define GEMM_NAME       gemm_kernels_neon
#define GEMM_HEIGHTS(X) X(4) X(8)
#define GEMM_STEP       4
#define GEMM_MR         8
#define GEMM_NRV        3
#define GEMM_PAIR       1
#include "drivers/cpu/simd/body/gemm_body.h"

#define ATTENTION_NAME attention_kernels_neon
#include "drivers/cpu/simd/body/attention_body.h"

#define ATTENTION_DECODE_NAME attention_decode_neon
#include "drivers/cpu/simd/body/attention_decode_body.h"

#define GEMV_NAME cpu_gemv_kernels_neon
#include "drivers/cpu/simd/body/gemv_body.h"

#define ELEMENTWISE_NAME cpu_elementwise_kernels_neon
#include "drivers/cpu/simd/body/elementwise_body.h"

#define REDUCE_NAME cpu_reduce_kernels_neon
#include "drivers/cpu/simd/body/reduce_body.h"
#else
typedef int kernels_neon_absent; /* ISO C wants a declaration in each file */
#endif
