/* SPDX-License-Identifier: MIT
 * The memory that a training run needs, computed from its sizes before anything is allocated.
 */
#ifndef LM_RUN_MEMORY_ESTIMATE_H
#define LM_RUN_MEMORY_ESTIMATE_H

#include "lm/arch/config.h"
#include "train/train_options.h"

typedef struct memory_estimate {
    double state; /* bytes: weights, the device's copies of them, moments */
    /* bytes: values that a batch keeps for its backward pass, and gradients, which may reuse the memory of these
     * values */
    double batch;
} memory_estimate;

/* Returns the number of parameters with a gradient and moments: all parameters, or those of the adapters. With name
 * patterns, which only the run resolves, returns 0, because the estimate is a lower bound. */
double memory_estimate_trained(const model_config *config, const train_options *options);
/* Estimates the memory of one of `ranks` processes. The processes divide a batch and, with --shard, the moments among
 * themselves. */
memory_estimate memory_estimate_of(const model_config *config, const train_options *options, int ranks);
/* Returns PROPANE_ERR_LIMIT if this process needs more than the machine's memory. */
PROPANE_CHECK propane_status memory_estimate_check(const model_config *config, const train_options *options,
                                                   propane_error *err);

#endif
