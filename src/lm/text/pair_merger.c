/* SPDX-License-Identifier: MIT
 * Owns the merging of pairs (pair_merger.h). A candidate stores the ids from which it was made. If its symbols have
 * changed since then, the candidate is outdated and is skipped, so the heap never needs a search.
 */
#include "lm/text/pair_merger.h"

#include "core/base/memory.h"

struct pair_candidate {
    uint64_t key; /* rank << 32 | position of the left symbol: smaller first */
    int32_t left_id, right_id, merged;
};

void pair_merger_deinit(pair_merger *m) {
    mem_free(m->ids);
    mem_free(m->heap);
    *m = (pair_merger){0};
}

propane_status pair_merger_reserve(pair_merger *m, size_t symbols, propane_error *err) {
    if (symbols <= m->room) return PROPANE_OK;
    if (symbols > INT32_MAX / 4)
        return propane_fail(err, PROPANE_ERR_LIMIT, "a text of %zu characters is too long to be encoded at once",
                            symbols);
    pair_merger_deinit(m);
    size_t room = symbols + symbols / 2 + 64;
    m->ids = mem_array(3 * room, sizeof *m->ids);
    m->heap = mem_array(3 * room, sizeof *m->heap); /* each merge removes a symbol and adds at most two candidates */
    if (!m->ids || !m->heap) {
        pair_merger_deinit(m);
        return propane_fail_memory(err, room * (3 * sizeof *m->ids + 3 * sizeof *m->heap));
    }
    m->previous = m->ids + room;
    m->next = m->previous + room;
    m->room = room;
    return PROPANE_OK;
}

static void pair_merger_push(pair_merger *m, pair_candidate c) {
    size_t i = m->heap_count++;
    for (; i > 0 && c.key < m->heap[(i - 1) / 2].key; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
    m->heap[i] = c;
}

static pair_candidate pair_merger_pop(pair_merger *m) {
    pair_candidate top = m->heap[0], last = m->heap[--m->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < m->heap_count; i = child) {
        if (child + 1 < m->heap_count && m->heap[child + 1].key < m->heap[child].key) child++;
        if (last.key <= m->heap[child].key) break;
        m->heap[i] = m->heap[child];
    }
    m->heap[i] = last;
    return top;
}

static void pair_merger_consider(pair_merger *m, int32_t at, pair_lookup lookup, const void *context) {
    if (at < 0 || m->next[at] < 0) return;
    uint32_t rank = 0;
    pair_candidate c = {.left_id = m->ids[at], .right_id = m->ids[m->next[at]]};
    c.merged = lookup(context, c.left_id, c.right_id, &rank);
    c.key = (uint64_t)rank << 32 | (uint32_t)at;
    if (c.merged >= 0) pair_merger_push(m, c);
}

void pair_merger_run(pair_merger *m, int32_t count, pair_lookup lookup, const void *context) {
    m->heap_count = 0;
    for (int32_t i = 0; i < count; i++) {
        m->previous[i] = i - 1;
        m->next[i] = i + 1 < count ? i + 1 : -1;
    }
    for (int32_t i = 0; i + 1 < count; i++) pair_merger_consider(m, i, lookup, context);
    while (m->heap_count) {
        pair_candidate c = pair_merger_pop(m);
        int32_t at = (int32_t)(uint32_t)c.key, right = m->next[at];
        if (m->ids[at] != c.left_id || right < 0 || m->ids[right] != c.right_id) continue; /* outdated */
        m->ids[at] = c.merged;
        m->next[at] = m->next[right];
        if (m->next[right] >= 0) m->previous[m->next[right]] = at;
        m->ids[right] = -1;
        pair_merger_consider(m, m->previous[at], lookup, context);
        pair_merger_consider(m, at, lookup, context);
    }
}

propane_status pair_merger_append(const pair_merger *m, int32_t count, token_list *out, propane_error *err) {
    for (int32_t i = 0; i >= 0 && i < count; i = m->next[i]) PROPANE_TRY(token_list_add(out, m->ids[i], err));
    return PROPANE_OK;
}
