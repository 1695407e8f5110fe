/* SPDX-License-Identifier: MIT
 * Vocabularies of ranks: tiktoken's files (a line "BASE64 RANK" a token; Llama 3's tokenizer.model is one) and
 * Mistral's tekken.json. Both become a tokenizer.json, so that everything that reads, writes or runs one takes them.
 */
#ifndef LM_TEXT_TOKENIZER_RANKS_H
#define LM_TEXT_TOKENIZER_RANKS_H

#include "lm/text/tokenizer_internal.h"

/* Does the file begin as one does? */
bool tokenizer_is_tiktoken(const char *data, size_t length);
bool tokenizer_is_tekken(const char *data, size_t length);
/* tiktoken's files say neither how text is cut nor which special tokens there are: both are known for those of a known
 * number of ranks (GPT-2, cl100k, o200k, Llama 3, Qwen), others are PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status tokenizer_parse_tiktoken(const char *data, size_t length, const char *source,
                                                      tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status tokenizer_parse_tekken(const char *data, size_t length, const char *source,
                                                    tokenizer **out, propane_error *err);

/* Of a tokenizer.json in the making: a token that is found in text (false: no memory); the beginning (-1: none) and the
 * end. `ranks`: a merge's rank is the id that it makes. */
bool tokenizer_json_special(json_t *file, int64_t id, const char *content, bool special);
PROPANE_CHECK propane_status tokenizer_json_ends(json_t *file, int64_t bos, const char *bos_name, int64_t eos,
                                                 bool ranks, propane_error *err);

#endif
