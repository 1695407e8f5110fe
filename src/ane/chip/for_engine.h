/* SPDX-License-Identifier: MIT
 * Rewrites of a program into operations that engines accept, following the fixes of the rules. Each row of for_engine.c
 * names its rule; an operation that the rule does not object to stays as it is.
 */
#ifndef ANE_CHIP_FOR_ENGINE_H
#define ANE_CHIP_FOR_ENGINE_H

#include "core/base/text.h"
#include "core/mil/mil.h"

/* Rewrites all functions. `out` receives one line per kind of rewrite that was made: "N1 softplus: 2, ...". In exact
 * arithmetic no value changes, except in masks: minus infinity becomes -10,000, which does not change the softmax. */
PROPANE_CHECK propane_status for_engine_rewrite(mil_module *m, int *count, text *out, propane_error *err);

#endif
