/* SPDX-License-Identifier: MIT
 * The time of a program by the path it takes. Through Core ML, operations that the rules move off the engine run on
 * the CPU, and each switch between the two costs time (segment.c). The CPU's part is only an order of magnitude, from the host's figures of
 * cost_step.h, because no public list of CPU times per operation is known.
 */
#ifndef ANE_CHIP_PLACED_COST_H
#define ANE_CHIP_PLACED_COST_H

#include "ane/chip/cost_model.h"

/* Does what cost_function does. For COST_COREML it adds the parts that Core ML computes elsewhere. */
PROPANE_CHECK propane_status placed_cost(const chip *c, cost_path path, const mil_function *f, arena *a,
                                         cost_program *out, propane_error *err);

#endif
