/* SPDX-License-Identifier: MIT
 * Runs a training step on tests/data/llama_gqa and compares losses, gradients and weights with PyTorch's, which
 * tools/reference_llama.py computed in float64.
 */
#ifndef TESTS_TRAIN_REFERENCE_H
#define TESTS_TRAIN_REFERENCE_H

#include <math.h>
#include <stdio.h>

#include "core/base/memory.h"
#include "core/files/safetensors.h"
#include "lm/step/step.h"
#include "support/test.h"

#define REFERENCE_FOLDER "tests/data/llama_gqa/"
enum { REF_STEPS = 10, REF_BATCH = 3, REF_CONTEXT = 16, REF_TOKENS = REF_BATCH * REF_CONTEXT };

typedef struct reference {
    safetensors *file;
    model_weights *weights;
    train_step *step;
    int32_t inputs[REF_STEPS][REF_TOKENS], targets[REF_STEPS][REF_TOKENS];
    double losses[REF_STEPS];
} reference;

static void reference_open(reference *r, const train_step_options *how) {
    propane_error err = {0};
    model_config config;
    const safetensors_tensor *t;
    char name[200];
    memset(r, 0, sizeof *r);
    EXPECT_OK(model_config_read(REFERENCE_FOLDER "config.json", &config, &err));
    EXPECT_OK(safetensors_open(REFERENCE_FOLDER "reference.safetensors", &r->file, &err));
    EXPECT_OK(model_weights_create(&config, &r->weights, &err));
    for (int i = 0; i < r->weights->count; i++) {
        const model_tensor *w = &r->weights->tensors[i];
        snprintf(name, sizeof name, "weights.%s", w->name);
        EXPECT_OK(safetensors_expect(r->file, name, ST_F32, w->rank, w->dim, &t, &err));
        EXPECT_OK(safetensors_f32(r->file, t, model_weights_data(r->weights, w), &err));
    }
    const int64_t dim[] = {REF_STEPS, REF_BATCH, REF_CONTEXT + 1}, steps = REF_STEPS;
    EXPECT_OK(safetensors_expect(r->file, "tokens", ST_I32, 3, dim, &t, &err));
    for (int s = 0; s < REF_STEPS; s++)
        for (int i = 0; i < REF_TOKENS; i++) {
            const uint8_t *at = t->data + 4 * ((s * REF_BATCH + i / REF_CONTEXT) * (REF_CONTEXT + 1) + i % REF_CONTEXT);
            memcpy(&r->inputs[s][i], at, 4);
            memcpy(&r->targets[s][i], at + 4, 4);
        }
    EXPECT_OK(safetensors_expect(r->file, "losses", ST_F64, 1, &steps, &t, &err));
    memcpy(r->losses, t->data, sizeof r->losses);
    train_step_options options = *how;
    options.partition.batch = REF_BATCH / (how->accumulate ? REF_BATCH : 1);
    options.partition.context = REF_CONTEXT;
    EXPECT_OK(train_step_create(&options, r->weights, &r->step, &err));
}

static void reference_close(reference *r) {
    train_step_free(r->step);
    model_weights_free(r->weights);
    safetensors_close(r->file);
}

/* Runs forward and backward over a step's batch, at once or, if accumulating, one sequence at a time. */
static double reference_batch(reference *r, int step, double scale, bool accumulate) {
    propane_error err = {0};
    double loss = 0, sum = 0;
    for (int i = 0; i < (accumulate ? REF_BATCH : 1); i++) {
        EXPECT_OK(train_step_batch(r->step, r->inputs[step] + i * REF_CONTEXT, r->targets[step] + i * REF_CONTEXT,
                                   i == 0, scale, &loss, &err));
        sum += loss;
    }
    return accumulate ? sum / REF_BATCH : sum;
}

/* Returns the largest difference of a tensor relative to its largest element. */
static double reference_difference(const reference *r, const char *prefix, int tensor, const float *got, double scale) {
    propane_error err = {0};
    const model_tensor *w = &r->weights->tensors[tensor];
    const safetensors_tensor *t;
    char name[200];
    float *want = mem_array((size_t)w->count, sizeof *want);
    EXPECT(want);
    snprintf(name, sizeof name, "%s.%s", prefix, w->name);
    EXPECT_OK(safetensors_expect(r->file, name, ST_F32, w->rank, w->dim, &t, &err));
    EXPECT_OK(safetensors_f32(r->file, t, want, &err));
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < w->count; i++) {
        worst = fmax(worst, fabs((double)got[i] * scale - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
        if (!isfinite(got[i])) worst = INFINITY;
    }
    mem_free(want);
    return worst / largest;
}

/* Compares all gradients of step 1, then ten AdamW steps: losses, and the weights stored in the file. */
static void reference_check(const train_step_options *how, double tolerance) {
    static reference r;
    propane_error err = {0};
    static const char *const after[] = {"model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight",
                                        "model.layers.1.mlp.down_proj.weight", "model.norm.weight"};
    bool half = how->partition.precision == MIL_fp16;
    double scale = half ? 1024 : 1, parts = how->accumulate ? REF_BATCH : 1, worst = 0, worst_loss = 0;
    reference_open(&r, how);
    for (int step = 0; step < REF_STEPS; step++) {
        EXPECT_OK(train_step_refresh(r.step, &err));
        double loss = reference_batch(&r, step, scale, how->accumulate), norm = 0;
        worst_loss = fmax(worst_loss, fabs(loss - r.losses[step]) / r.losses[step]);
        EXPECT_MSG(fabs(loss - r.losses[step]) / r.losses[step] < tolerance, "step %d: loss %.9g, want %.9g", step,
                   loss, r.losses[step]);
        for (int i = 0; i < r.weights->count && step == 0; i++) {
            float *gradient = mem_array((size_t)r.weights->tensors[i].count, sizeof *gradient);
            EXPECT(gradient);
            EXPECT_OK(train_step_gradient(r.step, i, gradient, &err));
            double off = reference_difference(&r, "grads", i, gradient, 1 / (scale * parts));
            worst = fmax(worst, off);
            EXPECT_MSG(off < tolerance, "gradient of %s is off by %g of its largest element",
                       r.weights->tensors[i].name, off);
            mem_free(gradient);
        }
        EXPECT_OK(train_step_gradient_norm(r.step, &norm, &err));
        norm /= scale * parts;
        adamw_step adam = {.lr = 1e-2,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .epsilon = 1e-8,
                           .weight_decay = 0.1,
                           .gradient_scale = fmin(1, 1 / (norm + 1e-6)) / (scale * parts),
                           .step = step + 1};
        EXPECT_OK(train_step_update(r.step, &adam, &err));
    }
    for (int i = 0; i < r.weights->count; i++)
        for (int k = 0; k < 4; k++)
            if (strcmp(r.weights->tensors[i].name, after[k]) == 0) {
                double off =
                    reference_difference(&r, "after", i, model_weights_data(r.weights, &r.weights->tensors[i]), 1);
                /* AdamW divides by the root of small second moments, so weights differ more than gradients */
                EXPECT_MSG(off < 20 * tolerance, "%s after ten steps is off by %g of its largest element", after[k],
                           off);
            }
    if (getenv("TEST_VERBOSE"))
        printf("%s %s %s%s: gradients within %.2g, losses within %.2g\n", how->partition.name, half ? "fp16" : "fp32",
               weight_mode_name(how->weights), how->accumulate ? " accumulated" : "", worst, worst_loss);
    reference_close(&r);
}

#endif
