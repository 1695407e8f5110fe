/* SPDX-License-Identifier: MIT
 * What a plan is made for.
 */
#ifndef CPU_PLAN_OPTIONS_H
#define CPU_PLAN_OPTIONS_H

#include <stdbool.h>

#include "cpu/simd/kernels.h"

typedef struct cpu_plan_options {
    const cpu_kernels *kernels;
    const struct cpu_blas *blas; /* for large products (cpu/blas.h); NULL: none */
    int threads;                 /* at most that many at once; 0: all of the pool */
    bool bf16;                   /* products of fp32 may round their operands to bf16 */
    bool fuse;                   /* false: one step an operation, to compare with */
    bool round_each;             /* round after every operation, as a device does that stores each result */
    bool guard;                  /* tests: a run fails in the step that writes after a buffer of the block */
} cpu_plan_options;

#endif
