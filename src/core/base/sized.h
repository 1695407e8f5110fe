/* SPDX-License-Identifier: MIT
 * Structures of the public header that may grow begin with their size: a caller of an older header has a shorter one.
 */
#ifndef CORE_BASE_SIZED_H
#define CORE_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

/* Is the size one that a structure can have? `what`: its name, for the message. NULL: nothing is there, which is
 * right. */
PROPANE_CHECK propane_status sized_check(const void *structure, const char *what, propane_error *err);
/* The caller's into ours of `room` bytes: what the caller does not have keeps its value. NULL: nothing is given. */
PROPANE_CHECK propane_status sized_take(void *to, size_t room, const void *from, const char *what, propane_error *err);
/* The other way round; false: there is no structure, or its size is not set. */
bool sized_give(void *to, const void *from, size_t room);

#endif
