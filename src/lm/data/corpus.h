/* SPDX-License-Identifier: MIT
 * The user's data as ids, with their tokenizer. The files are texts (the tokenizer is trained or given), token files
 * with their tokenizer, or instruction data (such as *.jsonl) with the model or tokenizer for which it is meant. All
 * files must be of one kind and are joined in order. Texts, ids and instruction data may also come from memory.
 */
#ifndef LM_DATA_CORPUS_H
#define LM_DATA_CORPUS_H

#include "lm/data/jsonl.h"
#include "lm/text/tokens.h"

typedef struct corpus_options {
    const char *text;      /* files, folders and patterns, as data_files_find accepts them */
    const char *held;      /* files, folders and patterns of held-out data, which come last; NULL or "" for none */
    const char *tokenizer; /* path; NULL to use the model's or to train one. A token file needs one */
    const char *kind;      /* kind of tokenizer to train: bpe, chars, bytes */
    int vocab;
    bool whole;        /* only one whole text is wanted, without the validation part of a folder */
    const char *model; /* model whose tokenizer and chat format are used if none are given; NULL for none */
    const char *chat;  /* chat format of instruction data; NULL or "" for the model's format */
    const char *date;  /* date that the chat template writes, "2026-01-31"; NULL or "" for today */

    /* Data in memory instead of in files; `text` is then their name in messages. The data must outlive the corpus. */
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
    const int32_t *ids; /* NULL if the ids are in `file` or `examples` */
    int64_t count;
    int64_t text_bytes;
    int64_t train_count; /* number of tokens or examples before the held-out ones; 0 if no files are held out */
    int files, left_out; /* number of files that were read, and of files in folders that were not */
    char *parts;         /* how folders were divided by the names of their files (data_files.h); NULL if none was */
    bool divided;        /* the held-out data came from a divided folder */
    /* entropy of the text's bytes in nats per byte; negative if not known (token files, instruction data) */
    double unigram_nats;
    token_list list;
    token_file file; /* the token file, if one was given */
    bool from_file;
    train_examples examples; /* instruction data; `count` is then its number of tokens, and `ids` is NULL */
    chat_template chat;
    bool instructions;
} corpus;

PROPANE_CHECK propane_status corpus_open(const corpus_options *options, corpus *out, propane_error *err);
void corpus_close(corpus *c);
/* Returns the ids in the form that token_windows needs. */
const void *corpus_ids(const corpus *c, int *id_bytes);

#endif
