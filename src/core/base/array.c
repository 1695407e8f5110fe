/* SPDX-License-Identifier: MIT
 * Owns lists that grow by one element at a time.
 */
#include "core/base/array.h"

#include <string.h>

#include "core/base/memory.h"

enum { SMALLEST = 4 };

/* Returns the new capacity, or 0 if there is still room for one more element. */
static size_t array_larger(size_t count) {
    if (count < SMALLEST) return count == 0 ? SMALLEST : 0;
    return count & (count - 1) ? 0 : 2 * count;
}

static void *array_checked(void *list, size_t bytes, propane_error *err) {
    if (!list && err) (void)propane_fail_memory(err, bytes);
    return list;
}

void *array_more(void *list, size_t count, size_t size, propane_error *err) {
    const size_t room = array_larger(count);
    if (!room) return list;
    return array_checked(room > SIZE_MAX / size ? NULL : mem_resize(list, room * size), room * size, err);
}

void *arena_more(arena *a, void *list, size_t count, size_t size, propane_error *err) {
    const size_t room = array_larger(count);
    if (!room) return list;
    void *larger = arena_array(a, room, size);
    if (larger && count) memcpy(larger, list, count * size);
    return array_checked(larger, room * size, err);
}
