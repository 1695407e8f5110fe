/* SPDX-License-Identifier: MIT
 * The files that "--data" means: each value a file, a folder (all of it, below as well) or a pattern with * ? [].
 */
#ifndef TRAIN_DATA_DATA_FILES_H
#define TRAIN_DATA_DATA_FILES_H

#include "base/arena.h"
#include "base/status.h"

typedef struct data_files {
    const char **paths; /* in the order given; those of a folder or a pattern sorted by their bytes */
    int count, room;
    int left_out; /* of folders: neither text nor tokens */
} data_files;

/* `list`: values separated by ";". What does not exist, a pattern or folder without any file, and a folder with more than
 * 100,000 are errors. Hidden files and links in folders are skipped. All of it lies in the arena. */
PROPANE_CHECK propane_status data_files_find(const char *list, arena *a, data_files *out, propane_error *err);

#endif
