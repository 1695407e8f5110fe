/* SPDX-License-Identifier: MIT
 * Declares the rewriting of a program into operations that engines accept, which follows the fixes of the rules. Each
 * row of for_engine.c names its rule. An operation to which the rule does not object stays as it is.
 */
#ifndef ANE_CHIP_FOR_ENGINE_H
#define ANE_CHIP_FOR_ENGINE_H

#include "core/base/text.h"
#include "core/mil/mil.h"

/* Rewrites all functions. Sets *count to the number of rewrites. `out` receives one line per kind of rewrite, such as
 * "2 times N1: softplus as ...". In exact arithmetic no value changes, except in masks, where minus infinity becomes
 * -10,000, which does not change the softmax. */
PROPANE_CHECK propane_status for_engine_rewrite(mil_module *m, int *count, text *out, propane_error *err);

#endif
