/* SPDX-License-Identifier: MIT
 * The machine of a fine-tuning run: the model's two programs on a device, their buffers, weights and gradients. Samples
 * are put into its staging arrays; a run allocates nothing.
 */
#ifndef TRAIN_IMPORT_IMPORTED_STEP_H
#define TRAIN_IMPORT_IMPORTED_STEP_H

#include "train/import/imported_model.h"

/* Where one sample is written to. */
typedef struct sample_room {
    void *const *inputs; /* in the program's order: float, or int32_t where the input holds integers */
    int32_t *labels;     /* cross-entropy: the class of each position, -1: none */
    float *values;       /* mse: what the output should be */
} sample_room;

/* Samples to learn from (part 0) and to evaluate with (part 1). */
typedef struct sample_source {
    void *context;
    int64_t count[2];
    uint64_t sum; /* distinguishes data of the same size */
    propane_status (*get)(void *context, int part, int64_t index, const sample_room *out, propane_error *err);
} sample_source;

typedef struct imported_step imported_step;

/* On a device of its own, or on one that is shared and outlives it (NULL: none). `batch` samples at a time, if the
 * program can be made so and then gives for each sample what it gives for it alone; else one. `source` is asked for
 * samples to try that with. bisect: the folder of refusal_explain; borrowed. */
PROPANE_CHECK propane_status imported_step_create(imported_model *m, const char *device, propane_device *shared,
                                                  const char *bisect, int64_t batch, const sample_source *source,
                                                  imported_step **out, propane_error *err);
void imported_step_free(imported_step *s);
int64_t imported_step_samples(const imported_step *s);           /* at a time */
const char *imported_step_why(const imported_step *s);           /* why not as many as were asked for; NULL: they are */
float *imported_step_weight(const imported_step *s, int weight); /* the program's own; to be changed between runs */
/* Of the last step that began with `first`: sums, not means. */
const float *imported_step_gradient(const imported_step *s, int weight);
const propane_program *imported_step_program(const imported_step *s); /* that computes gradients */

/* Runs will be added up: needed before the first one that is not `first`. */
PROPANE_CHECK propane_status imported_step_sum(imported_step *s, propane_error *err);

/* Puts a sample into place `at` of the machine. Labels outside the classes are refused. */
PROPANE_CHECK propane_status imported_step_put(imported_step *s, const sample_source *source, int part, int64_t index,
                                               int64_t at, propane_error *err);
/* Loss and gradients of the samples in places 0 .. samples-1; *count: how many positions or numbers the loss is the sum
 * of. Gradients begin anew with `first`, else they are added to. */
PROPANE_CHECK propane_status imported_step_run(imported_step *s, bool first, double *loss, int64_t *count,
                                               int64_t *device_ns, propane_error *err);
/* The same without gradients, of the first `samples` places; *right: positions whose largest number is their class. */
PROPANE_CHECK propane_status imported_step_evaluate(imported_step *s, int64_t samples, double *loss, int64_t *count,
                                                    int64_t *right, propane_error *err);

#endif
