/* SPDX-License-Identifier: MIT
 * A small transformer layer for tests: normalisation, grouped-query attention with rotary positions and a causal mask,
 * SwiGLU and both residuals, with the same stages as real layers.
 */
#ifndef TESTS_SUPPORT_GRAD_MODEL_H
#define TESTS_SUPPORT_GRAD_MODEL_H

#include "core/mil/build.h"

typedef struct grad_model {
    int64_t batch, width, positions, heads, groups, head, hidden;
} grad_model;

/* Builds a function with parameters x, norm1, wq, wk, wv, wo, norm2, w1, w3, w2 and result y. */
mil_function *grad_model_build(mil_module *m, const char *name, const grad_model *d, mil_dtype dtype);

#endif
