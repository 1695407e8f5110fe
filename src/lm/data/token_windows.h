/* SPDX-License-Identifier: MIT
 * Batches from a long array of tokens, or from packed examples. The last part is held out for evaluation. The other
 * tokens are cut into windows of context+1 tokens at a random phase. An epoch visits each window once, in the order of
 * a keyed permutation. The number of windows drawn is therefore the whole state, and resuming costs nothing.
 */
#ifndef LM_DATA_TOKEN_WINDOWS_H
#define LM_DATA_TOKEN_WINDOWS_H

#include "lm/data/packed_windows.h"

/* A target of -1 marks a position that does not count toward the loss. */
typedef struct token_windows {
    const void *tokens;
    int token_bytes;     /* 2 for uint16_t, 4 for uint32_t; little endian */
    int64_t train_count; /* tokens [0, train_count) are for training */
    int64_t count;       /* tokens [train_count, count) are held out */
    int vocab, context;
    uint64_t seed;
    packed_windows packs[2]; /* instruction data: windows for training, windows held out; `tokens` is then NULL */
} token_windows;

/* Prepares batches from tokens, of which the fraction held_out is held out. Each part needs context+1 tokens (the
 * held-out part only if held_out > 0). `source` names the data in messages. */
PROPANE_CHECK propane_status token_windows_init(token_windows *d, const void *tokens, int token_bytes, int64_t count,
                                                int vocab, int context, double held_out, uint64_t seed,
                                                const char *source, propane_error *err);
/* Prepares batches from tokens, of which those from train_count on are held out; train_count equal to count means
 * none. */
PROPANE_CHECK propane_status token_windows_init_split(token_windows *d, const void *tokens, int token_bytes,
                                                      int64_t count, int64_t train_count, int vocab, int context,
                                                      uint64_t seed, const char *source, propane_error *err);
/* Prepare batches from instruction data. The last examples are held out: a fraction of all, or those from `train` on.
 * Each part must have a window (the held-out part only if held_out is above 0 or `held` is true). */
PROPANE_CHECK propane_status token_windows_init_examples(token_windows *d, const train_examples *e, int vocab,
                                                         int context, bool pack, double held_out, uint64_t seed,
                                                         const char *source, propane_error *err);
PROPANE_CHECK propane_status token_windows_init_examples_split(token_windows *d, const train_examples *e, int64_t train,
                                                               int vocab, int context, bool pack, bool held,
                                                               uint64_t seed, const char *source, propane_error *err);
void token_windows_deinit(token_windows *d);
/* Fills in windows position .. position+batch-1 of the endless sequence; inputs and targets are [batch][context].
 * Returns PROPANE_ERR_INVALID, with the token, if a token is outside the vocabulary. Does not allocate. */
PROPANE_CHECK propane_status token_windows_batch(const token_windows *d, uint64_t position, int batch, int32_t *inputs,
                                                 int32_t *targets, propane_error *err);
/* Fills in window `index` of `windows` windows that are spread evenly over the held-out part. The windows are the same
 * in every evaluation. */
PROPANE_CHECK propane_status token_windows_held_out(const token_windows *d, int64_t index, int64_t windows,
                                                    int32_t *inputs, int32_t *targets, propane_error *err);
/* Returns a checksum of the ids, which does not depend on their width in bytes. */
uint64_t token_windows_sum(const void *tokens, int token_bytes, int64_t count);
/* Returns the number of windows per epoch. */
int64_t token_windows_count(const token_windows *d);
/* Returns the number of windows that fit into the held-out part without overlap. */
int64_t token_windows_held_out_windows(const token_windows *d);

#endif
