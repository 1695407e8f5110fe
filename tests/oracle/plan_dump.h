/* SPDX-License-Identifier: MIT
 * A program as the oracle sees it: planned for one instruction set, printed, run. Everything that names the planner's
 * structures is behind this interface (plan_dump.c), so that they can change in one place.
 */
#ifndef TESTS_ORACLE_PLAN_DUMP_H
#define TESTS_ORACLE_PLAN_DUMP_H

#include "core/base/arena.h"
#include "core/base/text.h"
#include "core/mil/mil.h"

typedef struct oracle_choice {
    int isa;     /* 0 .. oracle_isa_count() - 1 */
    int threads; /* 0 means the pool's */
    bool fuse, bf16, round_each;
} oracle_choice;

typedef struct oracle_plan oracle_plan;

int oracle_isa_count(void);
/* Returns "avx2", "avx512+vnni" and so on, which determine the kernels that run, or NULL if this machine lacks it.
 * Static. */
const char *oracle_isa_label(int isa);
/* Fixes the size of L2 at 1 MB for later plans, because blocks of matrix products and scratch depend on it. */
void oracle_pin_caches(void);

/* Makes a plan that lives in `a`; call oracle_plan_free before freeing the arena. */
PROPANE_CHECK propane_status oracle_plan_make(const mil_function *f, const oracle_choice *choice, arena *a,
                                              oracle_plan **out, propane_error *err);
void oracle_plan_free(oracle_plan *p);
int oracle_plan_input_count(const oracle_plan *p);
int oracle_plan_output_count(const oracle_plan *p);
size_t oracle_plan_input_bytes(const oracle_plan *p, int i);
size_t oracle_plan_output_bytes(const oracle_plan *p, int i);
const char *oracle_plan_output_name(const oracle_plan *p, int i);
/* Prints lines "STAGE<tab>TEXT": total, step, loop (of a fused step), buffer, in_place; also of programs of blocks. */
void oracle_plan_print(const oracle_plan *p, text *out);
/* Runs the plan with NaN in dead memory, so that a read of unwritten memory shows. */
PROPANE_CHECK propane_status oracle_plan_run(oracle_plan *p, void *const *inputs, void *const *outputs,
                                             propane_error *err);

#endif
