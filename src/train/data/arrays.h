/* SPDX-License-Identifier: MIT
 * Samples from NumPy arrays: one array for each input of the program and one, y, of what is to come out.
 */
#ifndef TRAIN_DATA_ARRAYS_H
#define TRAIN_DATA_ARRAYS_H

#include "core/base/npy.h"
#include "train/import/imported_step.h"

/* Sample `index` of all when some of `count` are held out: the last ones of a fixed shuffle. */
int64_t sample_split(int64_t index, int64_t count);
/* How many of `count` a part of them is; 0 where it is less than one. */
int64_t sample_held_count(double fraction, int64_t count);

typedef struct arrays arrays;

/* Whether the path holds arrays: an .npz file, or a folder with train.npz, data.npz, y.npy or train/y.npy. */
bool arrays_here(const char *path);
/* DIR/train.npz and val.npz, DIR/train/ and val/ with .npy files, or without parts: `held_out` of the samples become
 * the second part. Arrays are called as the inputs, or x where there is one input. The labels may say which axis the
 * model's classes lie along. */
PROPANE_CHECK propane_status arrays_open(const char *path, imported_model *m, double held_out, arrays **out,
                                         propane_error *err);
/* The same from memory: parts[0] to train on, parts[1] to validate with (no arrays: `held_out` of the others). Names
 * and lists change hands, also after a failure; what the arrays hold is borrowed until the end. */
PROPANE_CHECK propane_status arrays_take(npz parts[2], imported_model *m, double held_out, arrays **out,
                                         propane_error *err);
void arrays_close(arrays *a);
const sample_source *arrays_source(const arrays *a);

#endif
