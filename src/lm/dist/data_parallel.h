/* SPDX-License-Identifier: MIT
 * The ranks of one training. Data-parallel, each takes its part of every batch, gradients are added up while the backward
 * pass runs, all make the same update. With outer steps (dist/outer.h) that is so inside a worker (dist/workers.h), if it has
 * several ranks; each worker takes its part of every batch, but trains by itself until the workers agree; between that, no
 * messages are waited for. Before the outer steps there may be a warm-up, whose steps are data-parallel over all ranks, so that
 * workers begin to differ from a model that is worth to be averaged. NULL stands for a process that trains alone; then nothing here does anything, and
 * sums and parts are its own.
 */
#ifndef LM_DIST_DATA_PARALLEL_H
#define LM_DIST_DATA_PARALLEL_H

#include "lm/dist/outer.h"
#include "lm/step/step.h"
#include "train/dist/workers.h"

typedef struct data_parallel data_parallel;

typedef struct data_parallel_options {
    allreduce_options sums;
    outer_options outer; /* for two workers and more: one has nobody to agree with and trains as if alone */
    int64_t done;        /* steps that the run has made; those before outer.first are its warm-up's */
} data_parallel_options;

/* How many of a batch's sequences a rank takes; PROPANE_ERR_INVALID if the ranks do not divide it. */
PROPANE_CHECK propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err);
/* `who`, the step and the weights are borrowed until it is freed. */
PROPANE_CHECK propane_status data_parallel_create(const workers *who, const data_parallel_options *options,
                                                  train_step *step, model_weights *weights, data_parallel **out,
                                                  propane_error *err);
void data_parallel_free(data_parallel *g);
bool data_parallel_writes(const mpi *m); /* is this the rank that writes files? */
int data_parallel_rank(const mpi *m);

/* Before the last batch of a step: its gradients are added up over the worker's ranks, in the warm-up over all. */
void data_parallel_listen(data_parallel *g);
/* After it: no more. */
void data_parallel_rest(data_parallel *g);
/* Of the sums over all of them. */
PROPANE_CHECK propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err);
/* After the update: with sharded moments the weights are gathered. */
PROPANE_CHECK propane_status data_parallel_updated(data_parallel *g, propane_error *err);
/* Before a checkpoint: who leads a worker gets all moments and all that outer steps keep. After it, or after they were read:
 * each rank keeps its own. */
PROPANE_CHECK propane_status data_parallel_collect(data_parallel *g, propane_error *err);
void data_parallel_release(data_parallel *g);
/* Over all ranks; over those whose gradients are added up: this rank's worker, in the warm-up all. */
PROPANE_CHECK propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err);
PROPANE_CHECK propane_status data_parallel_sum_inside(const data_parallel *g, double *values, int count,
                                                      propane_error *err);

/* ---- outer steps ---------------------------------------------------------------------------------------------------------- */

/* Is the step that comes next one of the warm-up? All ranks have the same weights and moments until its end. */
bool data_parallel_warms(const data_parallel *g);
/* May the ranks evaluate, save and stop after `step` of `steps`? Where they make updates of their own: as often as they
 * agree; streamed, at any time. */
bool data_parallel_agrees(const data_parallel *g, int64_t step, int64_t steps);
/* Steps since the place before that which ends after `step`. */
int64_t data_parallel_stride(const data_parallel *g, int64_t step);
/* Do the ranks agree piece by piece, while they train? */
bool data_parallel_streams(const data_parallel *g);
/* Has any rank been asked to stop? `own`: this one has. The same answer on all ranks, where they agree or (streamed) with the
 * newest result that was taken. */
PROPANE_CHECK propane_status data_parallel_is_told(const data_parallel *g, bool own, bool *out, propane_error *err);
/* After `step`: the outer step, where it is time for one, or the end of the warm-up. *bytes: sent by this rank, in the warm-up
 * for the step's gradients. `stop`: this rank has been asked to. */
PROPANE_CHECK propane_status data_parallel_agree(data_parallel *g, int64_t step, int64_t steps, bool stop,
                                                 int64_t *bytes, propane_error *err);
/* Streamed: what the workers have in common takes the place of the weights, on the device, too, or (false) gives it back.
 * Nothing where they are the same. */
PROPANE_CHECK propane_status data_parallel_show(data_parallel *g, bool common, propane_error *err);
/* Steps since the oldest part of the weights was agreed on; -1: there are no outer steps. */
int64_t data_parallel_staleness(const data_parallel *g, int64_t step, int64_t steps);
/* A rank was lost, and the others can go on (workers_shed): then data_parallel_shed, which all of them call after the same
 * failure. Nothing has moved by what failed. */
bool data_parallel_is_bereft(const data_parallel *g);
/* Ranks and workers are those that are left, numbered anew; of one, outer steps are over. `who` is the one of
 * data_parallel_create. *lost: how many ranks are gone. */
PROPANE_CHECK propane_status data_parallel_shed(data_parallel *g, workers *who, int *lost, propane_error *err);
/* NULL: none. */
outer *data_parallel_outer(const data_parallel *g);
allreduce *data_parallel_movements(const data_parallel *g);
/* What a rank's file of its own must have in common with the run that goes on from it. */
void data_parallel_describe(const data_parallel *g, char *out, size_t room);

#endif
