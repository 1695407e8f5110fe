/* SPDX-License-Identifier: MIT
 * With --keep N, the weights of the N best validations stay in the run's folder as best.STEP.safetensors. These files
 * are the only record, from which a resumed run reads the list.
 */
#ifndef TRAIN_TOP_CHECKPOINTS_H
#define TRAIN_TOP_CHECKPOINTS_H

#include "core/base/status.h"

typedef struct train_run train_run;

/* Writes the current weights if their validation loss `loss` is among the best. Removes the worst files beyond the
 * limit. */
PROPANE_CHECK propane_status top_checkpoints_offer(train_run *r, double loss, propane_error *err);

#endif
