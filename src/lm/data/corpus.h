/* SPDX-License-Identifier: MIT
 * Texts as ids, with their tokenizer, from the user's files: texts (a vocabulary is trained or given), token files with
 * their tokenizer, or instruction data (*.jsonl) with the model that it is for. All are of one kind and are joined in
 * order. Everything but token files may also come from memory.
 */
#ifndef LM_DATA_CORPUS_H
#define LM_DATA_CORPUS_H

#include "lm/data/jsonl.h"
#include "lm/text/tokens.h"

typedef struct corpus_options {
    const char *text;      /* files, folders and patterns, as data_files_find accepts them */
    const char *held;      /* the same for held-out data, which come last; NULL or "" for none */
    const char *tokenizer; /* NULL to train one; a token file needs one */
    const char *kind;      /* kind to train: bpe, chars, bytes */
    int vocab;
    bool whole;        /* one whole text is wanted, without a folder's validation part */
    const char *model; /* model whose tokenizer and chat format are used if none are given; NULL for none */
    const char *chat;  /* for instruction data; NULL or "" for the model's format */
    const char *date;  /* date that its template writes, "2026-01-31"; NULL or "" for today */

    /* In memory instead of in a file; `text` is its name in messages. All of it must outlive the corpus. */
    const char *data; /* NULL for none */
    size_t length;
    bool lines;         /* `data` is instruction data */
    const int32_t *ids; /* tokens instead of text; NULL for none */
    int64_t id_count;
    const tokenizer *vocabulary; /* takes precedence over `tokenizer` and `model`; NULL for none */
} corpus_options;

typedef struct corpus {
    tokenizer *tokenizer;
    bool shared;        /* the tokenizer belongs to the caller */
    const int32_t *ids; /* NULL while they are in `file` or `examples` */
    int64_t count;
    int64_t text_bytes;
    int64_t train_count; /* tokens or examples before those of `held`; 0 if there were none */
    int files, left_out; /* files that were read; files in folders that were not */
    char *parts;         /* how folders were divided by their names (data_files.h); NULL if none was */
    bool divided;        /* `held` came from a divided folder */
    double unigram_nats; /* entropy of the text's bytes in nats per byte; negative if not known (token file) */
    token_list list;
    token_file file; /* the token file, if one was given */
    bool from_file;
    train_examples examples; /* instruction data: `count` is the number of its tokens, `ids` is NULL */
    chat_template chat;
    bool instructions;
} corpus;

PROPANE_CHECK propane_status corpus_open(const corpus_options *options, corpus *out, propane_error *err);
void corpus_close(corpus *c);
/* Returns the ids in the form that token_windows needs. */
const void *corpus_ids(const corpus *c, int *id_bytes);

#endif
