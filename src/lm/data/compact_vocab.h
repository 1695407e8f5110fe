/* SPDX-License-Identifier: MIT
 * Training on only the ids that occur in the data. The embedding and the head of the trained model have rows for these
 * ids alone, and the softmax covers only these ids. The other rows are kept, and are unchanged in the finished model.
 */
#ifndef LM_DATA_COMPACT_VOCAB_H
#define LM_DATA_COMPACT_VOCAB_H

#include "lm/arch/model_tensors.h"

#define TRAIN_VOCABULARY "vocabulary.safetensors" /* a file in a run's folder with the ids and the whole tables */

typedef struct vocab_map {
    int64_t vocab, width, count; /* sizes of the whole model, and the number of trained ids */
    int32_t *ids;                /* [count], ascending: id in the whole model of each row */
    int32_t *map;                /* [vocab]: row of each id, or -1 */
    float *tables[2];            /* [vocab][width]: the whole embedding and, if it is separate, the whole head */
} vocab_map;

/* Chooses the ids. `used` [vocab] is nonzero for each id that occurs. Other ids are added until their number is a
 * multiple of 64. */
PROPANE_CHECK propane_status compact_vocab_create(const uint8_t *used, const model_config *whole, vocab_map **out,
                                                  propane_error *err);
void compact_vocab_free(vocab_map *c);
/* Returns the configuration of the trained model. */
model_config compact_vocab_config(const vocab_map *c, const model_config *whole);
/* Keeps the tables of `whole` and copies its weights into `small`, with the rows of the chosen ids only. */
PROPANE_CHECK propane_status compact_vocab_take(vocab_map *c, const model_weights *whole, model_weights *small,
                                                propane_error *err);
/* Makes the whole model with the trained weights. */
PROPANE_CHECK propane_status compact_vocab_restore(const vocab_map *c, const model_config *whole,
                                                   const model_weights *small, model_weights **out, propane_error *err);
/* Replaces ids of the whole model by rows, in place; -1 stays unchanged. Returns PROPANE_ERR_INVALID for an id that has
 * no row. */
PROPANE_CHECK propane_status compact_vocab_map(const vocab_map *c, int32_t *ids, int64_t count, propane_error *err);
PROPANE_CHECK propane_status compact_vocab_write(const vocab_map *c, const char *path, propane_error *err);
/* Reads the tables of a resumed run. The ids in the file must be the same. */
PROPANE_CHECK propane_status compact_vocab_read(vocab_map *c, const char *path, propane_error *err);

#endif
