/* SPDX-License-Identifier: MIT
 * The memory that a training run needs, computed from its sizes before anything is allocated.
 */
#ifndef LM_RUN_MEMORY_ESTIMATE_H
#define LM_RUN_MEMORY_ESTIMATE_H

#include "lm/arch/config.h"
#include "train/train_options.h"

typedef struct memory_estimate {
    double state; /* bytes: weights, the device's copies of them, moments */
    double batch; /* bytes: values that a batch keeps for its backward pass, and gradients, which reuse that memory */
} memory_estimate;

/* Returns the parameters with a gradient and moments: all, or the adapters'. With name patterns, which only the run
 * resolves, it returns 0, because the sums are a lower bound. */
double memory_estimate_trained(const model_config *config, const train_options *options);
/* Estimates one of `ranks` processes, which share out a batch and, if they are sharded, the moments. */
memory_estimate memory_estimate_of(const model_config *config, const train_options *options, int ranks);
/* Checks this process. Returns PROPANE_ERR_LIMIT if it needs more than the machine's memory. */
PROPANE_CHECK propane_status memory_estimate_check(const model_config *config, const train_options *options,
                                                   propane_error *err);

#endif
