/* SPDX-License-Identifier: MIT
 * The ranks of one training. Data-parallel, each takes its part of every batch, gradients are added up while the
 * backward pass runs, all make the same update. With outer steps (dist/outer.h) that is so inside a worker
 * (dist/workers.h), if it has several ranks; each worker takes its part of every batch, but trains by itself until the
 * workers agree; between that, no messages are waited for. Before the outer steps there may be a warm-up, whose steps
 * are data-parallel over all ranks, so that workers begin to differ from a model that is worth to be averaged. NULL
 * stands for a process that trains alone; then nothing here does anything, and sums and parts are its own.
 */
#ifndef LM_DIST_DATA_PARALLEL_H
#define LM_DIST_DATA_PARALLEL_H

#include "lm/dist/outer.h"
#include "lm/step/step.h"
#include "train/dist/group.h"
#include "train/dist/workers.h"

typedef struct data_parallel data_parallel;

typedef struct data_parallel_options {
    allreduce_options sums;
    outer_options outer; /* for two workers and more: a single one trains as if alone */
    int64_t done;        /* steps that the run has made; those before outer.first are its warm-up's */
} data_parallel_options;

/* How many of a batch's sequences a rank takes; PROPANE_ERR_INVALID if the ranks do not divide it. */
PROPANE_CHECK propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* `who`, the step and the weights are borrowed until the group is freed, which is the run's. */
PROPANE_CHECK propane_status data_parallel_create(const workers *who, const data_parallel_options *options,
                                                  train_step *step, model_weights *weights, data_parallel **out,
                                                  propane_error *err);
/* As a run calls it; NULL of NULL. */
train_group *data_parallel_group(data_parallel *g);

/* Before the last batch of a step: its gradients are added up over the worker's ranks, in the warm-up over all. */
void data_parallel_listen(data_parallel *g);
/* After it: no more. */
void data_parallel_rest(data_parallel *g);
/* Of the sums over all of them. */
PROPANE_CHECK propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err);
/* After the update: with sharded moments the weights are gathered. */
PROPANE_CHECK propane_status data_parallel_updated(data_parallel *g, propane_error *err);
/* After moments were read: each rank keeps its own. */
void data_parallel_release(data_parallel *g);
/* Over all ranks; over those whose gradients are added up: this rank's worker, in the warm-up all. */
PROPANE_CHECK propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err);
PROPANE_CHECK propane_status data_parallel_sum_inside(const data_parallel *g, double *values, int count,
                                                      propane_error *err);

/* ---- outer steps ------------------------------------------------------------------------------------------------- */

/* Is the step that comes next one of the warm-up? All ranks have the same weights and moments until its end. */
bool data_parallel_warms(const data_parallel *g);
/* NULL: none. `g` may be NULL. */
outer *data_parallel_outer(const data_parallel *g);

#endif
