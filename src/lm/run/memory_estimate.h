/* SPDX-License-Identifier: MIT
 * The memory that a training run needs, known from its sizes before any of it is taken.
 */
#ifndef LM_RUN_MEMORY_ESTIMATE_H
#define LM_RUN_MEMORY_ESTIMATE_H

#include "lm/arch/config.h"
#include "train/train_options.h"

typedef struct memory_estimate {
    double state; /* bytes: weights, the device's copies of them, moments */
    double batch; /* bytes: what a batch leaves behind for its backward pass, and gradients, which take its place */
} memory_estimate;

/* Parameters that have a gradient and moments: all, or the adapters'. With patterns of names, which are left to the run
 * itself, 0: sums are a lower bound. */
double memory_estimate_learnt(const model_config *config, const train_options *options);
/* Of one of `ranks` processes, which share out a batch, and the moments if they are sharded. */
memory_estimate memory_estimate_of(const model_config *config, const train_options *options, int ranks);
/* For this process. PROPANE_ERR_LIMIT where that is more than the machine's memory. */
PROPANE_CHECK propane_status memory_estimate_check(const model_config *config, const train_options *options,
                                                   propane_error *err);

#endif
