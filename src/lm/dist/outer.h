/* SPDX-License-Identifier: MIT
 * Training with few messages (DiLoCo, arXiv 2311.08105): each worker makes its own AdamW steps, and every so many of them the
 * workers agree. What a worker moved since then, theta0 - theta, is averaged over the workers and taken as a gradient by an
 * outer step with Nesterov momentum; all workers go on from its result.
 *
 * Where the workers' own rate falls, so does what the momentum adds: the movements that it remembers were made at a higher rate.
 * At the end, with little left to move, it would carry the weights past where they were led to.
 *
 * With a rate of 1, no momentum and fp32 messages the outer step is the mean of the workers' weights, summed in the order of
 * the workers and divided by their number.
 *
 * Streamed (arXiv 2501.18512) the parameters are cut into fragments that take turns, and what a turn sends may be under way
 * while the worker goes on: a thread of its own sums it up, and the result is taken a set number of steps later, mixed with
 * what the weights are by then. So it depends on no clock, and ranks that are late are waited for. The workers' weights are
 * then never all the same before the last step; theta0, which is, can be put in their place for a look at the model.
 */
#ifndef LM_DIST_OUTER_H
#define LM_DIST_OUTER_H

#include "lm/step/step.h"
#include "train/dist/allreduce.h"
#include "train/optim/schedule.h"

typedef struct outer_options {
    int64_t every; /* inner steps between two outer ones; 0: none */
    double lr, momentum;
    int64_t fragments;              /* that take turns, one every every / fragments steps; 0 or 1: all at once */
    int64_t delay;                  /* steps from sending to taking the result; at most every / fragments */
    const train_schedule *schedule; /* of the workers' own steps, borrowed; NULL: their rate stays as it is */
    int64_t first;                  /* steps of it before the workers' own, which are counted from there */
    double mix; /* the part of the worker's own weights in what it goes on with, where there is a delay */
} outer_options;

typedef struct outer outer;

/* Do the workers' weights differ whenever one looks? */
static inline bool outer_streams(const outer_options *o) { return o->fragments > 1 || o->delay > 0; }

/* Nothing but the workers' weights is needed: no common weights are kept. */
static inline bool outer_is_mean(const outer_options *o, allreduce_wire wire) {
    return o->lr == 1 && o->momentum == 0 && wire == ALLREDUCE_FP32 && !outer_streams(o);
}

/* The weights as they are now are what all workers have in common. `pieces` [count] of the learnt tensors, numbered as they
 * are learnt, is what this rank agrees on (NULL: all), and `reduce` has them as its tensors, is not sharded, and is of
 * `ranks`, one of each worker. Streamed, both are used by another thread from now on. All are borrowed until it is freed. */
PROPANE_CHECK propane_status outer_create(mpi *ranks, allreduce *reduce, const train_piece *pieces, int count,
                                          const outer_options *options, train_step *step, model_weights *weights,
                                          outer **out, propane_error *err);
void outer_free(outer *o);
/* After the loss of ranks (mpi.h), which all that are left have parted from: with these ranks and sums from now on. Before it
 * outer_abandon: what was under way is none of it, is part of what was moved since then, and sent again. */
void outer_abandon(outer *o);
void outer_regroup(outer *o, mpi *ranks, allreduce *reduce);
/* All ranks call it after the same inner step, `step`: everything is agreed on at once. The weights are the same bits on all of them
 * afterwards; here and below, the device follows with train_step_publish. */
PROPANE_CHECK propane_status outer_agree(outer *o, int64_t step, propane_error *err);
/* Steps are counted from the first one that workers made by themselves.
 * After each inner step: takes what is due, sends what has its turn; after the last one everything is agreed on. *bytes: this
 * rank sends for it. *moved: weights have changed. `stop`: this worker is asked to stop, which goes with what is sent. */
PROPANE_CHECK propane_status outer_turn(outer *o, int64_t step, int64_t steps, bool stop, int64_t *bytes, bool *moved,
                                        propane_error *err);
/* A worker was asked to stop when the newest result was sent: the same on all ranks. */
bool outer_is_told(const outer *o);
/* Steps since the part of the weights that waits for longest was agreed on. */
int64_t outer_staleness(const outer_options *options, int64_t step);
/* The weights were read from a file: they are what the workers have in common now. */
void outer_begin(outer *o);

/* ---- files; arrays of a learnt tensor, like the tensor, of which the rank's pieces count ---------------------------------- */

float *outer_momentum(const outer *o, int learnt); /* NULL without momentum */
/* Streamed: theta0, while it is shown the worker's own weights; else NULL. */
float *outer_aside(const outer *o, int learnt);
/* Weights and theta0 change places, or back. Nothing where they are the same. */
void outer_show(outer *o, bool common);
bool outer_is_shown(const outer *o);
/* Of a tensor of which a part is under way: the sum, once outer_settle has waited for it; else NULL. */
float *outer_flight(const outer *o, int learnt);
PROPANE_CHECK propane_status outer_settle(outer *o, propane_error *err);
/* Where it was sent; -1: nothing is under way. */
int64_t outer_flight_step(const outer *o);
/* A file has what was under way since then: outer_flight is to be filled. -1: it has not, or not all workers' have. */
void outer_restore_flight(outer *o, int64_t step);
/* The arrays of outer_aside were filled with the worker's own weights, and the weights are theta0. */
void outer_restore_aside(outer *o);

#endif
