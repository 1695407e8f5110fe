/* SPDX-License-Identifier: MIT
 * The plan of a program: which memory each value lies in, which operations run together, in which order. Made once at
 * compile time; cpu_program_run (cpu_program.h) then walks an array of steps. The stages stand in order in plan.c.
 *
 * Rounding: inside one step values are fp32, whatever the program's types say; a value is rounded to its type where it
 * is stored. `round_each` rounds after every operation instead, as a device does that stores each result.
 */
#ifndef CPU_PLAN_PLAN_H
#define CPU_PLAN_PLAN_H

#include "core/mil/mil.h"
#include "cpu/cpu_program.h"
#include "cpu/plan/options.h"

/* Plans `f`. The program lies in `a`; free it with cpu_program_deinit before the arena. What the driver cannot run
 * fails with PROPANE_ERR_UNSUPPORTED and names the operation. */
PROPANE_CHECK propane_status cpu_plan_compile(const mil_function *f, const cpu_plan_options *options, arena *a,
                                              cpu_program **out, propane_error *err);

/* Whether cpu_plan_compile would succeed, without the preparation of constants and the program's memory. */
PROPANE_CHECK propane_status cpu_plan_check(const mil_function *f, const cpu_plan_options *options, propane_error *why);

#endif
