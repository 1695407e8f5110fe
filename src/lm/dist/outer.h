/* SPDX-License-Identifier: MIT
 * Training with few messages (DiLoCo, arXiv 2311.08105): each worker makes its own AdamW steps, and every so many of
 * them the workers agree. What a worker moved since then, theta0 - theta, is averaged over the workers and taken as a
 * gradient by an outer step with Nesterov momentum; all workers go on from its result.
 *
 * Where the workers' own rate falls, so does what the momentum adds: the movements that it remembers were made at a
 * higher rate. At the end, with little left to move, it would carry the weights past where they were led to.
 *
 * With a rate of 1, no momentum and fp32 messages the outer step is the mean of the workers' weights, summed in the
 * order of the workers and divided by their number.
 */
#ifndef LM_DIST_OUTER_H
#define LM_DIST_OUTER_H

#include "lm/step/step.h"
#include "train/dist/allreduce.h"
#include "train/optim/schedule.h"

typedef struct outer_options {
    int64_t every; /* inner steps between two outer ones; 0: none */
    double lr, momentum;
    const train_schedule *schedule; /* of the workers' own steps, borrowed; NULL: their rate stays as it is */
    int64_t first;                  /* steps of it before the workers' own, which are counted from there */
} outer_options;

typedef struct outer outer;

/* Nothing but the workers' weights is needed: no common weights are kept. */
static inline bool outer_is_mean(const outer_options *o, allreduce_wire wire) {
    return o->lr == 1 && o->momentum == 0 && wire == ALLREDUCE_FP32;
}

/* The weights as they are now are what all workers have in common. `pieces` [count] of the learnt tensors, numbered as
 * they are learnt, is what this rank agrees on (NULL: all), and `reduce` has them as its tensors, is not sharded, and
 * is of `ranks`, one of each worker. All are borrowed until it is freed. */
PROPANE_CHECK propane_status outer_create(mpi *ranks, allreduce *reduce, const train_piece *pieces, int count,
                                          const outer_options *options, train_step *step, model_weights *weights,
                                          outer **out, propane_error *err);
void outer_free(outer *o);
/* All ranks call it after the same inner step, `step`, counted from the first one that workers made by themselves. The
 * weights are the same bits on all of them afterwards; here and below, the device follows with train_step_publish. */
PROPANE_CHECK propane_status outer_agree(outer *o, int64_t step, propane_error *err);
/* The weights were read from a file: they are what the workers have in common now. */
void outer_begin(outer *o);

/* For files: an array of a learnt tensor, like the tensor, of which the rank's pieces count; NULL without momentum. */
float *outer_momentum(const outer *o, int learnt);

#endif
