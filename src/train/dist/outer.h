/* SPDX-License-Identifier: MIT
 * Training with few messages (DiLoCo, arXiv 2311.08105): each rank makes its own AdamW steps, and every so many of them the
 * ranks agree. What a rank moved since then, theta0 - theta, is averaged over the ranks and taken as a gradient by an outer
 * step with Nesterov momentum; all ranks go on from its result.
 *
 * With a rate of 1, no momentum and fp32 messages the outer step is the mean of the ranks' weights, summed in the order of
 * the ranks and divided by their number.
 */
#ifndef TRAIN_DIST_OUTER_H
#define TRAIN_DIST_OUTER_H

#include "train/dist/allreduce.h"
#include "train/step/step.h"

typedef struct outer_options {
    int64_t every; /* inner steps between two outer ones; 0: none */
    double lr, momentum;
} outer_options;

typedef struct outer outer;

/* Nothing but the ranks' weights is needed: no common weights are kept. */
static inline bool outer_is_mean(const outer_options *o, allreduce_wire wire) {
    return o->lr == 1 && o->momentum == 0 && wire == ALLREDUCE_FP32;
}

/* The weights as they are now are what all ranks have in common. `reduce`, of the same tensors as the step learns and not
 * sharded, the step and the weights are borrowed until it is freed. */
PROPANE_CHECK propane_status outer_create(allreduce *reduce, int ranks, const outer_options *options, train_step *step,
                                          model_weights *weights, outer **out, propane_error *err);
void outer_free(outer *o);
/* All ranks call it after the same inner step. The weights are the same bits on all of them afterwards, on the device too. */
PROPANE_CHECK propane_status outer_agree(outer *o, propane_error *err);
/* The weights were read from a file: they are what the ranks have in common now. */
void outer_begin(outer *o);
/* Momentum of a learnt tensor, like the tensor; NULL without momentum. */
float *outer_momentum(const outer *o, int learnt);

#endif
