/* SPDX-License-Identifier: MIT
 * Resolves the options with the value "auto". --precision: on cpu, takes bf16 if it was measured to be faster. --weights, for adapters: makes the base constant if the device accepts
 * that. --plan: selects the plan and the place of the head that lm/step/partition_compare.h estimates as fastest for
 * the run's device. --device: selects the engine if there is one and the estimates rank it ahead of the processor, otherwise cpu.
 */
#ifndef LM_RUN_PLAN_CHOICE_H
#define LM_RUN_PLAN_CHOICE_H

#include "ane/chip/cost_units.h"
#include "lm/arch/config.h"
#include "train/train_options.h"

/* Sets o->precision if it is "standard" or "auto". Both are fp16 on engines. On cpu, "standard" is fp32, so that the
 * numbers of a run do not depend on the processor's speed; "auto" is what propane_device_time_products finds for the
 * feed-forward half, and is logged. All ranks take the same. Logs a note if the user asked for bf16 where it takes
 * longer. A resumed run has its precision from the checkpoint, and measures nothing. */
PROPANE_CHECK propane_status train_choose_precision(train_options *o, const model_config *config, propane_error *err);

/* Sets o->plan, o->head and o->gradients if the plan is "auto", and logs the choice; o->weights has already been
 * chosen. */
PROPANE_CHECK propane_status train_choose_plan(train_options *o, const model_config *config, propane_error *err);

/* With adapters on an engine, sets o->weights to "baked" and logs it: the base never changes, so its programs are
 * compiled once and no buffer holds it. Leaves o->weights alone if the programs are too many for one process, if the
 * estimate is slower, if a rule refuses them or if the device fails the mode's proof. Call after train_choose_plan,
 * only if the user left the weights open. */
PROPANE_CHECK propane_status train_choose_base(train_options *o, const model_config *config, propane_error *err);

/* Sets o->device if it is "auto", then also o->plan if it was not given, and logs the reason. Must be called before the
 * weights are chosen. */
PROPANE_CHECK propane_status train_choose_device(train_options *o, const model_config *config, propane_error *err);

/* Estimates a batch of such a run, with this many operations, on the processor only; *work describes what was
 * estimated. */
void processor_cost(const model_config *config, const train_options *o, cost_work_kind kind, double flops,
                    const chip *c, cost_work *work, cost_unit *out);

#endif
