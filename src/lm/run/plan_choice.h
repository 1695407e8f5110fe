/* SPDX-License-Identifier: MIT
 * --plan auto: the plan and the place of the head that lm/step/partition_compare.h finds fastest for a run's device.
 */
#ifndef LM_RUN_PLAN_CHOICE_H
#define LM_RUN_PLAN_CHOICE_H

#include "lm/arch/config.h"
#include "train/train_options.h"

/* Sets o->plan and o->head where the plan is "auto", and tells what was taken; o->weights is chosen already. */
PROPANE_CHECK propane_status train_choose_plan(train_options *o, const model_config *config, propane_error *err);

#endif
