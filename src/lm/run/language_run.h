/* SPDX-License-Identifier: MIT
 * A run that trains a language model: options, tokens or examples and a model in.
 *
 * Its folder holds config.json, checkpoint.safetensors and, once it is done, model.safetensors (weights only, under
 * their Hugging Face names). With adapters the checkpoint holds those alone, and instead of model.safetensors there are
 * adapter_config.json and adapter_model.safetensors (lm/arch/lora.h). With baked weights and a compile budget it asks
 * to be started again when the budget is used up.
 */
#ifndef LM_RUN_LANGUAGE_RUN_H
#define LM_RUN_LANGUAGE_RUN_H

#include "lm/data/jsonl.h"
#include "lm/step/step.h"
#include "train/train_run.h"

/* What to learn from and with. Everything is borrowed until the run is freed, except `config` and `initial`. */
typedef struct train_input {
    const model_config *config;
    model_weights
        *initial;       /* NULL: random. Their memory changes hands: it holds nothing afterwards. A resumed run ignores
                             * them, except with adapters, where they are the model that the run was begun with */
    const void *tokens; /* little endian, see token_bytes */
    int token_bytes;    /* 2 or 4 */
    int64_t token_count;
    /* tokens, or examples, that are learnt from, where what is held out was given; 0: it is a part */
    int64_t train_count;
    const train_examples *examples; /* instruction data; then `tokens` is NULL and token_count counts theirs */
    const char *source;             /* where the tokens are from, for messages */
    const char *tokenizer_hash;     /* "" : not known */
    const int32_t *bytes_of_token;  /* [vocab]: of text; NULL: nats per byte are not known */
} train_input;

/* Checks the options (messages name the command's flags), reads the checkpoint if `resume`, compiles. Options that
 * would change the numbers of a resumed run must be those of its start: PROPANE_ERR_INVALID names the flag and both
 * values. */
PROPANE_CHECK propane_status language_run_create(const train_options *options, const train_input *input,
                                                 train_run **out, propane_error *err);
/* Windows of an epoch. Instruction data: examples longer than one; of those, without anything left to learn. Else 0. */
void language_run_tell_data(const train_run *r, int64_t *windows, int64_t *cut, int64_t *empty);
int64_t language_run_learnt(const train_run *r); /* parameters that are */
/* A copy of the model as it is now, with all its ids and with the adapters merged. */
PROPANE_CHECK propane_status language_run_model(const train_run *r, model_weights **out, propane_error *err);
/* Its numbers are those of a settled step (train_step_settle). */
model_weights *language_run_weights(const train_run *r);
train_step *language_run_step(const train_run *r);

#endif
