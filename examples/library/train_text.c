/* SPDX-License-Identifier: MIT
 * Trains a model on a text for STEPS (100), continues the run from its checkpoint up to LAST (150), and generates text
 * with the model: train_text TEXT FOLDER [STEPS LAST]
 */
#include <stdio.h>

#include "propane.h"

static void on_step(void *context, const propane_step *step) {
    if (step->step % *(int *)context == 0) printf("step %lld  loss %.3f\n", (long long)step->step, step->loss);
}

static bool on_token(void *context, const propane_token *token) {
    return fwrite(token->text, 1, token->length, context) == token->length;
}

/* Sets options, two words each, and trains to the last step. */
static propane_status train(propane_options *options, const char *const (*set)[2], int count, propane_trainer **out,
                            propane_error *err) {
    int every = 50;
    const propane_trainer_callbacks callbacks = {.size = sizeof callbacks, .context = &every, .on_step = on_step};
    propane_status status = PROPANE_OK;
    for (int i = 0; i < count && !status; i++) status = propane_options_set(options, set[i][0], set[i][1], err);
    if (!status) status = propane_trainer_create(options, NULL, out, err);
    return status ? status : propane_trainer_run(*out, &callbacks, err);
}

/* Generates text with the trainer's current weights. */
static propane_status let_write(const propane_trainer *trainer, propane_error *err) {
    propane_model *model = NULL;
    propane_generator *generator = NULL;
    propane_sampling sampling = {.size = sizeof sampling};
    propane_sampling_default(&sampling);
    sampling.count = 60;
    propane_status status = propane_trainer_model(trainer, &model, err);
    if (!status) status = propane_generator_create(model, propane_trainer_tokenizer(trainer), NULL, &generator, err);
    if (!status) status = propane_generate(generator, "line", 4, &sampling, on_token, stdout, NULL, err);
    propane_generator_free(generator);
    propane_model_free(model);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 5) return fprintf(stderr, "usage: train_text TEXT FOLDER [STEPS LAST]\n"), 2;
    const char *const steps = argc == 5 ? argv[3] : "100", *const last = argc == 5 ? argv[4] : "150";
    const char *const begin[][2] = {{"data", argv[1]}, {"run", argv[2]},  {"layers", "2"}, {"width", "32"},
                                    {"heads", "2"},    {"context", "32"}, {"lr", "3e-3"},  {"steps", steps}};
    const char *const more[][2] = {{"resume", "true"}, {"steps", last}};
    propane_error err = {0};
    propane_options *options = NULL;
    propane_trainer *first = NULL, *second = NULL;
    propane_status status = propane_options_create(PROPANE_TRAIN_LANGUAGE, &options, &err);
    if (!status) status = train(options, begin, 8, &first, &err);
    propane_trainer_free(first);
    if (!status) status = train(options, more, 2, &second, &err);
    if (!status) status = let_write(second, &err);
    propane_trainer_free(second);
    propane_options_free(options);
    return status ? fprintf(stderr, "train_text: %s\n", err.text), 1 : 0;
}
