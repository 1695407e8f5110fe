/* SPDX-License-Identifier: MIT
 * Constants that are overwritten in a compiled program: the place of each element of a tensor among the constants,
 * packed as the tasks fetch it. A copy is up to three loops with strides on both sides; a tensor has as many copies as
 * it has places.
 */
#ifndef ANE_H13_PATCH_H
#define ANE_H13_PATCH_H

#include "ane/h13/object.h"

enum { ENGINE_PATCH_NEVER = -1 };

typedef struct engine_patch {
    const char *constant; /* name of the tensor */
    int64_t elements;     /* of the whole tensor; ENGINE_PATCH_NEVER: it has a place that cannot be overwritten */
    int64_t start, at;    /* first element read; byte of the constants that is written first */
    int64_t count[3], from[3], to[3]; /* times; stride in elements of the tensor; stride in bytes of the constants */
} engine_patch;

/* Writes a tensor's elements to all its places; `constants` are o->constant_bytes. PROPANE_ERR_UNSUPPORTED: the program
 * was not compiled for that, or holds the tensor in a form that cannot be overwritten; PROPANE_ERR_INVALID: another
 * number of elements. */
PROPANE_CHECK propane_status engine_patch_apply(const engine_object *o, const char *constant, const uint16_t *values,
                                                int64_t count, uint8_t *constants, propane_error *err);

#endif
