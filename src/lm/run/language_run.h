/* SPDX-License-Identifier: MIT
 * A run that trains a language model, from options, tokens or examples, and a model.
 *
 * Its folder holds config.json, checkpoint.safetensors and, once it is done, model.safetensors (weights only, with
 * their Hugging Face names). With adapters the checkpoint holds only these, and model.safetensors is replaced by
 * adapter_config.json and adapter_model.safetensors (lm/arch/lora.h). With baked weights and a compile budget, it
 * requests a restart when the budget is used up.
 */
#ifndef LM_RUN_LANGUAGE_RUN_H
#define LM_RUN_LANGUAGE_RUN_H

#include "lm/data/jsonl.h"
#include "lm/step/step.h"
#include "train/train_run.h"

/* The data and model to train. Everything is borrowed until the run is freed, except `config` and `initial`. */
typedef struct train_input {
    const model_config *config;
    model_weights
        /* NULL for random weights. Their memory is taken over, and they are empty afterwards. A resumed run ignores
         * them, except with adapters, where they are the model with which the run began */
        *initial;
    const void *tokens; /* little endian, see token_bytes */
    int token_bytes;    /* 2 or 4 */
    int64_t token_count;
    /* tokens, or examples, for training if held-out data were given; 0 if these are a fraction */
    int64_t train_count;
    const train_examples *examples; /* instruction data; `tokens` is then NULL and token_count counts theirs */
    const char *source;             /* origin of the tokens, for messages */
    const char *tokenizer_hash;     /* "" if not known */
    const int32_t *bytes_of_token;  /* [vocab], bytes of text per id; NULL if nats per byte are not known */
    text *tried;                    /* receives the reasons why weight modes failed, with --weights auto; may be NULL */
} train_input;

/* Checks the options (messages name the command's flags), reads the checkpoint if `resume` is set, and compiles.
 * Options that affect the numbers must be those of the run's start if it is resumed; otherwise PROPANE_ERR_INVALID
 * names the flag and both values. */
PROPANE_CHECK propane_status language_run_create(const train_options *options, const train_input *input,
                                                 train_run **out, propane_error *err);
/* Windows per epoch. For instruction data also examples longer than a window, and those with no target left; otherwise
 * 0. */
void language_run_count_data(const train_run *r, int64_t *windows, int64_t *cut, int64_t *empty);
int64_t language_run_trained(const train_run *r); /* trained parameters */
/* Returns a copy of the current model, with all its ids and with the adapters merged. */
PROPANE_CHECK propane_status language_run_model(const train_run *r, model_weights **out, propane_error *err);
/* Its numbers are valid after the step is settled (train_step_settle). */
model_weights *language_run_weights(const train_run *r);
train_step *language_run_step(const train_run *r);

#endif
