/* SPDX-License-Identifier: MIT
 * Who is asking: a number for the calls that are under way, so that requests for memory from one place by one way count
 * as one. For the harness of failing requests in the process (failing.c) and the one that is loaded before a command
 * (hard/preload).
 */
#ifndef TESTS_SUPPORT_STACK_H
#define TESTS_SUPPORT_STACK_H

#include <stdint.h>
#include <unwind.h>

enum { STACK_DEPTH = 100 }; /* frames that count: more than there are, but where something recurs for long */

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

/* The return addresses of all frames as one number, the same for the same calls in one process. It asks for no memory
 * but perhaps the first time. */
static inline uint64_t stack_hash(void) {
    stack_walk w = {.hash = 0xcbf29ce484222325u, .left = STACK_DEPTH};
    (void)_Unwind_Backtrace(stack_frame, &w);
    return w.hash;
}

#endif
