/* SPDX-License-Identifier: MIT
 * The stages of the pipeline (plan.c) that lie in this folder.
 */
#ifndef CPU_PLAN_PLAN_STAGES_H
#define CPU_PLAN_PLAN_STAGES_H

#include "cpu/plan/emit.h"

/* The planner's own copy of the function, in a module of its own (plan_copy.c). */
PROPANE_CHECK propane_status cpu_plan_copy_function(planner *p, const mil_function *f, propane_error *err);
/* Results in their output buffers, parts of a concat in their slice of it (plan_place.c). */
PROPANE_CHECK propane_status cpu_plan_place_values(planner *p, propane_error *err);
/* Which images have their channels innermost: results of layers with constant weights and what follows them
 * (plan_channels.c). */
PROPANE_CHECK propane_status cpu_plan_place_channels(planner *p, propane_error *err);
/* Lifetimes, in place, one block for all (plan_memory.c). */
PROPANE_CHECK propane_status cpu_plan_memory(planner *p, propane_error *err);

#endif
