/* SPDX-License-Identifier: MIT
 * Finds the tokenizer of a model by the model's path.
 */
#ifndef LM_FILES_MODEL_TOKENIZER_H
#define LM_FILES_MODEL_TOKENIZER_H

#include "lm/text/tokenizer.h"

#define MODEL_TOKENIZER "tokenizer.propane.json" /* the file of Propane's tokenizer in a model's folder */

/* Opens the tokenizer at `given` (a file, or a folder with one). If `given` is NULL, opens that of the model: in its
 * folder, next to its file, or inside a .gguf file. Returns an error if there is none. */
PROPANE_CHECK propane_status model_tokenizer_open(const char *given, const char *model, tokenizer **out,
                                                  propane_error *err);

#endif
