/* SPDX-License-Identifier: MIT
 * A run's state in one safetensors file. Other programs read the weights in it as a model; the rest is named so that they
 * pass it over.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "train/trainer.h"

/* What changes from step to step beside weights and moments. */
typedef struct train_state {
    int64_t step;      /* steps done */
    int64_t updates;   /* of them, how many moved the weights */
    int64_t position;  /* windows drawn from the data */
    int64_t evaluated; /* step of the last evaluation; -1: none */
    train_scaler scaler;
} train_state;

/* `step` NULL: only the weights are written, and no state. */
PROPANE_CHECK propane_status train_checkpoint_write(const char *path, const train_options *options,
                                                    const train_input *input, const train_state *state,
                                                    const model_weights *weights, train_step *step, propane_error *err);
/* Fills state and weights (with adapters only those); refuses a checkpoint of another model, other data or other options. */
PROPANE_CHECK propane_status train_checkpoint_read(const char *path, const train_options *options,
                                                   const train_input *input, train_state *state, model_weights *weights,
                                                   propane_error *err);
/* The moments, of a file that was read before. */
PROPANE_CHECK propane_status train_checkpoint_moments(const char *path, const model_weights *weights, train_step *step,
                                                      propane_error *err);
/* Sets the options that the checkpoint's run was made with; their texts are put into the arena. */
PROPANE_CHECK propane_status train_checkpoint_recall(const char *path, arena *a, train_options *options,
                                                     propane_error *err);

#endif
