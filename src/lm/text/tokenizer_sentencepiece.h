/* SPDX-License-Identifier: MIT
 * SentencePiece's tokenizer.model, for pair encoding (Llama 2, Mistral v1 to v3, Gemma) and Unigram (T5, XLM-R). The
 * file is converted to a tokenizer.json.
 */
#ifndef LM_TEXT_TOKENIZER_SENTENCEPIECE_H
#define LM_TEXT_TOKENIZER_SENTENCEPIECE_H

#include "lm/text/tokenizer_internal.h"

/* Propane's own field of a piece, with a number that the format leaves free: the token also matches the white space
 * after it. */
enum { SENTENCEPIECE_STRIPS = 200 };

/* Returns whether the file begins like SentencePiece's tokenizer.model. */
bool tokenizer_is_sentencepiece(const char *data, size_t length);
/* Returns PROPANE_ERR_UNSUPPORTED for word and character models, for models that mark words at their ends
 * (treat_whitespace_as_suffix), and for models with rules for decoded text (denormalizer_spec). */
PROPANE_CHECK propane_status tokenizer_parse_sentencepiece(const char *data, size_t length, const char *source,
                                                           tokenizer **out, propane_error *err);

#endif
