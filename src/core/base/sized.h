/* SPDX-License-Identifier: MIT
 * Structures of the public header that may grow begin with their size, because a caller compiled against an older
 * header has a shorter one.
 */
#ifndef CORE_BASE_SIZED_H
#define CORE_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/status.h"

/* Checks that the size field is plausible. `what` is the structure's name in the message. A NULL structure is valid. */
PROPANE_CHECK propane_status sized_check(const void *structure, const char *what, propane_error *err);
/* Copies the caller's structure into ours of `room` bytes. Fields that the caller does not have keep their values. NULL
 * copies nothing. */
PROPANE_CHECK propane_status sized_take(void *to, size_t room, const void *from, const char *what, propane_error *err);
/* Copies our structure to the caller's. The size field is not copied. Returns false if `to` is NULL or its size is not
 * set. */
bool sized_give(void *to, const void *from, size_t room);

#endif
