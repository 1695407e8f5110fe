/* SPDX-License-Identifier: MIT
 * Constants that can be overwritten in a compiled program: the place of each element of a tensor among the constants,
 * packed as the tasks fetch it. A copy has up to three nested loops with strides on both sides. A tensor has one copy
 * per place.
 */
#ifndef ANE_H13_PATCH_H
#define ANE_H13_PATCH_H

#include "ane/h13/object.h"

enum { ENGINE_PATCH_NEVER = -1 };

typedef struct engine_patch {
    const char *constant; /* name of the tensor */
    int64_t elements;     /* of the whole tensor; ENGINE_PATCH_NEVER if one of its places cannot be overwritten */
    int64_t start, at;    /* start: first element read; at: first byte of the constants written */
    int64_t count[3], from[3], to[3]; /* iterations; stride in the tensor's elements; stride in bytes of constants */
} engine_patch;

/* Writes a tensor's elements to all its places; `constants` has o->constant_bytes bytes. Returns
 * PROPANE_ERR_UNSUPPORTED if the program was not compiled for that, or holds the tensor in a form that cannot be
 * overwritten. Returns PROPANE_ERR_INVALID if the number of elements is wrong. */
PROPANE_CHECK propane_status engine_patch_apply(const engine_object *o, const char *constant, const uint16_t *values,
                                                int64_t count, uint8_t *constants, propane_error *err);

#endif
