/* SPDX-License-Identifier: MIT
 * Training on the ids that occur: the embedding and the head of the model that is trained have rows for them alone, and
 * softmax is over them. The other rows are kept, and unchanged in the finished model.
 */
#ifndef LM_DATA_COMPACT_VOCAB_H
#define LM_DATA_COMPACT_VOCAB_H

#include "lm/arch/model_tensors.h"

#define TRAIN_VOCABULARY "vocabulary.safetensors" /* of a run's folder: ids and whole tables */

typedef struct vocab_map {
    int64_t vocab, width, count; /* of the whole model; ids that are trained */
    int32_t *ids;                /* [count], rising: the whole model's id of each row */
    int32_t *map;                /* [vocab]: row, or -1 */
    float *tables[2];            /* [vocab][width]: the whole embedding and, if it is separate, the whole head */
} vocab_map;

/* `used` [vocab]: not 0 where an id occurs. Their number is filled up to a multiple of 64 with ids that do not
 * occur. */
PROPANE_CHECK propane_status compact_vocab_create(const uint8_t *used, const model_config *whole, vocab_map **out,
                                                  propane_error *err);
void compact_vocab_free(vocab_map *c);
/* The configuration of the model that is trained. */
model_config compact_vocab_config(const vocab_map *c, const model_config *whole);
/* Keeps the tables of `whole` and copies its weights, of the tables the rows that occur, into `small`. */
PROPANE_CHECK propane_status compact_vocab_take(vocab_map *c, const model_weights *whole, model_weights *small,
                                                propane_error *err);
/* The whole model with what was learnt. */
PROPANE_CHECK propane_status compact_vocab_restore(const vocab_map *c, const model_config *whole,
                                                   const model_weights *small, model_weights **out, propane_error *err);
/* Ids of the whole model become rows, in place; -1 stays. Ids that do not occur: PROPANE_ERR_INVALID. */
PROPANE_CHECK propane_status compact_vocab_map(const vocab_map *c, int32_t *ids, int64_t count, propane_error *err);
PROPANE_CHECK propane_status compact_vocab_write(const vocab_map *c, const char *path, propane_error *err);
/* The tables of a run that goes on; its ids must be these. */
PROPANE_CHECK propane_status compact_vocab_read(vocab_map *c, const char *path, propane_error *err);

#endif
