/* SPDX-License-Identifier: MIT
 * Owns the order in which spans are placed and the search for gaps. Up to MANY spans are placed from the largest to the
 * smallest, each in the gap that fits best. That needs less memory, but time quadratic in the number of spans. More
 * spans are placed in order of their first steps, in pieces of a free list, of which only the last PIECES pieces are
 * examined.
 */
#include "core/base/offset_planner.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/int_math.h"
#include "core/base/memory.h"

enum { MANY = 8192, PIECES = 256 };

typedef struct sorted {
    int64_t key;
    int span;
} sorted;

static int offset_smaller_key_first(const void *a, const void *b) {
    const sorted *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->span - y->span;
}

/* Returns the best offset for a span. `placed` lists the spans placed so far, in order of offset. */
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

static int64_t offset_place(fit_span *spans, const sorted *order, int count, int64_t align, int *placed) {
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

/* ---- many -------------------------------------------------------------------------------------------------------- */

/* Free memory below `end`, in the order of offsets; two pieces never touch. */
typedef struct offset_pieces {
    struct offset_piece {
        int64_t offset, bytes;
    } *list;
    int count;
    int64_t end;
} offset_pieces;

static void offset_piece_remove(offset_pieces *p, int at) {
    memmove(&p->list[at], &p->list[at + 1], (size_t)(--p->count - at) * sizeof *p->list);
}

/* Returns the offset of `bytes` bytes, taken from the best fit among the last PIECES pieces, or added at the end if
 * none fits. */
static int64_t offset_piece_take(offset_pieces *p, int64_t bytes) {
    int best = -1;
    for (int i = p->count - 1; i >= 0 && i >= p->count - PIECES; i--)
        if (p->list[i].bytes >= bytes && (best < 0 || p->list[i].bytes < p->list[best].bytes)) best = i;
    if (best < 0) {
        p->end += bytes;
        return p->end - bytes;
    }
    const int64_t offset = p->list[best].offset;
    p->list[best].offset += bytes;
    p->list[best].bytes -= bytes;
    if (!p->list[best].bytes) offset_piece_remove(p, best);
    return offset;
}

static void offset_piece_give(offset_pieces *p, int64_t offset, int64_t bytes) {
    int at = 0;
    for (int end = p->count; at < end;) {
        const int middle = at + (end - at) / 2;
        if (p->list[middle].offset < offset)
            at = middle + 1;
        else
            end = middle;
    }
    const bool before = at > 0 && p->list[at - 1].offset + p->list[at - 1].bytes == offset;
    const bool behind = at < p->count && offset + bytes == p->list[at].offset;
    if (before) p->list[at - 1].bytes += bytes;
    if (before && behind) {
        p->list[at - 1].bytes += p->list[at].bytes;
        offset_piece_remove(p, at);
    } else if (behind) {
        p->list[at].offset = offset;
        p->list[at].bytes += bytes;
    } else if (!before) {
        memmove(&p->list[at + 1], &p->list[at], (size_t)(p->count++ - at) * sizeof *p->list);
        p->list[at].offset = offset;
        p->list[at].bytes = bytes;
    }
}

static propane_status offset_place_many(fit_span *spans, int count, int64_t align, int64_t *bytes, propane_error *err) {
    offset_pieces p = {.list = mem_array((size_t)count + 1, sizeof *p.list)};
    sorted *begins = mem_array((size_t)count, sizeof *begins), *ends = mem_array((size_t)count, sizeof *ends);
    const bool room = p.list && begins && ends;
    for (int i = 0; i < count && room; i++) {
        begins[i] = (sorted){spans[i].first, i};
        ends[i] = (sorted){spans[i].last, i};
    }
    if (room) {
        qsort(begins, (size_t)count, sizeof *begins, offset_smaller_key_first);
        qsort(ends, (size_t)count, sizeof *ends, offset_smaller_key_first);
        for (int i = 0, over = 0; i < count; i++) {
            for (; ends[over].key < begins[i].key; over++)
                offset_piece_give(&p, spans[ends[over].span].offset, round_up(spans[ends[over].span].bytes, align));
            fit_span *s = &spans[begins[i].span];
            s->offset = offset_piece_take(&p, round_up(s->bytes, align));
        }
        *bytes = p.end;
    }
    mem_free(p.list);
    mem_free(begins);
    mem_free(ends);
    return room ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof *begins);
}

propane_status fit_spans(fit_span *spans, int count, int64_t align, int64_t *bytes, propane_error *err) {
    if (count > MANY) return offset_place_many(spans, count, align, bytes, err);
    sorted *order = mem_array((size_t)count + 1, sizeof *order);
    int *placed = mem_array((size_t)count + 1, sizeof *placed);
    propane_status status = PROPANE_OK;
    if (order && placed) {
        for (int i = 0; i < count; i++) order[i] = (sorted){-spans[i].bytes, i}; /* the largest first */
        qsort(order, (size_t)count, sizeof *order, offset_smaller_key_first);
        *bytes = offset_place(spans, order, count, align, placed);
    } else {
        status = propane_fail_memory(err, (size_t)count * sizeof *order);
    }
    mem_free(order);
    mem_free(placed);
    return status;
}
