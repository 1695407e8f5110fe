/* SPDX-License-Identifier: MIT
 * Samples from NumPy arrays: one array per input of the program, and the array y with the expected outputs.
 */
#ifndef TRAIN_DATA_ARRAYS_H
#define TRAIN_DATA_ARRAYS_H

#include "core/base/npy.h"
#include "train/import/imported_step.h"

/* Returns the sample at position `index` of a fixed shuffle of `count` samples; the last ones are held out. */
int64_t sample_split(int64_t index, int64_t count);
/* Returns how many of `count` samples are held out: the fraction, rounded to the nearest integer, and at most count -
 * 1. */
int64_t sample_held_count(double fraction, int64_t count);

typedef struct arrays arrays;

/* Returns whether the path holds arrays: an .npz file, or a folder with train.npz, data.npz, x.npy, y.npy or
 * train/y.npy. */
bool arrays_here(const char *path);
/* Opens PATH/train.npz and PATH/val.npz, or PATH/train/ and PATH/val/ with .npy files, or arrays that are not divided,
 * of which the fraction `held_out` is held out for validation. Arrays have the names of the inputs; the array of a
 * single input may be called x. If the program does not determine the class axis of its output, the labels do. */
PROPANE_CHECK propane_status arrays_open(const char *path, imported_model *m, double held_out, arrays **out,
                                         propane_error *err);
/* Opens arrays in memory: parts[0] for training and parts[1] for validation. If parts[1] has no arrays, the fraction
 * `held_out` of parts[0] is held out instead. This function takes over the names and lists even if it fails; array data
 * are borrowed until arrays_close. */
PROPANE_CHECK propane_status arrays_take(npz parts[2], imported_model *m, double held_out, arrays **out,
                                         propane_error *err);
void arrays_close(arrays *a);
const sample_source *arrays_source(const arrays *a);

#endif
