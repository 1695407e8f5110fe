/* SPDX-License-Identifier: MIT
 * The committed models of each architecture and the outputs that transformers computed for them
 * (tools/reference_models.py).
 */
#ifndef TESTS_SUPPORT_ARCH_DATA_H
#define TESTS_SUPPORT_ARCH_DATA_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "lm/files/store.h"
#include "support/test.h"

enum { ARCH_BATCH = 2, ARCH_SEQUENCE = 16, ARCH_VOCABULARY = 40, ARCH_TOKENS = ARCH_BATCH * ARCH_SEQUENCE };

static const char *const arch_names[] = {"llama3",  "qwen2", "qwen3",     "gpt2",           "mistral",
                                         "granite", "olmo2", "phi3",      "smollm3",        "gemma2",
                                         "gemma3",  "phi4",  "qwen3_moe", "qwen3_moe_plain"};
enum { ARCH_NAMES = sizeof arch_names / sizeof arch_names[0] };

typedef struct arch_data {
    model_weights *weights;
    safetensors *file;
    int32_t inputs[ARCH_TOKENS], targets[ARCH_TOKENS];
    float logits[ARCH_TOKENS * ARCH_VOCABULARY]; /* [batch][sequence][vocabulary] */
    double loss;
} arch_data;

static inline void arch_open(arch_data *d, const char *name) {
    propane_error err = {0};
    char path[200];
    const safetensors_tensor *t = NULL;
    memset(d, 0, sizeof *d);
    snprintf(path, sizeof path, "tests/data/arch_%s", name);
    EXPECT_OK(model_store_read(path, false, &d->weights, &err));
    snprintf(path, sizeof path, "tests/data/arch_%s/reference.safetensors", name);
    EXPECT_OK(safetensors_open(path, &d->file, &err));
    const int64_t tokens[] = {ARCH_BATCH, ARCH_SEQUENCE + 1}, logits[] = {ARCH_BATCH, ARCH_SEQUENCE, ARCH_VOCABULARY};
    const int64_t one = 1;
    EXPECT_OK(safetensors_expect(d->file, "tokens", ST_I32, 2, tokens, &t, &err));
    for (int i = 0; i < ARCH_TOKENS; i++) {
        const uint8_t *at = t->data + 4 * (i / ARCH_SEQUENCE * (ARCH_SEQUENCE + 1) + i % ARCH_SEQUENCE);
        memcpy(&d->inputs[i], at, 4);
        memcpy(&d->targets[i], at + 4, 4);
    }
    EXPECT_OK(safetensors_expect(d->file, "logits", ST_F32, 3, logits, &t, &err));
    EXPECT_OK(safetensors_f32(d->file, t, d->logits, &err));
    EXPECT_OK(safetensors_expect(d->file, "loss", ST_F64, 1, &one, &t, &err));
    memcpy(&d->loss, t->data, sizeof d->loss);
}

static inline void arch_close(arch_data *d) {
    model_weights_free(d->weights);
    safetensors_close(d->file);
}

#endif
