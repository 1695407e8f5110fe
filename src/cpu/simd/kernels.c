/* SPDX-License-Identifier: MIT
 * Owns the contexts of all instruction sets, made at the first call. Each is a copy of the plain one, overlaid with the
 * set's own kernels.
 */
#include "cpu/simd/kernels.h"

#include <pthread.h>

static cpu_kernels kernels_contexts[CPU_ISA_COUNT];

static void kernels_lay_all(void) {
    static bool (*const lay[CPU_ISA_COUNT])(cpu_kernels *) = {
#define CPU_ISA(id, name) cpu_kernels_##name,
#include "core/base/isa.def"
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
