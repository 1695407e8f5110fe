/* SPDX-License-Identifier: MIT
 * The kernels' avx512 version: the bodies in terms of vec_avx512.h.
 */
#if defined(__x86_64__)
#include "drivers/cpu/simd/vec_avx512.h"

#include "drivers/cpu/simd/vec_common.h"

#include "drivers/cpu/simd/body/gemm_tile_avx512.h"

#define GEMM_NAME            gemm_kernels_avx512
#define GEMM_HEIGHTS_IN_C(X) X(2) X(4) X(6) X(8) X(10) X(12)
#define GEMM_HEIGHTS(X)      GEMM_HEIGHTS_IN_C(X) X(14)
#define GEMM_STEP            2
#define GEMM_MR              14
#define GEMM_NRV             2
#define GEMM_PAIR            1
#define GEMM_COPY_TILE       copy_rows_14
#define GEMM_COPY_TILE_F16   copy_rows_14_f16
#define GEMM_PASS_TILE       pass_14
#define GEMM_PASS_TILE_F16   pass_14_f16
#include "drivers/cpu/simd/body/gemm_body.h"

#define ATTENTION_NAME attention_kernels_avx512
#include "drivers/cpu/simd/body/attention_body.h"

#define ATTENTION_DECODE_NAME attention_decode_avx512
#include "drivers/cpu/simd/body/attention_decode_body.h"

#define GEMV_NAME cpu_gemv_kernels_avx512
#include "drivers/cpu/simd/body/gemv_body.h"

#define ELEMENTWISE_NAME cpu_elementwise_kernels_avx512
#include "drivers/cpu/simd/body/elementwise_body.h"

#define REDUCE_NAME cpu_reduce_kernels_avx512
#include "drivers/cpu/simd/body/reduce_body.h"
#else
typedef int kernels_avx512_absent; /* ISO C wants a declaration in each file */
#endif
