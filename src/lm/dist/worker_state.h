/* SPDX-License-Identifier: MIT
 * State that a rank keeps between outer steps (lm/dist/outer.h) and that the checkpoint does not hold: the moments and
 * the loss scale of ranks other than the first, and the rounding errors of int4 messages. Each rank writes
 * DIR/worker-RANK.STEP.safetensors before the checkpoint of that step is written; files of other steps are removed
 * afterwards. A rank without a file, because there are more ranks than before, begins with the first rank's moments.
 *
 * All ranks must call these functions together, in a run that has outer steps and has finished its warm-up. `movements`
 * holds the rounding errors of messages.
 */
#ifndef LM_DIST_WORKER_STATE_H
#define LM_DIST_WORKER_STATE_H

#include "train/dist/allreduce.h"

typedef struct train_run train_run;

PROPANE_CHECK propane_status worker_state_write(const allreduce *movements, train_run *r, propane_error *err);
/* Must be called after the checkpoint has been written. */
PROPANE_CHECK propane_status worker_state_sweep(train_run *r, propane_error *err);
/* Must be called after the checkpoint has been read. */
PROPANE_CHECK propane_status worker_state_read(const allreduce *movements, train_run *r, propane_error *err);

#endif
