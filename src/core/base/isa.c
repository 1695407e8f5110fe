/* SPDX-License-Identifier: MIT
 * Owns the choice of an instruction set: what the machine and the build support, and what PROPANE_ISA selects.
 */
#include "core/base/isa.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[CPU_ISA_COUNT] = {
#define CPU_ISA(id, name) #name,
#include "core/base/isa.def"
#undef CPU_ISA
};

const char *cpu_isa_name(cpu_isa isa) { return isa >= 0 && isa < CPU_ISA_COUNT ? isa_names[isa] : "unknown"; }

/* These functions check what each set requires of the machine. The set's kernels are compiled with the same
 * instructions. */
#if defined(__x86_64__)
static bool isa_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

static bool isa_has_avx512(void) {
    return isa_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool cpu_isa_available(cpu_isa isa) {
    return isa == CPU_ISA_PLAIN || (isa == CPU_ISA_AVX2 && isa_has_avx2()) ||
           (isa == CPU_ISA_AVX512 && isa_has_avx512()) ||
           (isa == CPU_ISA_AVX512_BF16 && isa_has_avx512() && __builtin_cpu_supports("avx512bf16"));
}
#elif defined(__aarch64__)
bool cpu_isa_available(cpu_isa isa) { return isa == CPU_ISA_PLAIN || isa == CPU_ISA_NEON; }
#else
bool cpu_isa_available(cpu_isa isa) { return isa == CPU_ISA_PLAIN; }
#endif

cpu_isa cpu_isa_best(void) {
    int best = CPU_ISA_COUNT - 1;
    while (best > CPU_ISA_PLAIN && !cpu_isa_available((cpu_isa)best)) best--;
    return (cpu_isa)best;
}

/* Lists the names of all sets, separated by commas and, before the last, by "or". */
static void isa_list_names(char *text, size_t size) {
    size_t length = 0;
    for (int i = 0; i < CPU_ISA_COUNT && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s",
                                   i == 0                   ? ""
                                   : i == CPU_ISA_COUNT - 1 ? " or "
                                                            : ", ",
                                   isa_names[i]);
}

propane_status cpu_isa_current(cpu_isa *out, propane_error *err) {
    const char *wanted = getenv("PROPANE_ISA");
    char list[200];
    if (!wanted || !*wanted) {
        *out = cpu_isa_best();
        return PROPANE_OK;
    }
    for (int i = 0; i < CPU_ISA_COUNT; i++) {
        if (strcmp(wanted, isa_names[i]) != 0) continue;
        if (!cpu_isa_available((cpu_isa)i))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "PROPANE_ISA=%s: this machine does not support it; unset PROPANE_ISA or use '%s'",
                                wanted, cpu_isa_name(cpu_isa_best()));
        *out = (cpu_isa)i;
        return PROPANE_OK;
    }
    isa_list_names(list, sizeof list);
    return propane_fail(err, PROPANE_ERR_INVALID, "PROPANE_ISA=%s: unknown instruction set; use %s", wanted, list);
}

static cpu_isa isa_limit;

static void isa_set_limit(void) {
    if (cpu_isa_current(&isa_limit, NULL) != PROPANE_OK) isa_limit = cpu_isa_best();
}

bool cpu_isa_allows(cpu_isa isa) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, isa_set_limit);
    return isa <= isa_limit && cpu_isa_available(isa);
}
