/* SPDX-License-Identifier: MIT
 * Examples packed into windows of a model's context, several per window if they fit. Positions whose next token is not
 * a target have the target -1, and so do positions after the last example. An example follows the previous example of
 * its window and can attend to it. Without packing, each example has a separate window. A pair uses two consecutive
 * windows.
 */
#ifndef LM_DATA_PACKED_WINDOWS_H
#define LM_DATA_PACKED_WINDOWS_H

#include "lm/data/jsonl.h"

typedef struct packed_windows {
    const train_examples *examples;
    int context;
    int64_t windows;
    int64_t *first; /* [windows + 1]: window w holds examples order[first[w]] .. order[first[w + 1] - 1] */
    int64_t *order; /* numbers of examples */
    /* number of examples that are longer than a window, and of those that have no target left after the cut */
    int64_t cut, empty;
} packed_windows;

/* Packs examples [begin, end), shuffled by the seed. */
PROPANE_CHECK propane_status packed_windows_init(packed_windows *p, const train_examples *e, int64_t begin, int64_t end,
                                                 int context, bool pack, uint64_t seed, propane_error *err);
/* Returns the window at `position` of an endless sequence of epochs, each of which is shuffled differently. */
int64_t packed_windows_shuffled(const packed_windows *p, uint64_t seed, uint64_t position);
/* Returns the number of window `index` of `windows` windows that are spread evenly over all windows. */
int64_t packed_windows_evenly(const packed_windows *p, int64_t index, int64_t windows);
void packed_windows_deinit(packed_windows *p);
/* Fills inputs and targets [context]. Does not allocate. */
void packed_windows_get(const packed_windows *p, int64_t window, int32_t *inputs, int32_t *targets);

#endif
