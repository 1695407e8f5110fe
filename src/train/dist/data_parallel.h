/* SPDX-License-Identifier: MIT
 * The ranks of one training. Data-parallel, each takes its part of every batch, gradients are added up while the backward
 * pass runs, all make the same update. With outer steps (dist/outer.h) each takes its part of every batch, too, but trains by
 * itself until they agree; between that, nothing here sends a message. NULL stands for a process that trains alone; then nothing here does anything, and
 * sums and parts are its own.
 */
#ifndef TRAIN_DIST_DATA_PARALLEL_H
#define TRAIN_DIST_DATA_PARALLEL_H

#include "train/dist/outer.h"
#include "train/step/step.h"

typedef struct data_parallel data_parallel;

/* How many of a batch's sequences a rank takes; PROPANE_ERR_INVALID if the ranks do not divide it. */
PROPANE_CHECK propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* `m`, the step and the weights are borrowed until it is freed. Outer steps are for two ranks and more: one has nobody to
 * agree with and trains as if alone. */
PROPANE_CHECK propane_status data_parallel_create(mpi *m, const allreduce_options *options, const outer_options *agree,
                                                  train_step *step, model_weights *weights, data_parallel **out,
                                                  propane_error *err);
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
/* Does each rank make updates of its own? */
bool data_parallel_is_outer(const data_parallel *g);
/* Do all ranks have the same weights after `step` of `steps`? Only then do they evaluate, save and stop. */
bool data_parallel_agrees(const data_parallel *g, int64_t step, int64_t steps);
/* After `step`: the outer step, where it is time for one. *bytes: sent by this rank. */
PROPANE_CHECK propane_status data_parallel_agree(data_parallel *g, int64_t step, int64_t steps, int64_t *bytes,
                                                 propane_error *err);
/* NULL: none. */
outer *data_parallel_outer(const data_parallel *g);
allreduce *data_parallel_allreduce(const data_parallel *g);
PROPANE_CHECK propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err);

#endif
