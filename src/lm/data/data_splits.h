/* SPDX-License-Identifier: MIT
 * Which files of a folder are for training, which for validation and which for a test, by the names that data sets give
 * them: mlx-lm's train.jsonl, valid.jsonl and test.jsonl, Hugging Face's train-00000-of-00002 and validation/,
 * WikiText's wiki.train.tokens, llm.c's NAME_train.bin and NAME_val.bin.
 */
#ifndef LM_DATA_DATA_SPLITS_H
#define LM_DATA_DATA_SPLITS_H

#include <stdbool.h>

enum { DATA_SPLIT_ROOM = 256 };

/* DATA_ANY: the folder says nothing of it. DATA_BESIDE: it is none of a set's parts. */
typedef enum data_part { DATA_ANY, DATA_TRAIN, DATA_VALID, DATA_TEST, DATA_BESIDE } data_part;

/* A file of a folder, or a folder in it. */
typedef struct data_entry {
    const char *name;
    int first, end; /* the caller's */
    bool folder;
    bool data; /* a file in a form of data, or a folder of nothing else: sources have a test.c, too */
    data_part part;
    bool alone;                  /* the name is the part's and nothing else */
    bool lonely;                 /* and needs no training file beside it */
    char shape[DATA_SPLIT_ROOM]; /* the name without the part's word and without numbers */
} data_entry;

/* Is it called like data: jsonl, json, csv, tsv, txt, bin, ...? */
bool data_splits_is_data(const char *name);
/* README, LICENSE, NAME.md and the like: beside a data set they are not part of it. */
bool data_splits_is_document(const char *name);
/* Sets `part` of each. Without a file or folder for validation or a test all are DATA_ANY. */
void data_splits_find(data_entry *entries, int count);

#endif
