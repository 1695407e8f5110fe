/* SPDX-License-Identifier: MIT
 * The metadata of a checkpoint as keys and texts, in the same form for every version of Propane that wrote the
 * checkpoint.
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
    json_t *old;        /* metadata in the old form of fine-tuning runs, otherwise NULL */
    arena *arena;       /* texts made from `old` */
} checkpoint_metadata;

const char *checkpoint_format(train_kind kind); /* returns the value of the key "format" */
PROPANE_CHECK propane_status checkpoint_metadata_open(const char *path, checkpoint_metadata *out, propane_error *err);
void checkpoint_metadata_close(checkpoint_metadata *m);
/* Sets *out to a key's text, or to NULL if the key does not exist and has no default. The text lives as long as the
 * metadata. */
PROPANE_CHECK propane_status checkpoint_metadata_find(const checkpoint_metadata *m, const char *key, const char **out,
                                                      propane_error *err);

#endif
