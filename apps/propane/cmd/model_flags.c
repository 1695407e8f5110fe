/* SPDX-License-Identifier: MIT
 * Owns the opening and closing of a model, its tokenizer and its generator for a command.
 */
#include "apps/propane/cmd/model_flags.h"

propane_status opened_model_read(opened_model *o, propane_error *err) {
    o->info.size = sizeof o->info;
    PROPANE_TRY(propane_model_open(o->model, o->adapter, &o->weights, err));
    (void)propane_model_describe(o->weights, &o->info);
    return PROPANE_OK;
}

propane_status opened_model_tokenizer(opened_model *o, propane_error *err) {
    o->vocabulary_info.size = sizeof o->vocabulary_info;
    PROPANE_TRY(o->vocabulary ? propane_tokenizer_open(o->vocabulary, &o->tokenizer, err)
                              : propane_model_tokenizer(o->weights, &o->tokenizer, err));
    (void)propane_tokenizer_describe(o->tokenizer, &o->vocabulary_info);
    return propane_model_takes(o->weights, o->tokenizer, err);
}

propane_status opened_model_start(opened_model *o, propane_error *err) {
    const propane_generator_options options = {.size = sizeof options,
                                               .uri = o->device,
                                               .precision = o->precision,
                                               .weights = o->form,
                                               .context = o->context,
                                               .chunk = o->chunk,
                                               .parallel = (int)o->parallel};
    return propane_generator_create(o->weights, o->tokenizer, &options, &o->generator, err);
}

void opened_model_close(opened_model *o) {
    propane_generator_free(o->generator);
    propane_model_free(o->weights);
    propane_tokenizer_free(o->tokenizer);
}
