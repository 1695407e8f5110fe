/* SPDX-License-Identifier: MIT
 * Merging of adjacent symbols, for byte pair encoding and for SentencePiece's pieces: the pair of the lowest rank
 * first, and the leftmost among equals. A heap over a linked list makes n symbols cost n log n. Private to src/lm/text.
 */
#ifndef LM_TEXT_PAIR_MERGER_H
#define LM_TEXT_PAIR_MERGER_H

#include "lm/text/token_list.h"

/* Returns the id that a pair merges into and sets its rank, or returns -1 if it is not merged. */
typedef int32_t (*pair_lookup)(const void *context, int32_t left, int32_t right, uint32_t *rank);

typedef struct pair_candidate pair_candidate;

/* Must start zeroed. Before each merge the caller writes ids[0 .. count), at most as many as were reserved. */
typedef struct pair_merger {
    int32_t *ids, *previous, *next; /* after a merge, ids[i] is -1 if symbol i became part of the one before it */
    pair_candidate *heap;
    size_t room, heap_count; /* room is counted in symbols */
} pair_merger;

PROPANE_CHECK propane_status pair_merger_reserve(pair_merger *m, size_t symbols, propane_error *err);
void pair_merger_deinit(pair_merger *m);
void pair_merger_run(pair_merger *m, int32_t count, pair_lookup lookup, const void *context);
/* Appends what remains of `count` symbols after a merge. */
PROPANE_CHECK propane_status pair_merger_append(const pair_merger *m, int32_t count, token_list *out,
                                                propane_error *err);

#endif
