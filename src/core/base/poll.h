/* SPDX-License-Identifier: MIT
 * Ends long work early at the host's request, such as Ctrl-C in an interpreter whose thread is inside the library.
 */
#ifndef CORE_BASE_POLL_H
#define CORE_BASE_POLL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/status.h"

/* A scope is work that may end early, between two of its steps. Requests that the work submits to a device's thread
 * carry the scope along. */
typedef struct poll_scope {
    atomic_bool ended;
    struct poll_scope *before, *before_own;
} poll_scope;

/* Starts a scope in this thread: until poll_end the work may end early, and must then leave everything as if it had not
 * begun. */
void poll_begin(poll_scope *scope);
/* Ends the scope. Returns `status`, but PROPANE_ERR_CANCELLED if the work succeeded although the host had asked it to
 * end. */
PROPANE_CHECK propane_status poll_end(poll_scope *scope, propane_status status, propane_error *err);

/* Called between two steps. Returns true if the work must end with PROPANE_ERR_CANCELLED, and false outside every
 * scope. The host is asked at most every POLL_MS milliseconds, and only by the thread that began the scope. */
bool poll_stop(void);
/* Asks the host directly, inside or outside a scope. */
bool poll_ask(void);

enum { POLL_MS = 50 };

/* For the device's queue. poll_current returns the scope for a request that is submitted now. poll_adopt sets the
 * thread's scope while that request runs, and returns the previous one. */
poll_scope *poll_current(void);
poll_scope *poll_adopt(poll_scope *scope);

#endif
