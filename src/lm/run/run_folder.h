/* SPDX-License-Identifier: MIT
 * A language model's files in a run's folder, and the model that a path names.
 */
#ifndef LM_RUN_RUN_FOLDER_H
#define LM_RUN_RUN_FOLDER_H

#include <stdbool.h>

#include "lm/arch/model_tensors.h"
#include "lm/text/tokenizer.h"
#include "train/trainer/run_hold.h"

/* Do they belong together? An embedding may have more rows than there are ids (it is filled up to a round number), but
 * not fewer, and not twice as many. */
PROPANE_CHECK propane_status run_vocabulary(const char *model, int64_t rows, const tokenizer *t, propane_error *err);

/* Is it a language model, in any form that is read, and no program? */
bool run_is_model(const char *path);
/* A model's configuration: of a model in any form, or a .json file that is one. */
PROPANE_CHECK propane_status run_config(const char *path, model_config *out, propane_error *err);
/* The model with an adapter's (NULL: none) matrices added to its own. Programs take weights as inputs, so nothing is
 * compiled for it. `stored`: without an adapter, matrices in the file's form (lm/arch/stored_weights.h). */
PROPANE_CHECK propane_status run_model(const char *model, const char *adapter, bool stored, model_weights **out,
                                       propane_error *err);

/* Copies what says how a model talks (tokenizer_config.json, chat templates) from the model's folder, or from beside
 * its file, into the run's; what is not there is left out. */
PROPANE_CHECK propane_status run_copy_chat(const char *model, const char *dir, propane_error *err);

#endif
