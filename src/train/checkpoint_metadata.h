/* SPDX-License-Identifier: MIT
 * The metadata of a checkpoint as keys and texts, whichever version of Propane wrote it.
 */
#ifndef TRAIN_CHECKPOINT_METADATA_H
#define TRAIN_CHECKPOINT_METADATA_H

#include "core/base/arena.h"
#include "core/base/json.h"
#include "core/files/safetensors.h"
#include "train/train_options.h"

typedef struct checkpoint_metadata {
    safetensors *file;
    const char *source; /* path, for messages */
    json_t *old;        /* old form of a fine-tuning run, otherwise NULL */
    arena *arena;       /* texts made from `old` */
} checkpoint_metadata;

const char *checkpoint_format(train_kind kind); /* the value of "format" */
PROPANE_CHECK propane_status checkpoint_metadata_open(const char *path, checkpoint_metadata *out, propane_error *err);
void checkpoint_metadata_close(checkpoint_metadata *m);
/* Sets *out to NULL if the key does not exist. The text lives as long as the metadata. */
PROPANE_CHECK propane_status checkpoint_metadata_find(const checkpoint_metadata *m, const char *key, const char **out,
                                                      propane_error *err);

#endif
