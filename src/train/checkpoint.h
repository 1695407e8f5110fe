/* SPDX-License-Identifier: MIT
 * A run's state in one safetensors file. Weights are stored under their names, moments as optimizer.1.NAME and
 * optimizer.2.NAME. The metadata holds the options by their keys, the fingerprints of data and model, and train_state.
 * Other programs read the weights in it as a model; the names of the rest are chosen so that they ignore it.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "core/base/arena.h"
#include "train/checkpoint_metadata.h"

typedef struct train_run train_run;
typedef struct train_state train_state;
typedef struct train_tensor train_tensor;

enum { TRAIN_NAME_ROOM = 400 };
/* Writes the name in the file of a tensor of block 0 (weights), 1 or 2 (moments), or 3. Returns `out`. */
const char *train_checkpoint_name(char out[TRAIN_NAME_ROOM], const train_tensor *t, int block);
/* Writes the state into a file's metadata, one key per member. */
PROPANE_CHECK propane_status train_checkpoint_put_state(safetensors_writer *w, const train_state *s,
                                                        propane_error *err);
PROPANE_CHECK propane_status train_checkpoint_get_state(const checkpoint_metadata *m, train_state *s,
                                                        propane_error *err);

PROPANE_CHECK propane_status train_checkpoint_write(train_run *r, propane_error *err);
/* Writes only the weights, right after an evaluation; the second function reads them back if the file exists and is
 * from step state.best. */
PROPANE_CHECK propane_status train_checkpoint_write_best(train_run *r, propane_error *err);
/* Does the same into a separate file, with the loss in its metadata ("val_loss"). */
PROPANE_CHECK propane_status train_checkpoint_write_kept(train_run *r, const char *path, double loss,
                                                         propane_error *err);
PROPANE_CHECK propane_status train_checkpoint_read_best(train_run *r, bool *taken, propane_error *err);
/* Fills the tensors of blocks first to last and, with block 0, the state. Refuses a checkpoint of another model, other
 * data or other options before anything is changed. */
PROPANE_CHECK propane_status train_checkpoint_read(train_run *r, int first, int last, propane_error *err);
/* Sets the options with which the checkpoint's run was made; their texts are copied into the arena. options->kind is
 * the kind of run that it must be. */
PROPANE_CHECK propane_status train_checkpoint_recall(const char *path, arena *a, train_options *options,
                                                     propane_error *err);

#endif
