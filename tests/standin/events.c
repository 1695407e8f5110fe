/* SPDX-License-Identifier: MIT
 * Owns the parts of Metal and of blocks that shared events need: a device that creates events, and blocks that are
 * counted according to their ABI (https://clang.llvm.org/docs/Block-ABI-Apple.html). Events of the memory route's
 * clients are in engine_request.c.
 */
#include <stdlib.h>

#include "standin/engine.h"

enum { NEEDS_FREE = 1 << 24, REFERENCES = 0xfffe, ONE_REFERENCE = 2 };

typedef struct block {
    const void *isa;
    int flags;
} block;

EXPORT const long _NSConcreteMallocBlock[32] = {0};

EXPORT const class *object_getClass(const object *o) {
    return standin_check(o, KIND_NONE, "object_getClass") ? o->isa : NULL;
}

/* Retains a block on the heap; any other block stays where it is. */
EXPORT void *_Block_copy(void *from) {
    block *b = from;
    if (b && __atomic_load_n(&b->flags, __ATOMIC_SEQ_CST) & NEEDS_FREE)
        __atomic_add_fetch(&b->flags, ONE_REFERENCE, __ATOMIC_SEQ_CST);
    return b;
}

EXPORT void _Block_release(const void *of) {
    block *b = (block *)(uintptr_t)of;
    if (!b || !(__atomic_load_n(&b->flags, __ATOMIC_SEQ_CST) & NEEDS_FREE)) return;
    int left = __atomic_sub_fetch(&b->flags, ONE_REFERENCE, __ATOMIC_SEQ_CST) & REFERENCES;
    if (left == REFERENCES) standin_violation("a block is released once too often");
    if (!left) free(b);
}

EXPORT uint32_t CGMainDisplayID(void);
EXPORT uint32_t CGMainDisplayID(void) { return 1; }

EXPORT object *MTLCreateSystemDefaultDevice(void);
EXPORT object *MTLCreateSystemDefaultDevice(void) {
    return standin_is("metal", "none") ? NULL : standin_new("StandInMetalDevice", KIND_OTHER, NULL, 0);
}

static object *new_event(object *self, const char *selector) {
    return standin_is("metal", "eventless") ? NULL : standin_new(standin_metal_event, KIND_OTHER, NULL, 0);
}
/* The value is in `count`, as in engine_request.c. */
static uint64_t event_value(object *self, const char *selector) {
    return (uint64_t)__atomic_load_n(&self->count, __ATOMIC_SEQ_CST);
}
static void event_set_value(object *self, const char *selector, uint64_t value) {
    if (value < event_value(self, selector)) standin_violation("the value of an event becomes smaller");
    __atomic_store_n(&self->count, (long)value, __ATOMIC_SEQ_CST);
}
static uint32_t event_port(object *self, const char *selector) { return 1; }

const char standin_metal_event[] = "StandInMetalEvent";

#define CODE(function) ((void (*)(void))(function))

const method standin_metal_methods[] = {
    {"StandInMetalDevice", '-', "newSharedEvent", "@16@0:8", CODE(new_event)},
    {standin_metal_event, '-', "signaledValue", "Q16@0:8", CODE(event_value)},
    {standin_metal_event, '-', "setSignaledValue:", "v24@0:8Q16", CODE(event_set_value)},
    {standin_metal_event, '-', "eventPort", "I16@0:8", CODE(event_port)},
    {NULL, 0, NULL, NULL, NULL},
};
