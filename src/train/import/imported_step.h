/* SPDX-License-Identifier: MIT
 * The training step of an imported program: its two programs on a device, their buffers, weights and gradients. Samples
 * are written into staging arrays, and running a program allocates nothing.
 */
#ifndef TRAIN_IMPORT_IMPORTED_STEP_H
#define TRAIN_IMPORT_IMPORTED_STEP_H

#include "train/import/imported_model.h"

/* The memory for one sample. */
typedef struct sample_room {
    void *const *inputs; /* in the program's order; arrays of float, or of int32_t for integer inputs */
    int32_t *labels;     /* cross-entropy: the class of each position, or -1 for none */
    float *values;       /* mse: the expected output */
} sample_room;

/* Samples for training (part 0) and for evaluation (part 1). */
typedef struct sample_source {
    void *context;
    int64_t count[2];
    uint64_t sum; /* checksum that distinguishes data of equal size */
    propane_status (*get)(void *context, int part, int64_t index, const sample_room *out, propane_error *err);
} sample_source;

typedef struct imported_step imported_step;

/* Makes the step on the device `device` or, if `shared` is not NULL, on `shared`, which must outlive the step. The step
 * processes `batch` samples at a time if the program can be built in this way and gives the same results as for single
 * samples, which is tested with samples from `source`; otherwise it processes one at a time. `bisect` is the folder for
 * refusal_explain and is borrowed. */
PROPANE_CHECK propane_status imported_step_create(imported_model *m, const char *device, propane_device *shared,
                                                  const char *bisect, int64_t batch, const sample_source *source,
                                                  imported_step **out, propane_error *err);
void imported_step_free(imported_step *s);
int64_t imported_step_samples(const imported_step *s); /* samples per run */
/* why there are fewer samples per run than requested; NULL if there are not */
const char *imported_step_why(const imported_step *s);
/* values of a weight, which may be changed between runs */
float *imported_step_weight(const imported_step *s, int weight);
/* Returns the gradient of a weight, summed (not averaged) since the last run with `first`. */
const float *imported_step_gradient(const imported_step *s, int weight);
const propane_program *imported_step_program(const imported_step *s); /* the program that computes gradients */

/* Allocates memory for sums of gradients. Required before the first run without `first`. */
PROPANE_CHECK propane_status imported_step_sum(imported_step *s, propane_error *err);

/* Writes a sample into place `at`. Returns PROPANE_ERR_INVALID if a label is outside the range of classes. */
PROPANE_CHECK propane_status imported_step_put(imported_step *s, const sample_source *source, int part, int64_t index,
                                               int64_t at, propane_error *err);
/* Computes the loss and gradients of the samples in places 0 .. samples-1. Sets *count to the number of positions or
 * values over which the loss is summed. With `first`, the gradients are overwritten; otherwise the new ones are added
 * to them. */
PROPANE_CHECK propane_status imported_step_run(imported_step *s, bool first, double *loss, int64_t *count,
                                               int64_t *device_ns, propane_error *err);
/* Computes only the loss of the samples in the first `samples` places. Sets *right to the number of positions whose
 * class has the largest output; 0 for mse. */
PROPANE_CHECK propane_status imported_step_evaluate(imported_step *s, int64_t samples, double *loss, int64_t *count,
                                                    int64_t *right, propane_error *err);

#endif
