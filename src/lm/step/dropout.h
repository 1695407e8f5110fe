/* SPDX-License-Identifier: MIT
 * Dropout as a tensor: 0 where an element is dropped, 1 / (1 - dropout) where it stays. What is dropped follows from
 * three numbers and the element's place, so that neither threads nor layouts nor ranks change it: a key (of the
 * sequence: the run's seed and the sequence's place in the data), a mask (of what reads the tensor), channel and
 * position.
 */
#ifndef LM_STEP_DROPOUT_H
#define LM_STEP_DROPOUT_H

#include <stdint.h>

#include "propane.h"

/* A mask of its own for each module of each half of a layer. */
uint64_t train_dropout_mask(int instance, const char *name);
/* `data` lies as `io` says, [B,C,1,S] in fp32 or fp16. The first sequence has the key, the next one key + 1, so parts
 * of a batch drop what the whole does. Key 0: nothing is dropped, all is 1. */
void train_dropout_fill(void *data, const propane_io *io, uint64_t key, uint64_t mask, double dropout);

#endif
