/* SPDX-License-Identifier: MIT
 * Instruction sets: which ones this machine and this build support, and which one PROPANE_ISA selects. All code that
 * exists for several instruction sets (kernels, losses, norms, AdamW, conversions) calls these functions. So
 * PROPANE_ISA=plain runs plain C everywhere, and a wrong number can be traced to an instruction set.
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
/* Sets *out to the set that PROPANE_ISA names, or to the best set if PROPANE_ISA is unset or empty. Fails with
 * PROPANE_ERR_INVALID for an unknown name, and with PROPANE_ERR_UNSUPPORTED for a set that this machine lacks. */
PROPANE_CHECK propane_status cpu_isa_current(cpu_isa *out, propane_error *err);
/* Returns true if code outside the kernels may use `isa`: the set is available and does not come after PROPANE_ISA in
 * isa.def. PROPANE_ISA is read at the first call; a value that cpu_isa_current refuses restricts nothing. Any thread
 * may call. */
bool cpu_isa_allows(cpu_isa isa);

#endif
