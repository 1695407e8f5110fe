/* SPDX-License-Identifier: MIT
 * Reads vocabularies of GGUF files in the form of the SentencePiece tokenizer.model from which they were made.
 */
#ifndef LM_FILES_GGUF_SENTENCEPIECE_H
#define LM_FILES_GGUF_SENTENCEPIECE_H

#include "lm/files/gguf.h"

#define KEY(name) "tokenizer.ggml." name

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 }; /* values of token_type */

/* The kind of model in a SentencePiece message, with the message's numbers. */
typedef enum sentencepiece_kind { SP_UNIGRAM = 1, SP_PAIRS = 2 } sentencepiece_kind;

PROPANE_CHECK propane_status gguf_sp_read(const gguf *g, const gguf_value *tokens, sentencepiece_kind kind,
                                          tokenizer **out, propane_error *err);
/* Sets *out to whether a "llama" vocabulary has tokens that occur inside texts, in addition to those that begin and end
 * a text. The llama kind of tokenizer does not support such tokens. */
PROPANE_CHECK propane_status gguf_sp_has_marks(const gguf *g, const gguf_value *tokens, bool *out, propane_error *err);

#endif
