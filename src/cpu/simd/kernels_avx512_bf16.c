/* SPDX-License-Identifier: MIT
 * The kernels of AVX-512 with AVX512_BF16. This set has separate matrix products for operands that are rounded to
 * bfloat16. All other kernels are those of AVX-512.
 */
#include "cpu/simd/kernels.h"

#if defined(__x86_64__)
#define VEC_EXTRA_TARGET ",avx512bf16"
#include "cpu/simd/body/gemm_bf16_avx512.h"

bool cpu_kernels_avx512_bf16(cpu_kernels *k) {
    if (!cpu_isa_available(CPU_ISA_AVX512_BF16) || !cpu_kernels_avx512(k)) return false;
    k->gemm_bf16 = KERNEL(gemm, bf16);
    return true;
}
#else
bool cpu_kernels_avx512_bf16(cpu_kernels *k) {
    (void)k;
    return false;
}
#endif
