/* SPDX-License-Identifier: MIT
 * The memory of a step, counted in its own struct, for comparison with estimates and plans.
 */
#ifndef TESTS_TRAIN_STEP_BYTES_H
#define TESTS_TRAIN_STEP_BYTES_H

#include "lm/step/step_internal.h"

/* Returns the bytes of gradients and moments. */
static inline size_t step_state_bytes(const train_step *s) {
    const size_t both = 2 * moment_bytes(s->options.moments);
    return (size_t)s->moment_floats * (sizeof(float) + both + (s->early ? sizeof(float) + both : 0));
}

#endif
