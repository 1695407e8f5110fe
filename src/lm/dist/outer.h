/* SPDX-License-Identifier: MIT
 * Training with few messages (DiLoCo, arXiv 2311.08105). Each worker makes separate AdamW steps, and after a fixed
 * number of steps the workers synchronise. The movement of each worker since the last synchronisation, theta0 - theta,
 * is averaged over the workers and used as the gradient of an outer step with Nesterov momentum. All workers continue
 * from the result of this step.
 *
 * When the workers' learning rate falls, the contribution of the momentum is reduced in proportion, because the
 * momentum consists of movements that were made at a higher rate. Otherwise the momentum would carry the weights past
 * their target at the end.
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
    int64_t every; /* inner steps from one outer step to the next; 0 means no outer steps */
    double lr, momentum;
    const train_schedule *schedule; /* schedule of the workers' steps, borrowed; NULL means a constant rate */
    int64_t first;                  /* number of steps before the workers' independent steps */
} outer_options;

typedef struct outer outer;

/* Returns whether an outer step is a plain mean, which needs no copy of the common weights. */
static inline bool outer_is_mean(const outer_options *o, allreduce_wire wire) {
    return o->lr == 1 && o->momentum == 0 && wire == ALLREDUCE_FP32;
}

/* The current weights become the common weights of all workers. This rank synchronises the `pieces` [count] of the
 * trained tensors, numbered among these; NULL means all tensors. The tensors of `reduce` are these pieces; it must not
 * be sharded, and it spans `ranks`, one rank of each worker. `reduce`, the step, the weights and the schedule are
 * borrowed until the outer is freed. */
PROPANE_CHECK propane_status outer_create(mpi *ranks, allreduce *reduce, const train_piece *pieces, int count,
                                          const outer_options *options, train_step *step, model_weights *weights,
                                          outer **out, propane_error *err);
void outer_free(outer *o);
/* Makes an outer step. All ranks must call this after the same inner step, `step`, counted from the first independent
 * one. Afterwards the weights have the same bits on all ranks. The caller updates the device with
 * train_step_publish. */
PROPANE_CHECK propane_status outer_synchronise(outer *o, int64_t step, propane_error *err);
/* Makes the current weights the common weights. Called when the warm-up ends. */
void outer_begin(outer *o);

/* Returns a trained tensor's momentum for the checkpoint, in the size of the tensor. Only this rank's pieces of the
 * momentum are valid. Returns NULL if no momentum is kept. */
float *outer_momentum(const outer *o, int updated);

#endif
