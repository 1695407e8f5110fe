/* SPDX-License-Identifier: MIT
 * What the files of a language model's run share: its state. language_begin.c makes it, language_run.c runs it.
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
    data_parallel *group;               /* the run's, which frees it; NULL: alone */
    int64_t share, first;               /* windows of a batch that are this rank's */
    int64_t worker_share, worker_first; /* and those of all ranks of its worker */
    token_windows data;
    vocab_map *compact;        /* NULL: the model is trained with all its ids */
    model_config whole;        /* the model's; `weights` may have fewer ids */
    int64_t budget;            /* compiles of one process; 0: as many as there are */
    bool *trained;             /* [tensor]; NULL: all */
    double scale;              /* of the newest gradients: loss scale and batches taken out */
    int32_t *inputs, *targets; /* [batch][context] */
    double *nats;
    language_pairs *pairs;                             /* NULL: the data are no pairs */
    char *model_path, *config_path, *vocabulary_path;  /* NULL without a run folder */
    char token_count[24], token_sum[24], base_sum[24]; /* facts of the checkpoint; base_sum "": no adapters */
} language_run;

static inline language_run *language_run_of(const train_run *r) { return (language_run *)(uintptr_t)r; }

/* language_begin.c: all that comes after train_run_begin. `l` is freed by the caller if this fails. */
PROPANE_CHECK propane_status language_begin(language_run *l, const train_input *input, propane_error *err);

#endif
