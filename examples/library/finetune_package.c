/* SPDX-License-Identifier: MIT
 * Continues the training of a Core ML package's weights on arrays in memory, step by step: finetune_package PACKAGE
 * RESULT.mlpackage. The package has an input [1, 4] and an output [1, 1]; it is trained to add up its four numbers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "propane.h"

enum { SAMPLES = 64, INPUTS = 4 };

static void make_samples(float x[SAMPLES][INPUTS], float y[SAMPLES]) {
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < INPUTS; k++) {
            x[i][k] = (float)((i * 7 + k * 3) % 11 - 5) / 5;
            y[i] += x[i][k];
        }
}

static propane_status tune(propane_trainer *trainer, const char *result, propane_error *err) {
    propane_step step = {.size = sizeof step};
    propane_evaluation before = {.size = sizeof before}, after = before;
    propane_trainer_info info = {.size = sizeof info};
    propane_status status = propane_trainer_evaluate(trainer, &before, err);
    while (!status && propane_trainer_describe(trainer, &info) && info.step < info.steps)
        status = propane_trainer_step(trainer, &step, err);
    if (!status) status = propane_trainer_evaluate(trainer, &after, err);
    if (!status) status = propane_trainer_write(trainer, result, err);
    if (!status) printf("%lld numbers trained, loss %.2g\n", (long long)info.parameters, after.loss);
    if (!status && !(after.loss < before.loss / 100)) printf("it was %.2g before\n", before.loss);
    return status;
}

int main(int argc, char **argv) {
    static float x[SAMPLES][INPUTS], y[SAMPLES];
    static const char json[] = "{\"loss\": \"mse\", \"trainable\": \"*\", \"lr\": 0.05, \"steps\": 200, \"batch\": 8}";
    if (argc != 3) return fprintf(stderr, "usage: finetune_package PACKAGE RESULT.mlpackage\n"), 2;
    make_samples(x, y);
    const propane_tensor arrays[] = {{"x", PROPANE_FP32, 2, {SAMPLES, INPUTS}, x},
                                     {"y", PROPANE_FP32, 2, {SAMPLES, 1}, y}};
    const propane_data data = {.size = sizeof data, .arrays = arrays, .array_count = 2};
    propane_error err = {0};
    propane_options *options = NULL;
    propane_trainer *trainer = NULL;
    propane_status status = propane_options_create(PROPANE_TRAIN_PROGRAM, &options, &err);
    if (!status) status = propane_options_set(options, "model", argv[1], &err);
    if (!status) status = propane_options_parse(options, json, sizeof json - 1, "options", &err);
    if (!status) status = propane_trainer_create(options, &data, &trainer, &err);
    if (!status) status = tune(trainer, argv[2], &err);
    propane_trainer_free(trainer);
    propane_options_free(options);
    return status ? fprintf(stderr, "finetune_package: %s\n", err.text), 1 : 0;
}
