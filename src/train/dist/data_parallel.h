/* SPDX-License-Identifier: MIT
 * The ranks of one data-parallel training: each takes its part of every batch, gradients are added up while the backward
 * pass runs, all make the same update. NULL stands for a process that trains alone; then nothing here does anything, and
 * sums and parts are its own.
 */
#ifndef TRAIN_DIST_DATA_PARALLEL_H
#define TRAIN_DIST_DATA_PARALLEL_H

#include "train/dist/allreduce.h"
#include "train/step/step.h"

typedef struct data_parallel data_parallel;

/* How many of a batch's sequences a rank takes; PROPANE_ERR_INVALID if the ranks do not divide it. */
PROPANE_CHECK propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* All but `m` is borrowed until it is freed. */
PROPANE_CHECK propane_status data_parallel_create(mpi *m, const allreduce_options *options, train_step *step,
                                                  model_weights *weights, data_parallel **out, propane_error *err);
void data_parallel_free(data_parallel *g);
bool data_parallel_writes(const mpi *m); /* is this the rank that writes files? */
int data_parallel_rank(const mpi *m);

/* Before the last batch of a step: its gradients are added up over the ranks. */
void data_parallel_listen(data_parallel *g);
/* After it: no more. */
void data_parallel_rest(data_parallel *g);
/* Of the sums over all ranks. */
PROPANE_CHECK propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err);
/* After the update: with sharded moments the weights are gathered. */
PROPANE_CHECK propane_status data_parallel_updated(data_parallel *g, propane_error *err);
/* Before a checkpoint: the writing rank gets all moments. After it, or after they were read: each keeps its own. */
PROPANE_CHECK propane_status data_parallel_collect(data_parallel *g, propane_error *err);
void data_parallel_release(data_parallel *g);
PROPANE_CHECK propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err);

#endif
