/* SPDX-License-Identifier: MIT
 * Resolves the options with the value "auto". --precision on cpu becomes bf16 if bf16 was measured to be faster.
 * --weights, with adapters, becomes baked if the device accepts a base in constants. --plan and --head become those
 * that lm/step/partition_compare.h estimates as fastest on the run's device. --device becomes the engine if there is
 * one and it is estimated to be faster than the processor, otherwise cpu.
 */
#ifndef LM_RUN_PLAN_CHOICE_H
#define LM_RUN_PLAN_CHOICE_H

#include "ane/chip/cost_units.h"
#include "lm/arch/config.h"
#include "train/train_options.h"

/* Sets o->precision if it is "standard" or "auto". Both are fp16 on engines. On cpu, "standard" is fp32, so that the
 * numbers of a run do not depend on the processor's speed; "auto" is bf16 if propane_device_time_products finds it
 * faster for the feed-forward half on all ranks, otherwise fp32, and is logged. All ranks use the same precision. Logs
 * a note if the user requested bf16 where it is slower than fp32. A resumed run has its precision from the checkpoint
 * and measures nothing. */
PROPANE_CHECK propane_status train_choose_precision(train_options *o, const model_config *config, propane_error *err);

/* Sets o->plan, o->head and o->gradients if the plan is "auto", and logs the choice; o->weights has already been
 * chosen. */
PROPANE_CHECK propane_status train_choose_plan(train_options *o, const model_config *config, propane_error *err);

/* With adapters on an engine, sets o->weights to "baked" and logs this choice: the base never changes, so its programs
 * are compiled once, and no buffer holds the base. Leaves o->weights unchanged under mpirun, or if there are too many
 * programs for one process, the estimate is slower, a rule refuses the programs, or the device fails the mode's proof.
 * Call this after train_choose_plan, and only if the user left the weights open. */
PROPANE_CHECK propane_status train_choose_base(train_options *o, const model_config *config, propane_error *err);

/* Sets o->device if it is "auto" and logs the reason. If an engine is chosen and no plan was given, also sets o->plan
 * to "auto". Must be called before the weights are chosen. */
PROPANE_CHECK propane_status train_choose_device(train_options *o, const model_config *config, propane_error *err);

/* Sets *out to the estimate for a batch with `flops` operations of such a run on the processor alone, and *work to the
 * work that was estimated. */
void processor_cost(const model_config *config, const train_options *o, cost_work_kind kind, double flops,
                    const chip *c, cost_work *work, cost_unit *out);

#endif
