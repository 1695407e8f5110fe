/* SPDX-License-Identifier: MIT
 * The ranks of one training run. In data-parallel training, each rank processes its part of every batch, gradients are
 * summed while the backward pass runs, and all ranks make the same update. With outer steps (lm/dist/outer.h), only the
 * ranks of a worker (train/dist/workers.h) train in this way. The workers then train independently until they
 * synchronise, and wait for no messages in between. A warm-up may precede the outer steps: its steps are data-parallel
 * over all ranks, so that workers diverge only once the model is worth averaging. A data_parallel that is NULL stands
 * for a single process, for which these functions change nothing.
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
    outer_options outer; /* used only with two or more workers */
    int64_t done;        /* number of steps that the run has made; the warm-up ends at step outer.first */
} data_parallel_options;

/* Sets *share to the number of sequences of a batch that a rank processes. Returns PROPANE_ERR_INVALID if the number of
 * ranks does not divide the batch. */
PROPANE_CHECK propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* Sets *out to NULL for a single process. `who`, the step and the weights are borrowed until the group is freed; the
 * run owns the group. */
PROPANE_CHECK propane_status data_parallel_create(const workers *who, const data_parallel_options *options,
                                                  train_step *step, model_weights *weights, data_parallel **out,
                                                  propane_error *err);
/* Returns the group in the form that a run calls, or NULL if `g` is NULL. */
train_group *data_parallel_group(data_parallel *g);

/* Called before the last batch of a step. The step's gradients are then summed over the worker's ranks or, in the
 * warm-up, over all ranks. */
void data_parallel_listen(data_parallel *g);
/* Called after the batch, to stop summing. */
void data_parallel_rest(data_parallel *g);
/* Computes the norm of the summed gradients. With sharded moments, the ranks of the worker add up their parts. */
PROPANE_CHECK propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err);
/* Called after the update. With sharded moments, gathers the weights from the ranks of the worker. */
PROPANE_CHECK propane_status data_parallel_updated(data_parallel *g, propane_error *err);
/* Called after moments have been read. Returns the memory of the parts that belong to other ranks to the system. */
void data_parallel_release(data_parallel *g);
/* Sum values over all ranks (data_parallel_sum), or over the ranks whose gradients are summed
 * (data_parallel_sum_inside): those of this worker or, in the warm-up, all ranks. */
PROPANE_CHECK propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err);
PROPANE_CHECK propane_status data_parallel_sum_inside(const data_parallel *g, double *values, int count,
                                                      propane_error *err);

/* ---- outer steps ------------------------------------------------------------------------------------------------- */

/* Returns whether the next step belongs to the warm-up. All ranks have the same weights and moments until the warm-up
 * ends. */
bool data_parallel_warms(const data_parallel *g);
/* Returns NULL if there are no outer steps. `g` may be NULL. */
outer *data_parallel_outer(const data_parallel *g);

#endif
