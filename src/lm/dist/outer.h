/* SPDX-License-Identifier: MIT
 * Training with few messages (DiLoCo, arXiv 2311.08105). Each worker makes separate AdamW steps, and after a fixed
 * number of steps the workers synchronise. A worker's movement since then, theta0 - theta, is averaged over the workers
 * and used as the gradient of an outer step with Nesterov momentum. All workers continue from its result.
 *
 * When the workers' learning rate falls, the contribution of the momentum falls with it, because the momentum remembers
 * movements that were made at a higher rate. Otherwise it would carry the weights past their target at the end.
 *
 * With a rate of 1, no momentum and fp32 messages, the outer step is the mean of the workers' weights, summed in the
 * order of the workers and divided by their number.
 */
#ifndef LM_DIST_OUTER_H
#define LM_DIST_OUTER_H

#include "lm/step/step.h"
#include "train/dist/allreduce.h"
#include "train/optim/schedule.h"

typedef struct outer_options {
    int64_t every; /* inner steps from one outer step to the next; 0 means none */
    double lr, momentum;
    const train_schedule *schedule; /* schedule of the workers' steps, borrowed; NULL means a constant rate */
    int64_t first;                  /* steps before the workers' independent steps, which are counted from there */
} outer_options;

typedef struct outer outer;

/* Returns whether only the workers' weights are needed, and no common weights are kept. */
static inline bool outer_is_mean(const outer_options *o, allreduce_wire wire) {
    return o->lr == 1 && o->momentum == 0 && wire == ALLREDUCE_FP32;
}

/* The current weights are what all workers have in common. `pieces` [count] of the trained tensors, numbered among
 * these, are what this rank synchronises (NULL means all). `reduce` holds them as its tensors, must not be sharded, and
 * spans `ranks`, one of each worker. All are borrowed until the outer is freed. */
PROPANE_CHECK propane_status outer_create(mpi *ranks, allreduce *reduce, const train_piece *pieces, int count,
                                          const outer_options *options, train_step *step, model_weights *weights,
                                          outer **out, propane_error *err);
void outer_free(outer *o);
/* All ranks must call it after the same inner step, `step`, counted from the first independent one. Afterwards the
 * weights have the same bits on all of them. Here and below, train_step_publish updates the device. */
PROPANE_CHECK propane_status outer_synchronise(outer *o, int64_t step, propane_error *err);
/* Called after the weights were read from a file: they are now the weights that the workers have in common. */
void outer_begin(outer *o);

/* For files: returns a trained tensor's momentum, of the same size, of which only the rank's pieces are valid. NULL
 * without momentum. */
float *outer_momentum(const outer *o, int updated);

#endif
