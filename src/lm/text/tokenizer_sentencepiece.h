/* SPDX-License-Identifier: MIT
 * SentencePiece's tokenizer.model: pair encoding (Llama 2, Mistral v1 to v3, Gemma) and Unigram (T5, XLM-R). It becomes
 * a tokenizer.json.
 */
#ifndef LM_TEXT_TOKENIZER_SENTENCEPIECE_H
#define LM_TEXT_TOKENIZER_SENTENCEPIECE_H

#include "lm/text/tokenizer_internal.h"

/* Of a piece, in the numbers that the format leaves to others; ours: the token takes the white space that follows
 * it. */
enum { SENTENCEPIECE_STRIPS = 200 };

/* Does the file begin as one does? */
bool tokenizer_is_sentencepiece(const char *data, size_t length);
/* Models of words and characters, word marks behind words and rules for decoded text are PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status tokenizer_parse_sentencepiece(const char *data, size_t length, const char *source,
                                                           tokenizer **out, propane_error *err);

#endif
