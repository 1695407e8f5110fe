/* SPDX-License-Identifier: MIT
 * A run that trains weights of an imported program further: samples in, a package with new weights out.
 *
 * Its folder holds checkpoint.safetensors and, once it is done, model.mlpackage.
 */
#ifndef TRAIN_IMPORTED_RUN_H
#define TRAIN_IMPORTED_RUN_H

#include "train/import/imported_step.h"
#include "train/train_run.h"

/* What a program is opened with for these options. `shapes`: of inputs that the file leaves open. */
imported_model_options imported_run_model_options(const train_options *o, const char *path, mil_read_options shapes);
/* `how` gives path and shapes; these, model and source are borrowed until the run is freed. options->steps 0, or
 * --epochs given: as many as options->epochs are. A loss that is no number ends the run before the weights are
 * moved. */
PROPANE_CHECK propane_status imported_run_create(const train_options *options, const imported_model_options *how,
                                                 imported_model *model, const sample_source *source, train_run **out,
                                                 propane_error *err);
imported_step *imported_run_step(const train_run *r);
/* The program with the weights as they are, as a package. */
PROPANE_CHECK propane_status imported_run_write(const train_run *r, const char *path, propane_error *err);

#endif
