/* SPDX-License-Identifier: MIT
 * Rewrites of a program into what engines take, as the rules' fixes say. A row of for_engine.c names its rule: where
 * the rule has nothing against an operation, it stays.
 */
#ifndef ANE_CHIP_FOR_ENGINE_H
#define ANE_CHIP_FOR_ENGINE_H

#include "core/base/text.h"
#include "core/mil/mil.h"

/* All functions. `out` gets a line for each kind of rewrite that was made: "N1 softplus: 2, ...". The values stay those
 * of the program in exact arithmetic, masks apart: minus infinity becomes -10,000, which gives the same softmax. */
PROPANE_CHECK propane_status for_engine_rewrite(mil_module *m, int *count, text *out, propane_error *err);

#endif
