/* SPDX-License-Identifier: MIT
 * Instruction sets: which ones this machine and this build support, and PROPANE_ISA, the one switch for all of them.
 * Everything that has several forms by instruction set (kernels, losses, norms, AdamW, conversions) consults this file.
 * So PROPANE_ISA=plain runs plain C everywhere, and a wrong number can be bisected by instruction set.
 */
#ifndef CORE_BASE_ISA_H
#define CORE_BASE_ISA_H

#include <stdbool.h>

#include "core/base/status.h"

typedef enum cpu_isa {
#define CPU_ISA(id, name) CPU_ISA_##id,
#include "core/base/isa.def"
#undef CPU_ISA
    CPU_ISA_COUNT
} cpu_isa;

const char *cpu_isa_name(cpu_isa isa); /* the value that PROPANE_ISA accepts; "unknown" for any other id */
bool cpu_isa_available(cpu_isa isa);   /* on this machine and in this build */
cpu_isa cpu_isa_best(void);
/* Returns PROPANE_ISA if it is set and not empty, else the best set. PROPANE_ERR_INVALID for an unknown name,
 * PROPANE_ERR_UNSUPPORTED for one that this machine lacks. */
PROPANE_CHECK propane_status cpu_isa_current(cpu_isa *out, propane_error *err);
/* Returns true if code outside the kernels may use `isa`: it is available and not above PROPANE_ISA, which is read at
 * the first call. Any thread may call. A name that cpu_isa_current refuses restricts nothing. */
bool cpu_isa_allows(cpu_isa isa);

#endif
