/* SPDX-License-Identifier: MIT
 * Which model a plan is made for.
 */
#ifndef LM_RUN_PUBLIC_PLAN_H
#define LM_RUN_PUBLIC_PLAN_H

#include "lm/arch/config.h"

/* Of a model in any form, a config.json or a model that is known by name. */
PROPANE_CHECK propane_status api_plan_config(const char *model, model_config *out, propane_error *err);

#endif
