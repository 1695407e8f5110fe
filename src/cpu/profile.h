/* SPDX-License-Identifier: MIT
 * The profile of a program: one row per step with the time that it took while the profile was on. Used by the command
 * and by benches.
 */
#ifndef CPU_PROFILE_H
#define CPU_PROFILE_H

#include "core/device/driver.h"

typedef struct cpu_profile_row {
    const char *kind;    /* "gemm", "tile", "copy", ... */
    const char *name;    /* of the value that the step makes */
    const char *stage;   /* NULL if none */
    double flops, bytes; /* per run; bytes counts operands and results once */
    int64_t runs, ns;
} cpu_profile_row;

/* Switches the profile, which is off by default because it reads the clock twice per step. Must not be called while
 * a request of the program is in flight. */
void cpu_profile_enable(driver_program *program, bool on);
void cpu_profile_reset(driver_program *program);
int cpu_profile_count(const driver_program *program);
void cpu_profile_get(const driver_program *program, int step, cpu_profile_row *out);
/* Returns the name of a fusion and sets *count to how often it was applied during planning. Fusions are numbered from 0
 * in the order of the rules (fuse/fuse.c); returns NULL for any other index. */
const char *cpu_profile_fusion(const driver_program *program, int index, int *count);

#endif
