/* SPDX-License-Identifier: MIT
 * Trains a LoRA adapter of a language model on instruction data in memory, is cancelled after some steps, continues,
 * and writes the model with the adapter merged: finetune_adapter MODEL FOLDER RESULT
 */
#include <stdio.h>
#include <string.h>

#include "propane.h"

static const char examples[] = "{\"prompt\": \"line 1 of\", \"completion\": \" 1\"}\n"
                               "{\"prompt\": \"line 2 of\", \"completion\": \" 2\"}\n"
                               "{\"prompt\": \"line 3 of\", \"completion\": \" 3\"}\n"
                               "{\"prompt\": \"line 4 of\", \"completion\": \" 4\"}\n";

static void on_step(void *context, const propane_step *step) {
    if (step->step == 5) propane_trainer_cancel(context); /* any thread may call this, and so may a signal handler */
}

static void on_checkpoint(void *context, int64_t step, const char *path) {
    (void)context;
    printf("step %lld is in %s\n", (long long)step, strrchr(path, '/') + 1);
}

static propane_status tune(propane_trainer *trainer, const char *result, propane_error *err) {
    const propane_trainer_callbacks callbacks = {
        .size = sizeof callbacks, .context = trainer, .on_step = on_step, .on_checkpoint = on_checkpoint};
    propane_status status = propane_trainer_run(trainer, &callbacks, err);
    if (status != PROPANE_ERR_CANCELLED) return status;
    printf("%s\n", err->text);
    status = propane_trainer_run(trainer, &callbacks, err);
    return status ? status : propane_trainer_write(trainer, result, err);
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: finetune_adapter MODEL FOLDER RESULT\n"), 2;
    const char *const set[][2] = {{"init", argv[1]}, {"run", argv[2]}, {"lora-rank", "4"}, {"context", "16"},
                                  {"batch", "2"},    {"steps", "12"},  {"held-out", "0"},  {"eval-every", "0"}};
    const propane_data data = {.size = sizeof data, .text = examples, .length = sizeof examples - 1, .examples = true};
    propane_error err = {0};
    propane_options *options = NULL;
    propane_trainer *trainer = NULL;
    propane_status status = propane_options_create(PROPANE_TRAIN_LANGUAGE, &options, &err);
    for (int i = 0; i < 8 && !status; i++) status = propane_options_set(options, set[i][0], set[i][1], &err);
    if (!status) status = propane_trainer_create(options, &data, &trainer, &err);
    if (!status) status = tune(trainer, argv[3], &err);
    propane_trainer_free(trainer);
    propane_options_free(options);
    return status ? fprintf(stderr, "finetune_adapter: %s\n", err.text), 1 : 0;
}
