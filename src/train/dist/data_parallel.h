/* SPDX-License-Identifier: MIT
 * The ranks of one data-parallel training: each takes its part of every batch, gradients are added up while the backward
 * pass runs, all make the same update. NULL stands for a process that trains alone; then nothing here does anything, and
 * sums and parts are its own.
 */
#ifndef TRAIN_DIST_DATA_PARALLEL_H
#define TRAIN_DIST_DATA_PARALLEL_H

#include "train/dist/allreduce.h"
#include "train/step/step.h"

typedef struct train_group train_group;

/* How many of a batch's sequences a rank takes; PROPANE_ERR_INVALID if the ranks do not divide it. */
PROPANE_CHECK propane_status train_group_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* All but `m` is borrowed until it is freed. */
PROPANE_CHECK propane_status train_group_create(mpi *m, const distribute_options *options, train_step *step,
                                                model_weights *weights, train_group **out, propane_error *err);
void train_group_free(train_group *g);
bool train_group_writes(const mpi *m); /* is this the rank that writes files? */
int train_group_rank(const mpi *m);

/* Before the last batch of a step: its gradients are added up over the ranks. */
void train_group_listen(train_group *g);
/* After it: no more. */
void train_group_rest(train_group *g);
/* Of the sums over all ranks. */
PROPANE_CHECK propane_status train_group_norm(train_group *g, train_step *step, double *norm, propane_error *err);
/* After the update: with sharded moments the weights are gathered. */
PROPANE_CHECK propane_status train_group_updated(train_group *g, propane_error *err);
/* Before a checkpoint: the writing rank gets all moments. After it, or after they were read: each keeps its own. */
PROPANE_CHECK propane_status train_group_collect(train_group *g, propane_error *err);
void train_group_release(train_group *g);
PROPANE_CHECK propane_status train_group_sum(const train_group *g, double *values, int count, propane_error *err);

#endif
