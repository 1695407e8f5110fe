/* SPDX-License-Identifier: MIT
 * Declarations that the files of tokenizers share.
 */
#ifndef LM_TEXT_TOKENIZER_INTERNAL_H
#define LM_TEXT_TOKENIZER_INTERNAL_H

#include "core/base/arena.h"
#include "core/base/json.h"
#include "core/base/map.h"
#include "lm/text/tokenizer.h"

enum {
    TOKENIZER_WORD_MAX = 256,   /* bytes; longer words are cut, so that no text makes training or encoding quadratic */
    TOKENIZER_PIECE_MAX = 1024, /* bytes per piece */
    TOKENIZER_VOCAB_MAX = 1 << 20,
    TOKENIZER_BPE_MAX = 1 << 16
};

typedef struct tokenizer_pair {
    int32_t left, right;
} tokenizer_pair;

struct propane_tokenizer {
    tokenizer_kind kind;
    arena *arena;
    int vocab;
    int bos, eos;
    const char **pieces;
    uint32_t *lengths;
    float *scores;           /* llama */
    tokenizer_pair *merges;  /* bpe: merge of id 256 + i */
    id_map pairs;            /* bpe: left << 32 | right -> id */
    piece_map lookup;        /* chars, llama: bytes -> id */
    int32_t byte_id[256];    /* llama: fallback; hf: the symbol of a byte; -1 for none */
    struct hf_tokenizer *hf; /* hf: everything else (tokenizer_hf.h) */
    tokenizer_chat chat;
    char hash[65]; /* "" until it is first requested */
};

/* Read and write a tokenizer_chat as an object in the form of tokenizer_config.json: bos_token, eos_token,
 * chat_template. Propane's files also hold the name of a chat format. */
#define TOKENIZER_CHAT_FORMAT "propane_chat"
PROPANE_CHECK propane_status tokenizer_chat_from_json(arena *a, const json_t *config, tokenizer_chat *out,
                                                      propane_error *err);
json_t *tokenizer_chat_put_templates(const tokenizer_chat *c); /* "chat_template", if there is a template */
json_t *tokenizer_chat_to_json(const tokenizer_chat *c); /* NULL if there is nothing to write, or if memory runs out */
#define TOKENIZER_CHAT_KEY "chat"                        /* key of that object in files that Propane wrote */

/* Makes an empty tokenizer with room for `vocab` pieces. */
PROPANE_CHECK propane_status tokenizer_begin(tokenizer_kind kind, int vocab, tokenizer **out, propane_error *err);
/* Builds the indices for encoding from pieces, scores and merges. Frees the tokenizer on an error. */
PROPANE_CHECK propane_status tokenizer_finish(tokenizer *t, const char *source, tokenizer **out, propane_error *err);
/* Makes a tokenizer of the bpe kind from merges. Returns PROPANE_ERR_INVALID for merges of ids that do not exist yet
 * and for pieces that become too long. */
PROPANE_CHECK propane_status tokenizer_from_merges(const tokenizer_pair *merges, int count, const char *source,
                                                   tokenizer **out, propane_error *err);

/* Returns the length of the UTF-8 character at the start of `p`: 1 .. 4, or 0 if there is no valid character. */
int utf8_length(const char *p, size_t left);

/* Splits a text into words as GPT-2 does. The words are adjacent, cover the text and have at most TOKENIZER_WORD_MAX
 * bytes. */
typedef struct splitter {
    const char *data;
    size_t length, at;
} splitter;
void splitter_init(splitter *s, const char *data, size_t length);
bool splitter_next(splitter *s, const char **word, size_t *length); /* false at the end */

#endif
