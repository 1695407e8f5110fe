/* SPDX-License-Identifier: MIT
 * The machinery of a fine-tuning run: the model's two programs on a device, their buffers, weights and gradients.
 * Samples are written into its staging arrays; a run allocates nothing.
 */
#ifndef TRAIN_IMPORT_IMPORTED_STEP_H
#define TRAIN_IMPORT_IMPORTED_STEP_H

#include "train/import/imported_model.h"

/* The memory into which one sample is written. */
typedef struct sample_room {
    void *const *inputs; /* in the program's order: float, or int32_t for integer inputs */
    int32_t *labels;     /* cross-entropy: the class of each position, or -1 for none */
    float *values;       /* mse: the expected output */
} sample_room;

/* Samples for training (part 0) and for evaluation (part 1). */
typedef struct sample_source {
    void *context;
    int64_t count[2];
    uint64_t sum; /* distinguishes data of equal size */
    propane_status (*get)(void *context, int part, int64_t index, const sample_room *out, propane_error *err);
} sample_source;

typedef struct imported_step imported_step;

/* Makes the step on a separate device, or on a shared one that outlives it (NULL if there is none). It processes
 * `batch` samples at a time if the program can be built that way and returns the same results as for single samples,
 * otherwise one. That is tried with samples from `source`. bisect is the folder for refusal_explain, borrowed. */
PROPANE_CHECK propane_status imported_step_create(imported_model *m, const char *device, propane_device *shared,
                                                  const char *bisect, int64_t batch, const sample_source *source,
                                                  imported_step **out, propane_error *err);
void imported_step_free(imported_step *s);
int64_t imported_step_samples(const imported_step *s);           /* samples per run */
const char *imported_step_why(const imported_step *s);           /* why it is fewer than requested; NULL if it is not */
float *imported_step_weight(const imported_step *s, int weight); /* the program's weight; may be changed between runs */
/* Gradients since the last run with `first`: sums, not means. */
const float *imported_step_gradient(const imported_step *s, int weight);
const propane_program *imported_step_program(const imported_step *s); /* the program that computes gradients */

/* Prepares for runs that add gradients up; required before the first run without `first`. */
PROPANE_CHECK propane_status imported_step_sum(imported_step *s, propane_error *err);

/* Writes a sample into place `at`. A label outside the range of classes is refused. */
PROPANE_CHECK propane_status imported_step_put(imported_step *s, const sample_source *source, int part, int64_t index,
                                               int64_t at, propane_error *err);
/* Computes loss and gradients of the samples in places 0 .. samples-1. *count is the number of positions or numbers
 * that the loss sums over. With `first` the gradients are overwritten, otherwise they are added to. */
PROPANE_CHECK propane_status imported_step_run(imported_step *s, bool first, double *loss, int64_t *count,
                                               int64_t *device_ns, propane_error *err);
/* Does the same for the first `samples` places without gradients. *right counts positions whose largest number is their
 * class. */
PROPANE_CHECK propane_status imported_step_evaluate(imported_step *s, int64_t samples, double *loss, int64_t *count,
                                                    int64_t *right, propane_error *err);

#endif
