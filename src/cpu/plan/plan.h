/* SPDX-License-Identifier: MIT
 * The plan of a program: which memory holds each value, which operations run together, and in which order. A plan is
 * made once, at compile time; cpu_program_run (cpu_program.h) then walks an array of steps. plan.c lists the stages in
 * order.
 *
 * Rounding: within a step, values are at least fp32, even if the program's types are narrower. A value is rounded to
 * its type when it is stored. `round_each` instead rounds after every operation, like a device that stores each result.
 */
#ifndef CPU_PLAN_PLAN_H
#define CPU_PLAN_PLAN_H

#include "core/mil/mil.h"
#include "cpu/cpu_program.h"
#include "cpu/plan/options.h"

/* Plans `f`. The program is allocated in `a`; call cpu_program_deinit before freeing the arena. Fails with
 * PROPANE_ERR_UNSUPPORTED if the driver cannot run an operation; the error names it. */
PROPANE_CHECK propane_status cpu_plan_compile(const mil_function *f, const cpu_plan_options *options, arena *a,
                                              cpu_program **out, propane_error *err);

/* Checks whether cpu_plan_compile would succeed, without preparing constants and the program's memory. */
PROPANE_CHECK propane_status cpu_plan_check(const mil_function *f, const cpu_plan_options *options, propane_error *why);

#endif
