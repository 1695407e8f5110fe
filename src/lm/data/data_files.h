/* SPDX-License-Identifier: MIT
 * The files that "--data" selects. Each value is a file, a folder (including its subfolders) or a pattern with * ? [].
 */
#ifndef LM_DATA_DATA_FILES_H
#define LM_DATA_DATA_FILES_H

#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct data_files {
    const char **paths; /* in the given order; those of a folder or a pattern sorted by bytes */
    int count;
} data_files;

/* Files for training, and files for validation. */
typedef struct data_set {
    data_files train, valid;
    int left_out;         /* in folders: neither text nor tokens, or not part of a divided data set */
    const char *division; /* how folders were divided, one line each; NULL if none was */
} data_set;

/* DATA_TO_DIVIDE selects both parts of a divided folder. DATA_TO_LEARN selects its training part. DATA_TO_VALIDATE
 * selects its validation part, and everything else that is named. */
typedef enum data_use { DATA_TO_DIVIDE, DATA_TO_LEARN, DATA_TO_VALIDATE } data_use;

/* `list` holds values separated by ";". A folder whose names show a data set's parts (data_splits.h) is divided, at any
 * depth, and its test files are left out. A file that is named directly or by a pattern is used as requested. It is an
 * error if a path does not exist, if a pattern or folder has no file, if a divided folder lacks the part, or if a
 * folder has more than 100,000 files. Hidden files and links in folders are skipped. The result is in the arena. */
PROPANE_CHECK propane_status data_files_find(const char *list, data_use use, arena *a, data_set *out,
                                             propane_error *err);

#endif
