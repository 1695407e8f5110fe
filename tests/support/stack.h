/* SPDX-License-Identifier: MIT
 * Identifies callers: a number for the current chain of calls, so that memory requests from one place by one path count
 * as one. For the in-process harness of failing requests (failing.c) and the one that is preloaded before a command
 * (hard/preload).
 */
#ifndef TESTS_SUPPORT_STACK_H
#define TESTS_SUPPORT_STACK_H

#include <stdint.h>
#include <unwind.h>

enum { STACK_DEPTH = 100 }; /* maximum number of counted frames, more than there are except in long recursions */

typedef struct stack_walk {
    uint64_t hash;
    int left;
} stack_walk;

static inline _Unwind_Reason_Code stack_frame(struct _Unwind_Context *frame, void *context) {
    stack_walk *w = context;
    w->hash = (w->hash ^ (uint64_t)_Unwind_GetIP(frame)) * 0x100000001b3u;
    w->hash ^= w->hash >> 29;
    return --w->left > 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Returns the return addresses of all frames as one number, which is the same for the same calls within one process.
 * Requests no memory, except possibly the first time. */
static inline uint64_t stack_hash(void) {
    stack_walk w = {.hash = 0xcbf29ce484222325u, .left = STACK_DEPTH};
    (void)_Unwind_Backtrace(stack_frame, &w);
    return w.hash;
}

#endif
