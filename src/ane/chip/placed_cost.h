/* SPDX-License-Identifier: MIT
 * Declares the cost of a program on a given path. Through Core ML, operations that the rules move off the engine run on
 * the CPU, and each switch between engine and CPU costs time (segment.c). The CPU's part comes from the host's figures
 * of cost_step.h. It is only an order of magnitude, because no public list of CPU times per operation is known.
 */
#ifndef ANE_CHIP_PLACED_COST_H
#define ANE_CHIP_PLACED_COST_H

#include "ane/chip/cost_model.h"

/* Estimates a program like cost_function. For COST_COREML, also counts the operations that Core ML moves to the CPU. */
PROPANE_CHECK propane_status placed_cost(const chip *c, cost_path path, const mil_function *f, arena *a,
                                         cost_program *out, propane_error *err);

#endif
