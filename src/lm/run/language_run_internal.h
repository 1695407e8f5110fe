/* SPDX-License-Identifier: MIT
 * The state of a language model's run, shared by its files. language_begin.c creates the run, and language_run.c
 * executes it.
 */
#ifndef LM_RUN_LANGUAGE_RUN_INTERNAL_H
#define LM_RUN_LANGUAGE_RUN_INTERNAL_H

#include "lm/data/compact_vocab.h"
#include "lm/data/token_windows.h"
#include "lm/dist/data_parallel.h"
#include "lm/run/language_pairs.h"
#include "lm/run/language_run.h"
#include "train/train_run_internal.h"

typedef struct language_run {
    train_run run;
    train_input input;
    model_weights *weights;
    train_step *step;
    data_parallel *group;               /* owned by the run; NULL for a single process */
    int64_t share, first;               /* this rank's windows of a batch */
    int64_t worker_share, worker_first; /* the windows of all ranks of this rank's worker */
    token_windows data;
    vocab_map *compact; /* NULL if the model is trained with all its ids */
    model_config whole; /* the model's configuration; `weights` may have fewer ids */
    int64_t budget;     /* compiles per process; 0 means unlimited */
    bool *trained;      /* [tensor], or NULL for all */
    /* factor that removes the loss scale and the number of batches from the latest gradients */
    double scale;
    int32_t *inputs, *targets; /* [batch][context] */
    double *nats;
    language_pairs *pairs;                            /* NULL if the data are not pairs */
    char *model_path, *config_path, *vocabulary_path; /* NULL without a run folder */
    /* Fingerprints for the checkpoint; base_sum is "" without adapters. */
    char token_count[24], token_sum[24], base_sum[24];
} language_run;

static inline language_run *language_run_of(const train_run *r) { return (language_run *)(uintptr_t)r; }

/* Creates the run after train_run_begin (language_begin.c). The caller frees `l` if this fails. */
PROPANE_CHECK propane_status language_begin(language_run *l, const train_input *input, propane_error *err);

#endif
