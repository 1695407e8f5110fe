/* SPDX-License-Identifier: MIT
 * Recognises which files of a folder are for training, validation or test, by the usual names of data sets. Examples
 * are mlx-lm's train.jsonl, valid.jsonl and test.jsonl, Hugging Face's train-00000-of-00002 and validation/, WikiText's
 * wiki.train.tokens, and llm.c's NAME_train.bin and NAME_val.bin.
 */
#ifndef LM_DATA_DATA_SPLITS_H
#define LM_DATA_DATA_SPLITS_H

#include <stdbool.h>

enum { DATA_SPLIT_ROOM = 256 };

/* DATA_ANY means that the names do not determine the part. DATA_BESIDE means that the file belongs to none of the parts
 * of a divided data set. */
typedef enum data_part { DATA_ANY, DATA_TRAIN, DATA_VALID, DATA_TEST, DATA_BESIDE } data_part;

/* A file or a subfolder of a folder. */
typedef struct data_entry {
    const char *name;
    int first, end; /* for the caller: range of the entry's files */
    bool folder;
    /* a file in a data format, or a folder that has only such files. Source code, for example, may have a test.c */
    bool data;
    data_part part;
    bool alone;                  /* the name consists only of the part's word */
    bool lonely;                 /* in addition, the part needs no matching training file */
    char shape[DATA_SPLIT_ROOM]; /* the name without the part's word and without numbers */
} data_entry;

/* Returns whether the name has the suffix of a data format: jsonl, json, csv, tsv, txt, bin, ... */
bool data_splits_is_data(const char *name);
/* Returns whether the name is README, LICENSE, NAME.md or similar. In a data set, such files are not data. */
bool data_splits_is_document(const char *name);
/* Sets `part` of each entry. If no name determines a part, all are DATA_ANY. */
void data_splits_find(data_entry *entries, int count);

#endif
