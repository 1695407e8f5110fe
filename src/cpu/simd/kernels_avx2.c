/* SPDX-License-Identifier: MIT
 * The kernels of AVX2, with FMA and F16C.
 */
#include "cpu/simd/kernels.h"

#if defined(__x86_64__)
#include "cpu/simd/vec_avx2.h"

#include "cpu/simd/vec_common.h"

#define KERNEL_ISA      avx2
#define GEMM_TYPE       f32
#define GEMM_HEIGHTS(X) X(2) X(4) X(6)
#define GEMM_STEP       2
#define GEMM_MR         6
#define GEMM_NRV        2
#define GEMM_NR         16
#define GEMM_PAIR       1
#define GEMM_COPIES(X)  X(f32, 6, 4, v_copy_4, v_copy_6, CPU_F32) X(f16, 6, 2, v_copy_4_f16, v_copy_6_f16, CPU_F16)
#define CONV_HALF       3
#define CONV_NRV        2
#define CONV_NR         16
#include "cpu/simd/body/every_body.h"

bool cpu_kernels_avx2(cpu_kernels *k) {
    if (!cpu_isa_available(CPU_ISA_AVX2)) return false;
    every_kernel(k);
    return true;
}
#else
bool cpu_kernels_avx2(cpu_kernels *k) {
    (void)k;
    return false;
}
#endif
