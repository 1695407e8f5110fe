/* SPDX-License-Identifier: MIT
 * Examples packed into windows of a model's context, several per window if they fit. A position that is not a target
 * has the target -1, and so does the space after the last example. An example's first token follows the previous
 * example in the window and may attend to it; without packing, each example has a separate window. A pair uses two
 * windows, one after the other.
 */
#ifndef LM_DATA_PACKED_WINDOWS_H
#define LM_DATA_PACKED_WINDOWS_H

#include "lm/data/jsonl.h"

typedef struct packed_windows {
    const train_examples *examples;
    int context;
    int64_t windows;
    int64_t *first;     /* [windows + 1]: window w holds examples order[first[w]] .. order[first[w + 1] - 1] */
    int64_t *order;     /* numbers of examples */
    int64_t cut, empty; /* examples longer than a window; examples with no target left after the cut */
} packed_windows;

/* Packs examples [begin, end), shuffled by the seed. */
PROPANE_CHECK propane_status packed_windows_init(packed_windows *p, const train_examples *e, int64_t begin, int64_t end,
                                                 int context, bool pack, uint64_t seed, propane_error *err);
/* Returns the window at `position` of the endless sequence, which the seed reshuffles in each epoch. */
int64_t packed_windows_shuffled(const packed_windows *p, uint64_t seed, uint64_t position);
/* Returns window `index` of `windows` that are spread evenly over all. */
int64_t packed_windows_evenly(const packed_windows *p, int64_t index, int64_t windows);
void packed_windows_deinit(packed_windows *p);
/* Fills inputs and targets [context]. Does not allocate. */
void packed_windows_get(const packed_windows *p, int64_t window, int32_t *inputs, int32_t *targets);

#endif
