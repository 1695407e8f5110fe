/* SPDX-License-Identifier: MIT
 * The ranks of one training run. Data-parallel: each rank processes its part of every batch, gradients are summed while
 * the backward pass runs, and all ranks make the same update. With outer steps (dist/outer.h) this applies within a
 * worker (dist/workers.h) if it has several ranks. Each worker processes its part of every batch but trains
 * independently until the workers synchronise, and waits for no messages in between. A warm-up may precede the outer
 * steps.
 * Its steps are data-parallel over all ranks, so that workers diverge only once the model is worth averaging. NULL
 * means a single process: nothing here then does anything, and sums and parts cover only the process.
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
    outer_options outer; /* for two or more workers: a single one trains as if there were no others */
    int64_t done;        /* steps that the run has made; those before outer.first belong to its warm-up */
} data_parallel_options;

/* Sets how many sequences of a batch a rank processes. Returns PROPANE_ERR_INVALID if the ranks do not divide the
 * batch. */
PROPANE_CHECK propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* `who`, the step and the weights are borrowed until the group is freed; the run owns the group. */
PROPANE_CHECK propane_status data_parallel_create(const workers *who, const data_parallel_options *options,
                                                  train_step *step, model_weights *weights, data_parallel **out,
                                                  propane_error *err);
/* Returns the group in the form that a run calls; NULL for NULL. */
train_group *data_parallel_group(data_parallel *g);

/* Called before the last batch of a step: its gradients are summed over the worker's ranks, or in the warm-up over all
 * ranks. */
void data_parallel_listen(data_parallel *g);
/* Called after it, to stop summing. */
void data_parallel_rest(data_parallel *g);
/* Computes the norm of the sums over all of them. */
PROPANE_CHECK propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err);
/* Called after the update: with sharded moments, the weights are gathered. */
PROPANE_CHECK propane_status data_parallel_updated(data_parallel *g, propane_error *err);
/* Called after moments were read: each rank keeps only its part. */
void data_parallel_release(data_parallel *g);
/* Sum values over all ranks, or over those whose gradients are summed: this rank's worker, and in the warm-up all
 * ranks. */
PROPANE_CHECK propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err);
PROPANE_CHECK propane_status data_parallel_sum_inside(const data_parallel *g, double *values, int count,
                                                      propane_error *err);

/* ---- outer steps ------------------------------------------------------------------------------------------------- */

/* Returns whether the next step belongs to the warm-up. All ranks have the same weights and moments until its end. */
bool data_parallel_warms(const data_parallel *g);
/* NULL if there is none. `g` may be NULL. */
outer *data_parallel_outer(const data_parallel *g);

#endif
