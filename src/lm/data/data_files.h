/* SPDX-License-Identifier: MIT
 * The files that "--data" means: each value a file, a folder (all of it, below as well) or a pattern with * ? [].
 */
#ifndef LM_DATA_DATA_FILES_H
#define LM_DATA_DATA_FILES_H

#include "core/base/arena.h"
#include "core/base/status.h"

typedef struct data_files {
    const char **paths; /* in the order given; those of a folder or a pattern sorted by their bytes */
    int count;
} data_files;

/* What is learnt, and what is validated with. */
typedef struct data_set {
    data_files train, valid;
    int left_out;     /* of folders: neither text nor tokens, or beside a data set's parts */
    const char *told; /* how folders were divided, a line each; NULL: none was */
} data_set;

/* DATA_TO_DIVIDE: both parts of a folder that is divided. DATA_TO_LEARN: its training part. DATA_TO_VALIDATE: its
 * validation part, and all else that is named. */
typedef enum data_use { DATA_TO_DIVIDE, DATA_TO_LEARN, DATA_TO_VALIDATE } data_use;

/* `list`: values separated by ";". A folder that has a data set's parts by their names (data_splits.h) is divided, at
 * any depth; its files for tests are left out. What is named by itself or by a pattern is what it is named for. What
 * does not exist, a pattern or folder without any file, a divided folder without the part, and one with more than
 * 100,000 files are errors. Hidden files and links in folders are skipped. All of it lies in the arena. */
PROPANE_CHECK propane_status data_files_find(const char *list, data_use use, arena *a, data_set *out,
                                             propane_error *err);

#endif
