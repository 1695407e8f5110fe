/* SPDX-License-Identifier: MIT
 * The model for which a plan is made.
 */
#ifndef LM_RUN_PUBLIC_PLAN_H
#define LM_RUN_PUBLIC_PLAN_H

#include "lm/arch/config.h"

/* Returns whether the model is known only by its sizes, so that there are no weights to start from. */
bool api_plan_is_sizes(const char *model);
/* Refuses a word that is not a type of the residual stream; NULL is fine. A message begins with the option's name. */
PROPANE_CHECK propane_status api_plan_check_stream(const char *stream, propane_error *err);
/* Reads the configuration of a model in any form, of a config.json, or of a model known by name. */
PROPANE_CHECK propane_status api_plan_config(const char *model, model_config *out, propane_error *err);

#endif
