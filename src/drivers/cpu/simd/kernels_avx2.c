/* SPDX-License-Identifier: MIT
 * The kernels' avx2 version: the bodies in terms of vec_avx2.h.
 */
#if defined(__x86_64__)
#include "drivers/cpu/simd/vec_avx2.h"

#include "drivers/cpu/simd/vec_common.h"

#define GEMM_NAME       gemm_kernels_avx2
#define GEMM_HEIGHTS(X) X(2) X(4) X(6)
#define GEMM_STEP       2
#define GEMM_MR         6
#define GEMM_NRV        2
#define GEMM_PAIR       1
#define GEMM_COPIES(X)  X(, 6, 4, v_copy_4, v_copy_6, CPU_F32) X(_f16, 6, 2, v_copy_4_f16, v_copy_6_f16, CPU_F16)
#include "drivers/cpu/simd/body/gemm_body.h"

#define ATTENTION_NAME attention_kernels_avx2
#include "drivers/cpu/simd/body/attention_body.h"

#define ATTENTION_DECODE_NAME attention_decode_avx2
#include "drivers/cpu/simd/body/attention_decode_body.h"

#define GEMV_NAME cpu_gemv_kernels_avx2
#include "drivers/cpu/simd/body/gemv_body.h"

#define ELEMENTWISE_NAME cpu_elementwise_kernels_avx2
#include "drivers/cpu/simd/body/elementwise_body.h"

#define REDUCE_NAME cpu_reduce_kernels_avx2
#include "drivers/cpu/simd/body/reduce_body.h"
#else
typedef int kernels_avx2_absent; /* ISO C wants a declaration in each file */
#endif
