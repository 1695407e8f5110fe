/* SPDX-License-Identifier: MIT
 * Samples from NumPy arrays: one array per input of the program, and one, y, with the expected output.
 */
#ifndef TRAIN_DATA_ARRAYS_H
#define TRAIN_DATA_ARRAYS_H

#include "core/base/npy.h"
#include "train/import/imported_step.h"

/* Returns the number of the sample at position `index` of a fixed shuffle of `count`; the last ones are held out. */
int64_t sample_split(int64_t index, int64_t count);
/* Returns a fraction of `count` samples, rounded to the nearest and at most count - 1. */
int64_t sample_held_count(double fraction, int64_t count);

typedef struct arrays arrays;

/* Returns whether the path holds arrays: an .npz file, or a folder with train.npz, data.npz, y.npy or train/y.npy. */
bool arrays_here(const char *path);
/* Opens DIR/train.npz and val.npz, DIR/train/ and val/ with .npy files, or arrays without parts, of which the fraction
 * `held_out` becomes the second part. Arrays have the names of the inputs; a single input may be called x. The labels
 * may determine which axis holds the model's classes. */
PROPANE_CHECK propane_status arrays_open(const char *path, imported_model *m, double held_out, arrays **out,
                                         propane_error *err);
/* Does the same from memory: parts[0] for training, parts[1] for validation (if it has no arrays, `held_out` of the
 * others). Ownership of names and lists passes to this function even if it fails; array data are borrowed until the
 * end. */
PROPANE_CHECK propane_status arrays_take(npz parts[2], imported_model *m, double held_out, arrays **out,
                                         propane_error *err);
void arrays_close(arrays *a);
const sample_source *arrays_source(const arrays *a);

#endif
