/* SPDX-License-Identifier: MIT
 * Owns the choice of a table of elementwise and row kernels; the kernels are in elementwise_body.h and reduce_body.h.
 */
#include "drivers/cpu/simd/elementwise.h"

#include "drivers/cpu/simd/kernels.h"
#include "drivers/cpu/simd/reduce.h"

const cpu_elementwise_kernels *cpu_elementwise_kernels_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &cpu_elementwise_kernels_avx2;
    case CPU_ISA_AVX512:
    case CPU_ISA_AVX512_BF16: return &cpu_elementwise_kernels_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &cpu_elementwise_kernels_neon;
#endif
    default: return &cpu_elementwise_kernels_plain;
    }
}

const cpu_reduce_kernels *cpu_reduce_kernels_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &cpu_reduce_kernels_avx2;
    case CPU_ISA_AVX512:
    case CPU_ISA_AVX512_BF16: return &cpu_reduce_kernels_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &cpu_reduce_kernels_neon;
#endif
    default: return &cpu_reduce_kernels_plain;
    }
}

const char *cpu_elementwise_name(cpu_elementwise_code code) {
#define NAME(name) [CPU_ELEMENTWISE_##name] = #name,
    static const char *const names[CPU_ELEMENTWISE_COUNT] = {CPU_ELEMENTWISE_UNARY(NAME) CPU_ELEMENTWISE_BINARY(NAME)};
    return code >= 0 && code < CPU_ELEMENTWISE_COUNT ? names[code] : "unknown";
}
