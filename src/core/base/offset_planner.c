/* SPDX-License-Identifier: MIT
 * Owns the order in which spans are placed and the search for gaps, which takes time with the square of their number.
 */
#include "core/base/offset_planner.h"

#include <stdlib.h>

#include "core/base/int_math.h"
#include "core/base/memory.h"

typedef struct sized {
    int64_t bytes;
    int span;
} sized;

static int offset_larger_first(const void *a, const void *b) {
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->span - y->span;
}

/* `placed` is kept in the order of offsets. */
static int64_t offset_best_fit(const fit_span *spans, const int *placed, int count, const fit_span *s, int64_t align) {
    int64_t best = -1, best_gap = INT64_MAX, end = 0;
    for (int i = 0; i < count; i++) {
        const fit_span *o = &spans[placed[i]];
        if (o->first > s->last || s->first > o->last) continue;
        int64_t gap = o->offset - end;
        if (gap >= s->bytes && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (round_up(o->offset + o->bytes, align) > end) end = round_up(o->offset + o->bytes, align);
    }
    return best >= 0 ? best : end;
}

static int64_t offset_place(fit_span *spans, const sized *order, int count, int64_t align, int *placed) {
    int64_t bytes = 0;
    for (int i = 0; i < count; i++) {
        fit_span *s = &spans[order[i].span];
        s->offset = offset_best_fit(spans, placed, i, s, align);
        int at = i;
        while (at > 0 && spans[placed[at - 1]].offset > s->offset) {
            placed[at] = placed[at - 1];
            at--;
        }
        placed[at] = order[i].span;
        if (round_up(s->offset + s->bytes, align) > bytes) bytes = round_up(s->offset + s->bytes, align);
    }
    return bytes;
}

propane_status fit_spans(fit_span *spans, int count, int64_t align, int64_t *bytes, propane_error *err) {
    sized *order = mem_array((size_t)count + 1, sizeof *order);
    int *placed = mem_array((size_t)count + 1, sizeof *placed);
    propane_status status = PROPANE_OK;
    if (order && placed) {
        for (int i = 0; i < count; i++) order[i] = (sized){spans[i].bytes, i};
        qsort(order, (size_t)count, sizeof *order, offset_larger_first);
        *bytes = offset_place(spans, order, count, align, placed);
    } else {
        status = propane_fail_memory(err, (size_t)count * sizeof *order);
    }
    mem_free(order);
    mem_free(placed);
    return status;
}
