/* SPDX-License-Identifier: MIT
 * Lists that grow by one element at a time. Their room follows from their count: 4, and twice as much whenever they are
 * full. So only the count is kept.
 */
#ifndef CORE_BASE_ARRAY_H
#define CORE_BASE_ARRAY_H

#include "core/base/arena.h"

/* The list with room for one more after `count` elements; it may have moved. NULL: no memory, which err (it may be
 * NULL) tells; the list is as it was. */
#define ARRAY_MORE(list, count, err)    array_more((list), (size_t)(count), sizeof *(list), (err))
#define ARENA_MORE(a, list, count, err) arena_more((a), (list), (size_t)(count), sizeof *(list), (err))

void *array_more(void *list, size_t count, size_t size, propane_error *err);
void *arena_more(arena *a, void *list, size_t count, size_t size, propane_error *err);

#endif
