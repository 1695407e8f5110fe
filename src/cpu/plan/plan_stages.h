/* SPDX-License-Identifier: MIT
 * The stages of the pipeline (plan.c) that are in this folder.
 */
#ifndef CPU_PLAN_PLAN_STAGES_H
#define CPU_PLAN_PLAN_STAGES_H

#include "cpu/plan/emit.h"

/* Copies the function into a separate module (plan_copy.c). */
PROPANE_CHECK propane_status cpu_plan_copy_function(planner *p, const mil_function *f, propane_error *err);
/* Places results in their output buffers, and parts of a concat in their slices of its result (plan_place.c). */
PROPANE_CHECK propane_status cpu_plan_place_values(planner *p, propane_error *err);
/* Chooses the images with innermost channels: results of layers with constant weights and of operations after them
 * (plan_channels.c). */
PROPANE_CHECK propane_status cpu_plan_place_channels(planner *p, propane_error *err);
/* Plans lifetimes, sharing in place, and a single block for all (plan_memory.c). */
PROPANE_CHECK propane_status cpu_plan_memory(planner *p, propane_error *err);

#endif
