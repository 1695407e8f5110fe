/* SPDX-License-Identifier: MIT
 * The memory that a training run needs, known from its sizes before any of it is taken.
 */
#ifndef TRAIN_MEMORY_ESTIMATE_H
#define TRAIN_MEMORY_ESTIMATE_H

#include "train/trainer.h"

typedef struct train_footprint {
    double state; /* bytes: weights, the device's copies of them, moments */
    double batch; /* bytes: what a batch leaves behind for its backward pass, and gradients, which take its place */
} train_footprint;

/* Of one of `ranks` processes, which share out a batch, and the moments if they are sharded. */
train_footprint train_footprint_of(const model_config *config, const train_options *options, int ranks);
/* For this process. PROPANE_ERR_LIMIT where that is more than the machine's memory. */
PROPANE_CHECK propane_status train_footprint_check(const model_config *config, const train_options *options,
                                                   propane_error *err);

#endif
