/* SPDX-License-Identifier: MIT
 * Texts as ids together with their tokenizer, from whatever the user has: texts (a vocabulary is learnt or taken),
 * token files and their tokenizer, or instruction data (*.jsonl) and the model that it is for; of one kind, joined in
 * their order. All but token files also from memory.
 */
#ifndef LM_DATA_CORPUS_H
#define LM_DATA_CORPUS_H

#include "lm/data/jsonl.h"
#include "lm/text/tokens.h"

typedef struct corpus_options {
    const char *text;      /* files, folders and patterns as data_files_find takes them */
    const char *held;      /* likewise, held out: they come last; NULL or "": none */
    const char *tokenizer; /* NULL: learn one; a token file needs one */
    const char *kind;      /* bpe, chars, bytes: what is learnt */
    int vocab;
    bool whole;        /* one text is wanted: a folder's validation part is left out, too */
    const char *model; /* whose tokenizer and chat format are taken where none are given; NULL: none */
    const char *chat;  /* of instruction data; NULL or "": the model's own */
    const char *date;  /* that its template writes, "2026-01-31"; NULL or "": now */

    /* In memory instead of the file; `text` is its name in messages. All of it outlives the corpus. */
    const char *data; /* NULL: none */
    size_t length;
    bool lines;         /* it is instruction data */
    const int32_t *ids; /* tokens instead; NULL: none */
    int64_t id_count;
    const tokenizer *vocabulary; /* goes before `tokenizer` and `model`; NULL: none */
} corpus_options;

typedef struct corpus {
    tokenizer *tokenizer;
    bool shared;        /* the tokenizer is the caller's */
    const int32_t *ids; /* NULL while they are in `file` or `examples` */
    int64_t count;
    int64_t text_bytes;
    int64_t train_count; /* tokens or examples in front of those of `held`; 0: there were none */
    int files, left_out; /* read; of folders, not read */
    char *parts;         /* how folders were divided by their names (data_files.h); NULL: none was */
    bool divided;        /* `held` came out of a folder */
    double unigram_nats; /* entropy of the text's bytes, nats per byte; negative: not known (token file) */
    token_list list;
    token_file file; /* a token file that was given */
    bool from_file;
    train_examples examples; /* instruction data: count is that of its tokens, `ids` is NULL */
    chat_template chat;
    bool instructions;
} corpus;

PROPANE_CHECK propane_status corpus_open(const corpus_options *options, corpus *out, propane_error *err);
void corpus_close(corpus *c);
/* The ids as token_windows wants them. */
const void *corpus_ids(const corpus *c, int *id_bytes);

#endif
