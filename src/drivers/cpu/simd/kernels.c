/* SPDX-License-Identifier: MIT
 * Owns the contexts of all instruction sets, made at the first call: the plain one first, each set's own laid over it; and
 * the choice of one: what the machine has, and what PROPANE_ISA asks for.
 */
#include "drivers/cpu/simd/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cpu_kernels kernels_contexts[CPU_ISA_COUNT];

static void kernels_lay_all(void) {
    static bool (*const lay[CPU_ISA_COUNT])(cpu_kernels *) = {
#define CPU_ISA(id, name) cpu_kernels_##name,
#include "drivers/cpu/simd/isa.def"
#undef CPU_ISA
    };
    for (int i = 0; i < CPU_ISA_COUNT; i++) {
        cpu_kernels *k = &kernels_contexts[i];
        (void)cpu_kernels_plain(k);
        if (lay[i](k)) k->isa = (cpu_isa)i;
    }
}

const cpu_kernels *cpu_kernels_of(cpu_isa isa) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, kernels_lay_all);
    return &kernels_contexts[isa];
}

/* ---- which instruction set -------------------------------------------------------------------------------------------- */

static const char *const isa_names[CPU_ISA_COUNT] = {
#define CPU_ISA(id, name) #name,
#include "drivers/cpu/simd/isa.def"
#undef CPU_ISA
};

const char *cpu_isa_name(cpu_isa isa) { return isa >= 0 && isa < CPU_ISA_COUNT ? isa_names[isa] : "unknown"; }

bool cpu_isa_available(cpu_isa isa) { return isa >= 0 && isa < CPU_ISA_COUNT && cpu_kernels_of(isa)->isa == isa; }

cpu_isa cpu_isa_best(void) {
    int best = CPU_ISA_COUNT - 1;
    while (best > CPU_ISA_PLAIN && !cpu_isa_available((cpu_isa)best)) best--;
    return (cpu_isa)best;
}

/* "plain, avx2 or neon" */
static void kernels_isa_list_names(char *text, size_t size) {
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
                                "PROPANE_ISA=%s: this machine lacks it; unset PROPANE_ISA or use '%s'", wanted,
                                cpu_isa_name(cpu_isa_best()));
        *out = (cpu_isa)i;
        return PROPANE_OK;
    }
    kernels_isa_list_names(list, sizeof list);
    return propane_fail(err, PROPANE_ERR_INVALID, "PROPANE_ISA=%s: no such instruction set; use %s", wanted, list);
}
