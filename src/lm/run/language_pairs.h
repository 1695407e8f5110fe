/* SPDX-License-Identifier: MIT
 * State for training on pairs of answers (--method dpo, lm/step/preference.h): the loss in nats of every window under
 * the run's initial model, which is the reference. They are stored in the run's folder, so that only one model needs to be in
 * memory.
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

/* Allocated in the arena, like all its data; `data` must outlive it. */
PROPANE_CHECK propane_status language_pairs_create(arena *a, const token_windows *data, int batch, double beta,
                                                   language_pairs **out, propane_error *err);
PROPANE_CHECK propane_status language_pairs_write(const language_pairs *p, const char *path, propane_error *err);
PROPANE_CHECK propane_status language_pairs_read(language_pairs *p, const char *path, propane_error *err);
/* Sets the reference for the batch that begins at this position of the data. Here and below, p may be NULL, which does
 * nothing. */
void language_pairs_batch(language_pairs *p, uint64_t position);
/* Does the same for window `at` of a batch, which is number `index` of a validation's `windows`; after the last one
 * there is no reference. */
void language_pairs_held_out(language_pairs *p, int64_t at, int64_t index, int64_t windows);
/* Returns how many pairs of `count` windows have a target in both. */
int64_t language_pairs_count(const int32_t *targets, int64_t count, int64_t context);

#endif
