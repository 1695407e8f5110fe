/* SPDX-License-Identifier: MIT
 * A run's state in one safetensors file: weights under their names, moments as optimizer.1.NAME and optimizer.2.NAME,
 * and in the metadata the options by their keys, what the run was about and its train_state. Other programs read the
 * weights in it as a model; the rest is named so that they pass it over.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "core/base/arena.h"
#include "train/checkpoint_metadata.h"

typedef struct train_run train_run;
typedef struct train_state train_state;
typedef struct train_tensor train_tensor;

enum { TRAIN_NAME_ROOM = 400 };
/* What a tensor of block 0 (weights), 1, 2 (moments) or 3 is called in the file. Returns `out`. */
const char *train_checkpoint_name(char out[TRAIN_NAME_ROOM], const train_tensor *t, int block);
/* The state in a file's metadata, a key for each member. */
PROPANE_CHECK propane_status train_checkpoint_put_state(safetensors_writer *w, const train_state *s,
                                                        propane_error *err);
PROPANE_CHECK propane_status train_checkpoint_get_state(const checkpoint_metadata *m, train_state *s,
                                                        propane_error *err);

PROPANE_CHECK propane_status train_checkpoint_write(train_run *r, propane_error *err);
/* The weights alone, of the evaluation that was just made; and back, if the file is there and of state.best. */
PROPANE_CHECK propane_status train_checkpoint_write_best(train_run *r, propane_error *err);
/* The same into a file of its own, with the loss in its metadata ("val_loss"). */
PROPANE_CHECK propane_status train_checkpoint_write_kept(train_run *r, const char *path, double loss,
                                                         propane_error *err);
PROPANE_CHECK propane_status train_checkpoint_read_best(train_run *r, bool *taken, propane_error *err);
/* Fills the tensors of blocks first to last, and with block 0 the state; refuses a checkpoint of another model, other
 * data or other options before anything is changed. */
PROPANE_CHECK propane_status train_checkpoint_read(train_run *r, int first, int last, propane_error *err);
/* Sets the options that the checkpoint's run was made with; their texts are put into the arena. options->kind says
 * which kind of run it must be. */
PROPANE_CHECK propane_status train_checkpoint_recall(const char *path, arena *a, train_options *options,
                                                     propane_error *err);

#endif
