/* SPDX-License-Identifier: MIT
 * The time of a program by the path it takes: through Core ML, what the rules take off the engine is the CPU's, and
 * each change of sides costs (segment.c). The CPU's part is an order of magnitude, by the host's figures of
 * cost_step.h: no public list of its times by operation is known.
 */
#ifndef ANE_CHIP_PLACED_COST_H
#define ANE_CHIP_PLACED_COST_H

#include "ane/chip/cost_model.h"

/* As cost_function, with the parts that Core ML computes elsewhere where the path is COST_COREML. */
PROPANE_CHECK propane_status placed_cost(const chip *c, cost_path path, const mil_function *f, arena *a,
                                         cost_program *out, propane_error *err);

#endif
