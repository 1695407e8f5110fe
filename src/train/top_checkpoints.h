/* SPDX-License-Identifier: MIT
 * With --keep N the weights of the N best validations stay in the run's folder, as best.STEP.safetensors. The files are
 * the memory: a resumed run reads from them what it has.
 */
#ifndef TRAIN_TOP_CHECKPOINTS_H
#define TRAIN_TOP_CHECKPOINTS_H

#include "core/base/status.h"

typedef struct train_run train_run;

/* The weights as they are, whose validation gave `loss`: written if they are among the best; what is then too many
 * goes. */
PROPANE_CHECK propane_status top_checkpoints_offer(train_run *r, double loss, propane_error *err);

#endif
