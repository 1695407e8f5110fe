/* SPDX-License-Identifier: MIT
 * Instruction sets: which of the kernels' versions runs. Chosen once, when a cpu device is opened, and handed to every
 * kernel from there on; nothing here is remembered between calls.
 */
#ifndef CPU_SIMD_ISA_H
#define CPU_SIMD_ISA_H

#include <stdbool.h>

#include "base/status.h"

typedef enum cpu_isa {
    CPU_ISA_PLAIN,       /* C without intrinsics; everywhere */
    CPU_ISA_AVX2,        /* AVX2, FMA, F16C */
    CPU_ISA_AVX512,      /* AVX-512 F, BW, DQ, VL, with FMA and F16C */
    CPU_ISA_AVX512_BF16, /* the same and AVX512_BF16 (vdpbf16ps) */
    CPU_ISA_NEON,        /* aarch64 */
    CPU_ISA_COUNT
} cpu_isa;

const char *cpu_isa_name(cpu_isa isa); /* "plain", "avx2", "avx512", "avx512_bf16", "neon": what PROPANE_ISA takes */
bool cpu_isa_available(cpu_isa isa);   /* on this machine, in this build */
cpu_isa cpu_isa_best(void);
/* PROPANE_ISA where it is set and not empty, else the best. PROPANE_ERR_INVALID for an unknown name,
 * PROPANE_ERR_UNSUPPORTED for one that this machine lacks. */
PROPANE_CHECK propane_status cpu_isa_current(cpu_isa *out, propane_error *err);

#endif
