/* SPDX-License-Identifier: MIT
 * Dropout as a tensor: 0 where an element is dropped, 1 / (1 - dropout) where it is kept. A key (from the run's seed
 * and the sequence's place in the data), a mask (from the module that reads the tensor), the channel and the position
 * decide which elements are dropped. The choice therefore does not depend on threads, layouts or ranks.
 */
#ifndef LM_STEP_DROPOUT_H
#define LM_STEP_DROPOUT_H

#include <stdint.h>

#include "propane.h"

/* Returns a mask that is unique to each module of each half of a layer. */
uint64_t train_dropout_mask(int instance, const char *name);
/* Fills `data`, which has the layout `io`: [B,C,1,S] in fp32 or fp16. The first sequence uses `key`, the next one `key`
 * + 1, so parts of a batch drop the same elements as the whole batch. Key 0 drops nothing and sets all elements to
 * 1. */
void train_dropout_fill(void *data, const propane_io *io, uint64_t key, uint64_t mask, double dropout);

#endif
