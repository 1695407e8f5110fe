/* SPDX-License-Identifier: MIT
 * A run that trains the weights of an imported program further. The run reads samples and writes a package with the new
 * weights.
 *
 * The run's folder holds checkpoint.safetensors and, once the run is done, model.mlpackage.
 */
#ifndef TRAIN_IMPORTED_RUN_H
#define TRAIN_IMPORTED_RUN_H

#include "train/import/imported_step.h"
#include "train/train_run.h"

/* Returns the options with which the program at `path` is opened. `shapes` sets the shapes of inputs that the file
 * leaves open. */
imported_model_options imported_run_model_options(const train_options *o, const char *path, mil_read_options shapes);
/* Of `how`, only the path and the shapes are used. The texts in `how`, the model and the source are borrowed until the
 * run is freed. If options->steps is 0 or --epochs is given, options->epochs determines the number of steps. A loss or
 * gradient that is not finite ends the run before the weights are changed. */
PROPANE_CHECK propane_status imported_run_create(const train_options *options, const imported_model_options *how,
                                                 imported_model *model, const sample_source *source, train_run **out,
                                                 propane_error *err);
imported_step *imported_run_step(const train_run *r);
/* Writes the program with its current weights as a package. */
PROPANE_CHECK propane_status imported_run_write(const train_run *r, const char *path, propane_error *err);

#endif
