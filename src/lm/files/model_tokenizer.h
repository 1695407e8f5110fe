/* SPDX-License-Identifier: MIT
 * Finds the tokenizer of a model by the model's path.
 */
#ifndef LM_FILES_MODEL_TOKENIZER_H
#define LM_FILES_MODEL_TOKENIZER_H

#include "lm/text/tokenizer.h"

#define MODEL_TOKENIZER "tokenizer.propane.json" /* the file of Propane's tokenizer in a model's folder */

/* Opens the given tokenizer (a file, or a folder with one), or else the one in the model's folder. If there is
 * neither, the error names --tokenizer. */
PROPANE_CHECK propane_status model_tokenizer_open(const char *given, const char *model, tokenizer **out,
                                                  propane_error *err);

#endif
