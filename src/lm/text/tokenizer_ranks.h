/* SPDX-License-Identifier: MIT
 * Vocabularies of ranks: tiktoken's files (one line "BASE64 RANK" per token, as in Llama 3's tokenizer.model) and
 * Mistral's tekken.json. Both are converted to a tokenizer.json, so that all code for that format also serves them.
 */
#ifndef LM_TEXT_TOKENIZER_RANKS_H
#define LM_TEXT_TOKENIZER_RANKS_H

#include "lm/text/tokenizer_internal.h"

/* Return whether the file begins like one of tiktoken's, or like a tekken.json. */
bool tokenizer_is_tiktoken(const char *data, size_t length);
bool tokenizer_is_tekken(const char *data, size_t length);
/* tiktoken's files specify neither how text is split nor which special tokens there are. Both are known for certain
 * numbers of ranks (GPT-2, cl100k, o200k, Llama 3, Qwen); for other numbers, returns PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status tokenizer_parse_tiktoken(const char *data, size_t length, const char *source,
                                                      tokenizer **out, propane_error *err);
PROPANE_CHECK propane_status tokenizer_parse_tekken(const char *data, size_t length, const char *source,
                                                    tokenizer **out, propane_error *err);

/* Helpers for building a tokenizer.json. tokenizer_json_special adds a token that is matched in text and returns false
 * if memory runs out. tokenizer_json_ends adds the tokens that begin (`bos`, -1 for none) and end a text. With `ranks`,
 * a merge's rank is the id that it produces. */
bool tokenizer_json_special(json_t *file, int64_t id, const char *content, bool special);
PROPANE_CHECK propane_status tokenizer_json_ends(json_t *file, int64_t bos, const char *bos_name, int64_t eos,
                                                 bool ranks, propane_error *err);

#endif
