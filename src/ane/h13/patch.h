/* SPDX-License-Identifier: MIT
 * Overwrites constants of a compiled program. A patch describes where a run of a tensor's elements is stored among the
 * constants, which are packed as the tasks fetch them. The elements are copied in up to three nested loops, with
 * strides on both sides. A tensor may have several patches.
 */
#ifndef ANE_H13_PATCH_H
#define ANE_H13_PATCH_H

#include "ane/h13/object.h"

enum { ENGINE_PATCH_NEVER = -1 };

typedef struct engine_patch {
    const char *constant; /* name of the tensor */
    int64_t elements;     /* of the whole tensor; ENGINE_PATCH_NEVER if some of them cannot be overwritten */
    int64_t start, at;    /* `start` is the first element read; `at` is the first byte written among the constants */
    int64_t count[3], from[3], to[3]; /* iterations; stride in the tensor's elements; stride in bytes of constants */
} engine_patch;

/* Writes the `count` elements of the tensor named `constant` to all its places in `constants`, which has
 * o->constant_bytes bytes. Returns PROPANE_ERR_UNSUPPORTED if the program has no patch of the tensor, or holds the
 * tensor in a form that cannot be overwritten. Returns PROPANE_ERR_INVALID if `count` is wrong. */
PROPANE_CHECK propane_status engine_patch_apply(const engine_object *o, const char *constant, const uint16_t *values,
                                                int64_t count, uint8_t *constants, propane_error *err);

#endif
