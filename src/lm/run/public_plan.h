/* SPDX-License-Identifier: MIT
 * The model for which a plan is made.
 */
#ifndef LM_RUN_PUBLIC_PLAN_H
#define LM_RUN_PUBLIC_PLAN_H

#include "lm/arch/config.h"

/* Returns whether `model` names only sizes (a built-in name or a .json file), so that there are no weights. */
bool api_plan_is_sizes(const char *model);
/* Returns PROPANE_ERR_INVALID if `stream` is neither "fp16" nor "fp32" nor NULL. */
PROPANE_CHECK propane_status api_plan_check_stream(const char *stream, propane_error *err);
/* Reads the configuration from a model in any form or from a config.json, or sets that of a built-in name. */
PROPANE_CHECK propane_status api_plan_config(const char *model, model_config *out, propane_error *err);

#endif
