/* SPDX-License-Identifier: MIT
 * Owns the choice of instruction set: what the machine has, and what PROPANE_ISA asks for.
 */
#include "drivers/cpu/simd/isa.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[CPU_ISA_COUNT] = {"plain", "avx2", "avx512", "avx512_bf16", "neon"};

const char *cpu_isa_name(cpu_isa isa) { return isa >= 0 && isa < CPU_ISA_COUNT ? names[isa] : "unknown"; }

#if defined(__x86_64__)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

bool cpu_isa_available(cpu_isa isa) {
    switch (isa) {
    case CPU_ISA_PLAIN: return true;
#if defined(__x86_64__)
    case CPU_ISA_AVX2: return has_avx2();
    case CPU_ISA_AVX512: return has_avx512();
    case CPU_ISA_AVX512_BF16: return has_avx512() && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
    case CPU_ISA_NEON: return true;
#endif
    default: return false;
    }
}

cpu_isa cpu_isa_best(void) {
    static const cpu_isa order[] = {CPU_ISA_AVX512_BF16, CPU_ISA_AVX512, CPU_ISA_AVX2, CPU_ISA_NEON};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        if (cpu_isa_available(order[i])) return order[i];
    return CPU_ISA_PLAIN;
}

propane_status cpu_isa_current(cpu_isa *out, propane_error *err) {
    const char *wanted = getenv("PROPANE_ISA");
    if (!wanted || !*wanted) {
        *out = cpu_isa_best();
        return PROPANE_OK;
    }
    for (int i = 0; i < CPU_ISA_COUNT; i++) {
        if (strcmp(wanted, names[i]) != 0) continue;
        if (!cpu_isa_available((cpu_isa)i))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "PROPANE_ISA=%s: this machine lacks it; unset PROPANE_ISA or use '%s'", wanted,
                                cpu_isa_name(cpu_isa_best()));
        *out = (cpu_isa)i;
        return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "PROPANE_ISA=%s: no such instruction set; use plain, avx2, avx512, avx512_bf16 or neon",
                        wanted);
}
