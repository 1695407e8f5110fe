/* SPDX-License-Identifier: MIT
 * Lists that grow by one element at a time. The capacity follows from the count (4 at first, doubled whenever the list
 * is full), so only the count is stored.
 */
#ifndef CORE_BASE_ARRAY_H
#define CORE_BASE_ARRAY_H

#include "core/base/arena.h"

/* Returns the list with room for one more element after `count` elements; the list may have moved. Returns NULL if
 * memory runs out, sets err (which may be NULL) and leaves the list unchanged. */
#define ARRAY_MORE(list, count, err)    array_more((list), (size_t)(count), sizeof *(list), (err))
#define ARENA_MORE(a, list, count, err) arena_more((a), (list), (size_t)(count), sizeof *(list), (err))

void *array_more(void *list, size_t count, size_t size, propane_error *err);
void *arena_more(arena *a, void *list, size_t count, size_t size, propane_error *err);

#endif
