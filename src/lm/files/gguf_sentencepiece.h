/* SPDX-License-Identifier: MIT
 * Vocabularies of GGUF files that are read as the SentencePiece tokenizer.model from which they were made.
 */
#ifndef LM_FILES_GGUF_SENTENCEPIECE_H
#define LM_FILES_GGUF_SENTENCEPIECE_H

#include "lm/files/gguf.h"

#define KEY(name) "tokenizer.ggml." name

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 }; /* values of token_type */

/* The model of the message, with SentencePiece's numbers. */
typedef enum sentencepiece_kind { SP_UNIGRAM = 1, SP_PAIRS = 2 } sentencepiece_kind;

PROPANE_CHECK propane_status gguf_sp_read(const gguf *g, const gguf_value *tokens, sentencepiece_kind kind,
                                          tokenizer **out, propane_error *err);
/* Reports whether a "llama" vocabulary has tokens that occur inside texts, besides those that begin and end one. The
 * llama kind does not support them. */
PROPANE_CHECK propane_status gguf_sp_has_marks(const gguf *g, const gguf_value *tokens, bool *out, propane_error *err);

#endif
