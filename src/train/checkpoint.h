/* SPDX-License-Identifier: MIT
 * A run's state in one safetensors file. Weights are stored under their names, moments as optimizer.1.NAME and
 * optimizer.2.NAME. The metadata holds the options by their keys, the fingerprints of data and model, and train_state.
 * Other programs can read the file as a model: they find the weights and ignore the other tensors because of their
 * names.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "core/base/arena.h"
#include "train/checkpoint_metadata.h"

typedef struct train_run train_run;
typedef struct train_state train_state;
typedef struct train_tensor train_tensor;

enum { TRAIN_NAME_ROOM = 400 };
/* Writes to `out` the name that a tensor has in the file, and returns `out`. `block` is 0 (weights), 1 or 2 (moments)
 * or 3 (the momentum of outer steps). */
const char *train_checkpoint_name(char out[TRAIN_NAME_ROOM], const train_tensor *t, int block);
/* Writes the state into a file's metadata, one key per member. */
PROPANE_CHECK propane_status train_checkpoint_put_state(safetensors_writer *w, const train_state *s,
                                                        propane_error *err);
PROPANE_CHECK propane_status train_checkpoint_get_state(const checkpoint_metadata *m, train_state *s,
                                                        propane_error *err);

PROPANE_CHECK propane_status train_checkpoint_write(train_run *r, propane_error *err);
/* Writes only the weights, right after an evaluation, to r->best. */
PROPANE_CHECK propane_status train_checkpoint_write_best(train_run *r, propane_error *err);
/* Writes only the weights to the file `path`, with the loss in its metadata ("val_loss"). */
PROPANE_CHECK propane_status train_checkpoint_write_kept(train_run *r, const char *path, double loss,
                                                         propane_error *err);
/* Reads the weights of r->best if the file exists and is from step state.best, and sets *taken to whether it did. */
PROPANE_CHECK propane_status train_checkpoint_read_best(train_run *r, bool *taken, propane_error *err);
/* Reads the tensors of blocks `first` to `last` and, with block 0, the state. With block 0, a checkpoint of another
 * model, other data or other options is refused before anything is changed. */
PROPANE_CHECK propane_status train_checkpoint_read(train_run *r, int first, int last, propane_error *err);
/* Sets the options to those of the checkpoint's run; their texts are copied into the arena. The checkpoint must be of a
 * run of kind options->kind. */
PROPANE_CHECK propane_status train_checkpoint_recall(const char *path, arena *a, train_options *options,
                                                     propane_error *err);

#endif
