/* SPDX-License-Identifier: MIT
 * Ends long work early at the host's request, such as Ctrl-C in an interpreter whose thread is inside the library.
 */
#ifndef CORE_BASE_POLL_H
#define CORE_BASE_POLL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/status.h"

/* Work that may end between two of its steps. The scope travels with the work that it submits to a device's thread. */
typedef struct poll_scope {
    atomic_bool ended;
    struct poll_scope *before, *before_own;
} poll_scope;

/* Starts a scope in this thread: until poll_end the work may end early, and must then leave everything as if it had not
 * begun. */
void poll_begin(poll_scope *scope);
/* Ends the scope and returns the final status. It is PROPANE_ERR_CANCELLED even if the host asked too late for a step
 * to notice. */
PROPANE_CHECK propane_status poll_end(poll_scope *scope, propane_status status, propane_error *err);

/* Returns true between two steps if the work must end (PROPANE_ERR_CANCELLED). The host is asked at most every POLL_MS,
 * and only by the thread that began. Returns false outside every scope. */
bool poll_stop(void);
/* Asks the host directly, inside or outside a scope. */
bool poll_ask(void);

enum { POLL_MS = 50 };

/* For the device's queue: return the scope of what is submitted, and adopt a scope while its request runs (returns the
 * previous one). */
poll_scope *poll_current(void);
poll_scope *poll_adopt(poll_scope *scope);

#endif
