/* SPDX-License-Identifier: MIT
 * Owns the assignment of examples to windows: examples in a seeded order go to the first of the latest OPEN windows in
 * which they fit. The tokens themselves are not moved.
 */
#include "lm/data/packed_windows.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"

enum { OPEN = 64 }; /* number of windows that are tried */

/* Returns the number of positions that an example needs. Its last token needs none, because it is only a target. */
static int64_t packed_windows_length_of(const packed_windows *p, int64_t example) {
    int64_t n = p->examples->start[example + 1] - p->examples->start[example] - 1;
    return n < p->context ? n : p->context;
}

static bool packed_windows_has_target(const packed_windows *p, int64_t example) {
    int64_t at = p->examples->start[example], n = packed_windows_length_of(p, example);
    for (int64_t i = 1; i <= n; i++)
        if (p->examples->learn[at + i]) return true;
    return false;
}

static int packed_windows_unit(const packed_windows *p) { return p->examples->pairs ? 2 : 1; }

/* Returns whether an example is used: it must have a target and, in a pair, so must the other example. */
static bool packed_windows_is_used(const packed_windows *p, int64_t example) {
    return packed_windows_has_target(p, example) && (!p->examples->pairs || packed_windows_has_target(p, example ^ 1));
}

/* Sets `at` to the window of each example of `order`, or -1 for none. */
static void packed_windows_assign(packed_windows *p, const int64_t *order, int64_t count, bool pack, int64_t *at) {
    int64_t used[OPEN] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t n = packed_windows_length_of(p, order[i]), oldest = p->windows > OPEN ? p->windows - OPEN : 0,
                w = oldest;
        at[i] = -1;
        p->cut += p->examples->start[order[i] + 1] - p->examples->start[order[i]] - 1 > n;
        if (!packed_windows_is_used(p, order[i])) {
            p->empty++;
            continue;
        }
        while (pack && w < p->windows && used[w % OPEN] + n > p->context) w++;
        if (!pack) w = p->windows;
        if (w == p->windows) used[p->windows++ % OPEN] = 0;
        used[w % OPEN] += n;
        at[i] = w;
    }
}

propane_status packed_windows_init(packed_windows *p, const train_examples *e, int64_t begin, int64_t end, int context,
                                   bool pack, uint64_t seed, propane_error *err) {
    int64_t count = end - begin;
    rng r;
    *p = (packed_windows){.examples = e, .context = context};
    int64_t *order = mem_array((size_t)count + 1, sizeof *order), *at = mem_array((size_t)count + 1, sizeof *at);
    p->first = mem_array((size_t)count + 2, sizeof *p->first);
    p->order = mem_array((size_t)count + 1, sizeof *p->order);
    propane_status status =
        order && at && p->first && p->order ? PROPANE_OK : propane_fail_memory(err, (size_t)count * 32);
    if (status == PROPANE_OK) {
        rng_init(&r, seed);
        const int unit = packed_windows_unit(p);
        for (int64_t i = 0; i < count / unit; i++) {
            const int64_t k = (int64_t)rng_below(&r, (uint64_t)i + 1);
            for (int u = 0; u < unit; u++) {
                order[i * unit + u] = order[k * unit + u];
                order[k * unit + u] = begin + i * unit + u;
            }
        }
        packed_windows_assign(p, order, count, pack && unit == 1, at);
        for (int64_t i = 0; i < count; i++) /* sort by window, in order of arrival: counting sort */
            if (at[i] >= 0) p->first[at[i] + 1]++;
        for (int64_t w = 0; w < p->windows; w++) p->first[w + 1] += p->first[w];
        for (int64_t i = 0; i < count; i++)
            if (at[i] >= 0) p->order[p->first[at[i]]++] = order[i];
        for (int64_t w = p->windows; w > 0; w--) p->first[w] = p->first[w - 1];
        p->first[0] = 0;
    }
    mem_free(order);
    mem_free(at);
    if (status != PROPANE_OK) packed_windows_deinit(p);
    return status;
}

int64_t packed_windows_shuffled(const packed_windows *p, uint64_t seed, uint64_t position) {
    const int unit = packed_windows_unit(p);
    return unit * rng_shuffled(seed, position / (uint64_t)unit, p->windows / unit) +
           (int64_t)(position % (uint64_t)unit);
}

int64_t packed_windows_evenly(const packed_windows *p, int64_t index, int64_t windows) {
    const int unit = packed_windows_unit(p);
    const int64_t there = p->windows / unit, wanted = windows / unit;
    const int64_t at = wanted > 1 ? index / unit * there / wanted % there : 0;
    return unit * at + index % unit;
}

void packed_windows_deinit(packed_windows *p) {
    mem_free(p->first);
    mem_free(p->order);
    *p = (packed_windows){0};
}

void packed_windows_get(const packed_windows *p, int64_t window, int32_t *inputs, int32_t *targets) {
    int64_t at = 0;
    for (int64_t i = p->first[window]; i < p->first[window + 1]; i++) {
        int64_t start = p->examples->start[p->order[i]], n = packed_windows_length_of(p, p->order[i]);
        for (int64_t k = 0; k < n; k++) {
            inputs[at + k] = p->examples->ids[start + k];
            targets[at + k] = p->examples->learn[start + k + 1] ? p->examples->ids[start + k + 1] : -1;
        }
        at += n;
    }
    for (; at < p->context; at++) inputs[at] = 0, targets[at] = -1;
}
