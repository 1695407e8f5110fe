/* SPDX-License-Identifier: MIT
 * Ending long work early because the host wants it: Ctrl-C in an interpreter whose thread is inside the library.
 */
#ifndef CORE_BASE_POLL_H
#define CORE_BASE_POLL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/status.h"

/* Work that may end between two of its steps. What it submits to a device goes with it to the device's thread. */
typedef struct poll_scope {
    atomic_bool ended;
    struct poll_scope *before, *before_own;
} poll_scope;

/* In this thread, from here to poll_end: the work may end. It must then leave everything as if it had not begun. */
void poll_begin(poll_scope *scope);
/* What became of it: PROPANE_ERR_CANCELLED where the host said so too late for a step to see it. */
PROPANE_CHECK propane_status poll_end(poll_scope *scope, propane_status status, propane_error *err);

/* Between two steps: true, the work is to end (PROPANE_ERR_CANCELLED). The host is asked at most every POLL_MS, and by
 * the thread alone that began. False outside of every scope. */
bool poll_stop(void);
/* Asks the host itself, in or outside of a scope. */
bool poll_ask(void);

enum { POLL_MS = 50 };

/* For the device's queue: the scope of what is submitted, and taking one on while its request runs (returns the
 * former). */
poll_scope *poll_current(void);
poll_scope *poll_adopt(poll_scope *scope);

#endif
