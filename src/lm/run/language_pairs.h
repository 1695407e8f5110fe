/* SPDX-License-Identifier: MIT
 * State for training on pairs of answers (--method dpo, lm/step/preference.h): the loss in nats of every window under
 * the reference model, which is the run's initial model. These losses are stored in the run's folder, so that only one
 * model needs to be in memory.
 */
#ifndef LM_RUN_LANGUAGE_PAIRS_H
#define LM_RUN_LANGUAGE_PAIRS_H

#include "core/base/arena.h"
#include "lm/data/token_windows.h"
#include "lm/step/preference.h"

#define LANGUAGE_PAIRS_FILE "reference.safetensors"

typedef struct language_pairs {
    preference preference; /* for the current batch */
    const token_windows *data;
    int batch;
    bool ready;          /* the reference has been computed */
    float *reference[2]; /* [windows of data->packs] */
    float *own;          /* [batch], for the current batch */
} language_pairs;

/* Allocates the state and its arrays in the arena `a`. `data` must outlive the state. */
PROPANE_CHECK propane_status language_pairs_create(arena *a, const token_windows *data, int batch, double beta,
                                                   language_pairs **out, propane_error *err);
PROPANE_CHECK propane_status language_pairs_write(const language_pairs *p, const char *path, propane_error *err);
PROPANE_CHECK propane_status language_pairs_read(language_pairs *p, const char *path, propane_error *err);
/* Sets the reference losses of the batch that begins at this position of the data. Does nothing if `p` is NULL. */
void language_pairs_batch(language_pairs *p, uint64_t position);
/* Sets the reference loss of window `at` of a batch in a validation. The window is number `index` of the validation's
 * `windows`; beyond the last one, the loss is 0. Does nothing if `p` is NULL. */
void language_pairs_held_out(language_pairs *p, int64_t at, int64_t index, int64_t windows);
/* Returns the number of pairs among `count` windows in which both windows have a target. */
int64_t language_pairs_count(const int32_t *targets, int64_t count, int64_t context);

#endif
