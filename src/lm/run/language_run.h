/* SPDX-License-Identifier: MIT
 * A run that trains a language model on tokens or examples.
 *
 * The run's folder holds config.json, checkpoint.safetensors and, once the run is done, model.safetensors (weights
 * only, with their Hugging Face names). With adapters, the checkpoint holds only the adapters, and adapter_config.json
 * and adapter_model.safetensors take the place of model.safetensors (lm/arch/lora.h). With baked weights and a compile
 * budget, the run requests a restart when the budget is used up.
 */
#ifndef LM_RUN_LANGUAGE_RUN_H
#define LM_RUN_LANGUAGE_RUN_H

#include "lm/data/jsonl.h"
#include "lm/step/step.h"
#include "train/train_run.h"

/* The model to train and the data to train it on. Everything is borrowed until the run is freed, except `config` and
 * `initial`, which language_run_create only reads or empties. */
typedef struct train_input {
    const model_config *config;
    model_weights
        /* the initial weights, or NULL for random ones. The run takes over their memory and leaves them empty. A
         * resumed run ignores them, unless it trains adapters: then they are the model with which the run began */
        *initial;
    const void *tokens; /* little endian, see token_bytes */
    int token_bytes;    /* 2 or 4 */
    int64_t token_count;
    /* how many of the tokens, or of the examples, are for training; the others are held out. 0 means that a fraction of
     * all data is held out */
    int64_t train_count;
    /* instruction data or NULL; with examples, `tokens` is NULL and token_count is their number of tokens */
    const train_examples *examples;
    const char *source;            /* origin of the tokens, for messages */
    const char *tokenizer_hash;    /* "" if not known */
    const int32_t *bytes_of_token; /* [vocab], bytes of text per id; NULL if nats per byte are not computed */
    text *tried;                   /* with --weights auto, receives the reasons why weight modes failed; may be NULL */
} train_input;

/* Checks the options (messages name the command's flags), reads the checkpoint if `resume` is set, and compiles. In a
 * resumed run, options that affect the numbers must equal those at the run's start; otherwise this returns
 * PROPANE_ERR_INVALID, with the flag and both values. */
PROPANE_CHECK propane_status language_run_create(const train_options *options, const train_input *input,
                                                 train_run **out, propane_error *err);
/* Counts the windows per epoch. For instruction data, also counts the examples that are longer than a window and those
 * that have no target left; for plain text, both are 0. */
void language_run_count_data(const train_run *r, int64_t *windows, int64_t *cut, int64_t *empty);
int64_t language_run_trained(const train_run *r); /* number of trained parameters */
/* Returns a copy of the current model, with all its ids and with the adapters merged. */
PROPANE_CHECK propane_status language_run_model(const train_run *r, model_weights **out, propane_error *err);
/* Returns the run's weights, whose numbers are valid after train_step_settle. */
model_weights *language_run_weights(const train_run *r);
train_step *language_run_step(const train_run *r);

#endif
