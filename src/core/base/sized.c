/* SPDX-License-Identifier: MIT
 * Owns copying between structures of two versions of the header: copies as many bytes as both have.
 */
#include "core/base/sized.h"

#include <string.h>

enum { SIZED_MOST = 4096 };

static size_t sized_of(const void *structure) {
    size_t size = 0;
    if (structure) memcpy(&size, structure, sizeof size);
    return size >= sizeof size && size <= SIZED_MOST ? size : 0;
}

propane_status sized_check(const void *structure, const char *what, propane_error *err) {
    size_t size;
    if (!structure || sized_of(structure)) return PROPANE_OK;
    memcpy(&size, structure, sizeof size);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: its size field is %zu; set it to sizeof(%s)", what, size, what);
}

propane_status sized_take(void *to, size_t room, const void *from, const char *what, propane_error *err) {
    PROPANE_TRY(sized_check(from, what, err));
    const size_t size = sized_of(from);
    if (size) memcpy(to, from, size < room ? size : room);
    return PROPANE_OK;
}

bool sized_give(void *to, const void *from, size_t room) {
    const size_t size = sized_of(to);
    if (!size) return false;
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size, (size < room ? size : room) - sizeof size);
    return true;
}
