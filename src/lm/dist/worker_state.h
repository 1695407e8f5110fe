/* SPDX-License-Identifier: MIT
 * What a rank that trains by itself between outer steps (dist/outer.h) knows and the checkpoint does not: the moments
 * and the loss scale of ranks other than the first, and what int4 messages left out. Each rank writes
 * DIR/worker-RANK.STEP.safetensors before the checkpoint of that step; the files of other steps go after it. A rank
 * without one, because there are more ranks than before, begins with the first rank's moments.
 *
 * All ranks call these together, in a run that has outer steps and is past their warm-up. `movements` keeps what
 * messages left out.
 */
#ifndef LM_DIST_WORKER_STATE_H
#define LM_DIST_WORKER_STATE_H

#include "train/dist/allreduce.h"

typedef struct train_run train_run;

PROPANE_CHECK propane_status worker_state_write(const allreduce *movements, train_run *r, propane_error *err);
/* After the checkpoint has been written. */
PROPANE_CHECK propane_status worker_state_sweep(train_run *r, propane_error *err);
/* After the checkpoint has been read. */
PROPANE_CHECK propane_status worker_state_read(const allreduce *movements, train_run *r, propane_error *err);

#endif
