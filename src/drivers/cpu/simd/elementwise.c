/* SPDX-License-Identifier: MIT
 * Owns the choice of a table of elementwise and row kernels; the kernels are in elementwise_body.h and reduce_body.h.
 */
#include "drivers/cpu/simd/elementwise.h"

#include "drivers/cpu/simd/kernels.h"
#include "drivers/cpu/simd/reduce.h"

const cpu_map_table *cpu_map_table_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &cpu_map_table_avx2;
    case CPU_ISA_AVX512:
    case CPU_ISA_AVX512_BF16: return &cpu_map_table_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &cpu_map_table_neon;
#endif
    default: return &cpu_map_table_plain;
    }
}

const cpu_rows_table *cpu_rows_table_of(cpu_isa isa) {
    switch (isa) {
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return &cpu_rows_table_avx2;
    case CPU_ISA_AVX512:
    case CPU_ISA_AVX512_BF16: return &cpu_rows_table_avx512;
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return &cpu_rows_table_neon;
#endif
    default: return &cpu_rows_table_plain;
    }
}

const char *cpu_map_name(cpu_map_code code) {
#define NAME(name) [CPU_MAP_##name] = #name,
    static const char *const names[CPU_MAP_COUNT] = {CPU_MAP_UNARY(NAME) CPU_MAP_BINARY(NAME)};
    return code >= 0 && code < CPU_MAP_COUNT ? names[code] : "unknown";
}
