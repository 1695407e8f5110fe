/* SPDX-License-Identifier: MIT
 * Merges adjacent symbols, for byte pair encoding and for SentencePiece's pieces. The pair with the lowest rank is
 * merged first, and of equal pairs the leftmost. With a heap over a linked list, n symbols cost n log n. Private to
 * src/lm/text.
 */
#ifndef LM_TEXT_PAIR_MERGER_H
#define LM_TEXT_PAIR_MERGER_H

#include "lm/text/token_list.h"

/* Returns the id into which a pair is merged and sets *rank to the pair's rank, or returns -1 if the pair is not
 * merged. */
typedef int32_t (*pair_lookup)(const void *context, int32_t left, int32_t right, uint32_t *rank);

typedef struct pair_candidate pair_candidate;

/* Must be zeroed initially. Before each run, the caller writes ids[0 .. count), at most as many as it has reserved. */
typedef struct pair_merger {
    int32_t *ids, *previous, *next; /* after a run, ids[i] is -1 if symbol i has become part of the symbol before it */
    pair_candidate *heap;
    size_t room, heap_count; /* room is counted in symbols */
} pair_merger;

PROPANE_CHECK propane_status pair_merger_reserve(pair_merger *m, size_t symbols, propane_error *err);
void pair_merger_deinit(pair_merger *m);
void pair_merger_run(pair_merger *m, int32_t count, pair_lookup lookup, const void *context);
/* Appends the symbols that remain of `count` symbols after a run. */
PROPANE_CHECK propane_status pair_merger_append(const pair_merger *m, int32_t count, token_list *out,
                                                propane_error *err);

#endif
