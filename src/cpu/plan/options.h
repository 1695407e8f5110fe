/* SPDX-License-Identifier: MIT
 * The options of a plan.
 */
#ifndef CPU_PLAN_OPTIONS_H
#define CPU_PLAN_OPTIONS_H

#include <stdbool.h>

#include "cpu/simd/kernels.h"

typedef struct cpu_plan_options {
    const cpu_kernels *kernels;
    const struct cpu_blas *blas; /* for large matrix products (cpu/blas.h); NULL if there is none */
    int threads;                 /* maximum used at once; 0 means all of the pool */
    bool bf16;                   /* fp32 matrix products may round their operands to bf16 */
    bool fuse;                   /* if false, one step per operation, for comparison */
    bool round_each;             /* round after every operation, like a device that stores each result */
    bool guard;                  /* for tests: a run fails in the step that writes past a buffer of the block */
} cpu_plan_options;

#endif
