/* SPDX-License-Identifier: MIT
 * A language model's files in a run's folder, and the model at a path.
 */
#ifndef LM_RUN_RUN_FOLDER_H
#define LM_RUN_RUN_FOLDER_H

#include <stdbool.h>

#include "lm/arch/model_tensors.h"
#include "lm/text/tokenizer.h"
#include "train/trainer/run_hold.h"

/* Checks that the model and the tokenizer match. An embedding may have more rows than the tokenizer has ids, because
 * embeddings are padded to round numbers. It must have at least as many rows, and fewer than twice as many. `model` is
 * named in the message. */
PROPANE_CHECK propane_status run_vocabulary(const char *model, int64_t rows, const tokenizer *t, propane_error *err);

/* Returns whether `path` is a language model in any readable form, and not a program. */
bool run_is_model(const char *path);
/* Reads a configuration from a model in any form, or from a .json file. */
PROPANE_CHECK propane_status run_config(const char *path, model_config *out, propane_error *err);
/* Loads a model and merges an adapter (NULL for none) into its matrices. Nothing is compiled. With `stored` and without
 * an adapter, matrices stay in the file's form (lm/arch/stored_weights.h). */
PROPANE_CHECK propane_status run_model(const char *model, const char *adapter, bool stored, model_weights **out,
                                       propane_error *err);

/* Copies the files of a model's chat format (tokenizer_config.json, chat templates) to the folder `dir`. They come from
 * the model's folder or, if `model` is a file, from the folder that contains it. Missing files are left out. */
PROPANE_CHECK propane_status run_copy_chat(const char *model, const char *dir, propane_error *err);

#endif
