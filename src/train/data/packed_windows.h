/* SPDX-License-Identifier: MIT
 * Examples laid into windows of a model's context, several into one where they fit. A position whose target is not to be
 * learnt has the target -1; so has what is left empty behind the last example. An example's first token follows the one
 * before it in the window and may attend to it; packing off gives each a window of its own.
 */
#ifndef TRAIN_DATA_PACKED_WINDOWS_H
#define TRAIN_DATA_PACKED_WINDOWS_H

#include "train/data/jsonl.h"

typedef struct train_windows {
    const train_examples *examples;
    int context;
    int64_t windows;
    int64_t *first; /* [windows + 1]: window w holds examples order[first[w]] .. order[first[w + 1] - 1] */
    int64_t *order; /* numbers of examples */
    int64_t cut,
        empty; /* examples that were longer than a window; that had nothing to learn in what was left of them */
} train_windows;

/* Examples [begin, end), shuffled by the seed. */
PROPANE_CHECK propane_status train_windows_init(train_windows *p, const train_examples *e, int64_t begin, int64_t end,
                                                int context, bool pack, uint64_t seed, propane_error *err);
void train_windows_deinit(train_windows *p);
/* inputs and targets [context]. Does not allocate. */
void train_windows_get(const train_windows *p, int64_t window, int32_t *inputs, int32_t *targets);

#endif
