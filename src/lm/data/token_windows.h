/* SPDX-License-Identifier: MIT
 * Batches from a long array of tokens, or from packed examples. The last part is held out for evaluation. The rest is
 * cut into windows of context+1 tokens at a random phase; an epoch visits each window once in an order that a keyed
 * permutation gives, so the whole state is the number of windows drawn, and resuming costs nothing.
 */
#ifndef LM_DATA_TOKEN_WINDOWS_H
#define LM_DATA_TOKEN_WINDOWS_H

#include "lm/data/packed_windows.h"

/* Targets of -1 are positions that nothing is learnt at. */
typedef struct token_windows {
    const void *tokens;
    int token_bytes;     /* 2: uint16_t, 4: uint32_t; little endian */
    int64_t train_count; /* tokens [0, train_count) */
    int64_t count;       /* tokens [train_count, count) are held out */
    int vocab, context;
    uint64_t seed;
    packed_windows packs[2]; /* instruction data: windows to train on, windows held out; then `tokens` is NULL */
} token_windows;

/* Checks sizes: each part needs context+1 tokens (the held-out one only if held_out > 0). `source` is for messages. */
PROPANE_CHECK propane_status token_windows_init(token_windows *d, const void *tokens, int token_bytes, int64_t count,
                                                int vocab, int context, double held_out, uint64_t seed,
                                                const char *source, propane_error *err);
/* The same, tokens from train_count on being held out; train_count = count: none. */
PROPANE_CHECK propane_status token_windows_init_split(token_windows *d, const void *tokens, int token_bytes,
                                                      int64_t count, int64_t train_count, int vocab, int context,
                                                      uint64_t seed, const char *source, propane_error *err);
/* The same from instruction data: the last examples are held out, each part must have a window. */
PROPANE_CHECK propane_status token_windows_init_examples(token_windows *d, const train_examples *e, int vocab,
                                                         int context, bool pack, double held_out, uint64_t seed,
                                                         const char *source, propane_error *err);
PROPANE_CHECK propane_status token_windows_init_examples_split(token_windows *d, const train_examples *e, int64_t train,
                                                               int vocab, int context, bool pack, bool held,
                                                               uint64_t seed, const char *source, propane_error *err);
void token_windows_deinit(token_windows *d);
/* Windows number position .. position+batch-1 of the endless sequence; inputs and targets [batch][context].
 * PROPANE_ERR_INVALID names a token that is outside the vocabulary. Does not allocate. */
PROPANE_CHECK propane_status token_windows_batch(const token_windows *d, uint64_t position, int batch, int32_t *inputs,
                                                 int32_t *targets, propane_error *err);
/* Window `index` of `windows` that lie evenly over the held-out part; the same at every evaluation. */
PROPANE_CHECK propane_status token_windows_held_out(const token_windows *d, int64_t index, int64_t windows,
                                                    int32_t *inputs, int32_t *targets, propane_error *err);
/* The same for the same ids, whatever their width; other for other ones. */
uint64_t token_windows_sum(const void *tokens, int token_bytes, int64_t count);
/* How many windows an epoch has. */
int64_t token_windows_count(const token_windows *d);
/* How many windows without overlap the held-out part has. */
int64_t token_windows_held_out_windows(const token_windows *d);

#endif
