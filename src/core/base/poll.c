/* SPDX-License-Identifier: MIT
 * Owns asking the host whether work should end. Only the thread that began the scope asks, because an interpreter
 * handles its signals in one thread. A device thread that works for the scope reads the answer. If the host has set no
 * function, poll_stop returns at once.
 */
#include "core/base/poll.h"

#include <stddef.h>

#include "core/base/clock.h"
#include "propane.h"

static struct {
    propane_asked ask;
    void *context;
} host; /* set before other threads exist */

/* poll_own is the scope that this thread began; poll_now is the one that it works for. */
static _Thread_local poll_scope *poll_own, *poll_now;
static _Thread_local int64_t poll_next_ns;

void propane_set_interrupt(propane_asked asked, void *context) {
    host.ask = asked;
    host.context = context;
}

bool poll_ask(void) { return host.ask && host.ask(host.context); }

void poll_begin(poll_scope *scope) {
    atomic_init(&scope->ended, false);
    scope->before = poll_now;
    scope->before_own = poll_own;
    poll_now = poll_own = scope;
}

propane_status poll_end(poll_scope *scope, propane_status status, propane_error *err) {
    poll_now = scope->before;
    poll_own = scope->before_own;
    if (status != PROPANE_OK || !atomic_load_explicit(&scope->ended, memory_order_relaxed)) return status;
    return propane_fail(err, PROPANE_ERR_CANCELLED, "the run was cancelled at its end");
}

bool poll_stop(void) {
    poll_scope *scope = poll_now;
    if (!scope || !host.ask) return false;
    if (atomic_load_explicit(&scope->ended, memory_order_relaxed)) return true;
    if (scope != poll_own) return false;
    const int64_t now = clock_ns();
    if (now < poll_next_ns) return false;
    poll_next_ns = now + POLL_MS * INT64_C(1000000);
    if (!poll_ask()) return false;
    atomic_store_explicit(&scope->ended, true, memory_order_relaxed);
    return true;
}

poll_scope *poll_current(void) { return host.ask ? poll_now : NULL; }

poll_scope *poll_adopt(poll_scope *scope) {
    poll_scope *before = poll_now;
    poll_now = scope;
    return before;
}
