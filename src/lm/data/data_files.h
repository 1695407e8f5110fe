/* SPDX-License-Identifier: MIT
 * The files that values of --data select. A value is a file, a folder (including its subfolders) or a pattern with * ?
 * [].
 */
#ifndef LM_DATA_DATA_FILES_H
#define LM_DATA_DATA_FILES_H

#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct data_files {
    const char **paths; /* in the order of the values; the files of a folder or a pattern are sorted by bytes */
    int count;
} data_files;

/* Files for training, and files for validation. */
typedef struct data_set {
    data_files train, valid;
    /* number of files in folders that are neither text nor tokens, or not part of a divided data set */
    int left_out;
    const char *division; /* how folders were divided, one line per folder; NULL if none was divided */
} data_set;

/* DATA_TO_DIVIDE selects the training and validation parts of a divided folder, DATA_TO_LEARN only the training part,
 * and DATA_TO_VALIDATE the validation part. Files that belong to no part are for validation with DATA_TO_VALIDATE,
 * otherwise for training. */
typedef enum data_use { DATA_TO_DIVIDE, DATA_TO_LEARN, DATA_TO_VALIDATE } data_use;

/* `list` holds values separated by ";". A folder whose names show a data set's parts (data_splits.h) is divided, at any
 * depth, and its test files are left out. A file that is named directly or by a pattern is used without regard to its
 * name. Returns an error if a pattern or folder has no file, if a divided folder lacks the requested part, or if there
 * are more than 100,000 files. A file that does not exist is reported only when it is opened. Hidden files and links in
 * folders are left out. The result is in the arena. */
PROPANE_CHECK propane_status data_files_find(const char *list, data_use use, arena *a, data_set *out,
                                             propane_error *err);

#endif
