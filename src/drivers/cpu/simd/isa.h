/* SPDX-License-Identifier: MIT
 * Instruction sets by name: which of the kernels' versions (kernels.h) runs. Chosen once, when a cpu device is opened.
 */
#ifndef CPU_SIMD_ISA_H
#define CPU_SIMD_ISA_H

#include <stdbool.h>

#include "base/status.h"

typedef enum cpu_isa {
#define CPU_ISA(id, name) CPU_ISA_##id,
#include "drivers/cpu/simd/isa.def"
#undef CPU_ISA
    CPU_ISA_COUNT
} cpu_isa;

const char *cpu_isa_name(cpu_isa isa); /* what PROPANE_ISA takes; "unknown" for none of them */
bool cpu_isa_available(cpu_isa isa);   /* on this machine, in this build */
cpu_isa cpu_isa_best(void);
/* PROPANE_ISA where it is set and not empty, else the best. PROPANE_ERR_INVALID for an unknown name,
 * PROPANE_ERR_UNSUPPORTED for one that this machine lacks. */
PROPANE_CHECK propane_status cpu_isa_current(cpu_isa *out, propane_error *err);

#endif
