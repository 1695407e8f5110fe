/* SPDX-License-Identifier: MIT
 * Small models with random weights for tests.
 */
#ifndef TESTS_SUPPORT_SMALL_MODEL_H
#define TESTS_SUPPORT_SMALL_MODEL_H

#include "lm/arch/model_tensors.h"

typedef struct small_model {
    int64_t width, hidden, layers, heads, kv_heads, head_dim, vocabulary, positions;
} small_model;

model_config small_model_config(const small_model *s);
/* Makes a model's weights, drawn with `deviation` from `seed`. The caller frees them with model_weights_free. */
model_weights *small_model_make(const small_model *s, uint64_t seed, double deviation);

#endif
