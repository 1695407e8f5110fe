/* SPDX-License-Identifier: MIT
 * SentencePiece's tokenizer.model with pair encoding (Llama 2, Mistral v1 to v3, Gemma). It becomes a tokenizer.json.
 */
#ifndef MODEL_TEXT_TOKENIZER_SENTENCEPIECE_H
#define MODEL_TEXT_TOKENIZER_SENTENCEPIECE_H

#include "model/text/tokenizer_internal.h"

/* Does the file begin as one does? */
bool tokenizer_is_sentencepiece(const char *data, size_t length);
/* Unigram models, rules of normalisation, white space that is removed or stands behind words are PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status tokenizer_parse_sentencepiece(const char *data, size_t length, const char *source,
                                                           tokenizer **out, propane_error *err);

#endif
