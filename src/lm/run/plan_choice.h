/* SPDX-License-Identifier: MIT
 * --plan auto: the plan and the place of the head that lm/step/partition_compare.h finds fastest for a run's device.
 * --device auto: the engine where there is one and the estimates have it ahead of the processor, else cpu.
 */
#ifndef LM_RUN_PLAN_CHOICE_H
#define LM_RUN_PLAN_CHOICE_H

#include "ane/chip/cost_units.h"
#include "lm/arch/config.h"
#include "train/train_options.h"

/* Sets o->plan, o->head and o->gradients where the plan is "auto", and logs the choice; o->weights is chosen
 * already. */
PROPANE_CHECK propane_status train_choose_plan(train_options *o, const model_config *config, propane_error *err);

/* Sets o->device where it is "auto", then also an o->plan that was not given, and logs the reason. Before the weights are
 * chosen. */
PROPANE_CHECK propane_status train_choose_device(train_options *o, const model_config *config, propane_error *err);

/* A batch of such a run, of so many operations, on the processor alone; *work is what that was estimated of. */
void processor_cost(const model_config *config, const train_options *o, cost_work_kind kind, double flops,
                    const chip *c, cost_work *work, cost_unit *out);

#endif
