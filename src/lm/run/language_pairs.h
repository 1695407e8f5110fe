/* SPDX-License-Identifier: MIT
 * What training on pairs of answers (--method dpo, lm/step/preference.h) keeps: the nats of all windows by the model
 * that the run begins with, which is the reference. They are in the run's folder, so that the model itself is held
 * once.
 */
#ifndef LM_RUN_LANGUAGE_PAIRS_H
#define LM_RUN_LANGUAGE_PAIRS_H

#include "core/base/arena.h"
#include "lm/data/token_windows.h"
#include "lm/step/preference.h"

#define LANGUAGE_PAIRS_FILE "reference.safetensors"

typedef struct language_pairs {
    preference preference; /* of the batch in hand */
    const token_windows *data;
    int batch;
    bool ready;          /* the reference is there */
    float *reference[2]; /* [windows of data->packs] */
    float *own;          /* [batch]: of the batch in hand */
} language_pairs;

/* In the arena, as is all of it; `data` outlives it. */
PROPANE_CHECK propane_status language_pairs_create(arena *a, const token_windows *data, int batch, double beta,
                                                   language_pairs **out, propane_error *err);
PROPANE_CHECK propane_status language_pairs_write(const language_pairs *p, const char *path, propane_error *err);
PROPANE_CHECK propane_status language_pairs_read(language_pairs *p, const char *path, propane_error *err);
/* The reference of the batch that begins at this position of the data; p NULL: nothing, here and below. */
void language_pairs_batch(language_pairs *p, uint64_t position);
/* Likewise of a batch's window `at`, which is number `index` of a validation's `windows`; after the last one there is
 * none. */
void language_pairs_held_out(language_pairs *p, int64_t at, int64_t index, int64_t windows);
/* How many of `count` windows' pairs have a target in both. */
int64_t language_pairs_count(const int32_t *targets, int64_t count, int64_t context);

#endif
