/* SPDX-License-Identifier: MIT
 * With --keep N the weights of the N best validations stay in the run's folder, as best.STEP.safetensors. The files are the
 * memory: a resumed run reads from them what it has.
 */
#ifndef TRAIN_KEPT_WEIGHTS_H
#define TRAIN_KEPT_WEIGHTS_H

#include "core/base/status.h"

typedef struct train_run train_run;

/* The weights as they are, whose validation gave `loss`: written if they are among the best; what is then too many goes. */
PROPANE_CHECK propane_status kept_weights_offer(train_run *r, double loss, propane_error *err);

#endif
