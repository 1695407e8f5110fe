/* SPDX-License-Identifier: MIT
 * The kernels of AVX-512 F, BW, DQ and VL, with FMA and F16C, and integer products if the machine has VNNI.
 */
#include "cpu/simd/kernels.h"

#if defined(__x86_64__)
#include "cpu/simd/vec_avx512.h"

#include "cpu/simd/vec_common.h"

#define KERNEL_ISA avx512
#define GEMM_TYPE  f32
#include "cpu/simd/body/gemm_tile_avx512.h"

#define GEMM_HEIGHTS_IN_C(X) X(2) X(4) X(6) X(8) X(10) X(12)
#define GEMM_HEIGHTS(X)      GEMM_HEIGHTS_IN_C(X) X(14)
#define GEMM_STEP            2
#define GEMM_MR              14
#define GEMM_NRV             2
#define GEMM_NR              32
#define GEMM_PAIR            1
#define GEMM_PACKING         1
#define CONV_HALF            7
#define CONV_NRV             2
#define CONV_NR              32
#include "cpu/simd/body/every_body.h"

bool cpu_kernels_avx512(cpu_kernels *k) {
    if (!cpu_isa_available(CPU_ISA_AVX512)) return false;
    every_kernel(k);
    cpu_kernels_avx512_vnni(k);
    return true;
}
#else
bool cpu_kernels_avx512(cpu_kernels *k) {
    (void)k;
    return false;
}
#endif
