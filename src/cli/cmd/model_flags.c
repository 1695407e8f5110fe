/* SPDX-License-Identifier: MIT
 * Owns the order in which a model's parts are opened and closed.
 */
#include "cli/cmd/model_flags.h"

#include <string.h>

#include "api/run_folder.h"
#include "model/files/model_tokenizer.h"

propane_status opened_model_read(opened_model *o, propane_error *err) {
    return run_model(o->model, o->adapter, &o->weights, err);
}

propane_status opened_model_tokenizer(opened_model *o, propane_error *err) {
    PROPANE_TRY(model_tokenizer_open(o->vocabulary, o->model, &o->tokenizer, err));
    return run_vocabulary(o->model, o->weights->config.vocab_size, o->tokenizer, err);
}

propane_status opened_model_start(opened_model *o, propane_error *err) {
    const mil_dtype dtype = strcmp(o->precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32;
    const infer_options options = {.dtype = dtype,
                                   .context = o->context,
                                   .chunk = o->chunk,
                                   .weights = form_of(o->form, o->device, dtype, o->weights),
                                   .sequences = (int)o->parallel};
    PROPANE_TRY(propane_device_open(o->device, &o->opened, err));
    return infer_create(o->opened, o->weights, &options, &o->machine, err);
}

void opened_model_close(opened_model *o) {
    infer_free(o->machine);
    propane_device_close(o->opened);
    model_weights_free(o->weights);
    tokenizer_free(o->tokenizer);
}
