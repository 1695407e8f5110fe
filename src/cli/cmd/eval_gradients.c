/* SPDX-License-Identifier: MIT
 * propane eval --logits and --gradients: what a model computes on a sequence of ids, as safetensors, so that other programs
 * can be compared with it. Logits come from the programs of generation, one position after the other; gradients are those
 * of the mean loss from one training step, under the names and in the form of the model's own file.
 */
#include "cli/cmd/eval_gradients.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "infer/generate.h"
#include "model/files/store.h"
#include "train/step/step.h"

propane_status eval_logits(infer *m, const model_weights *w, const int32_t *ids, int64_t count, const char *path,
                           propane_error *err) {
    PROPANE_TRY(file_check_output(path, err));
    int64_t vocab = w->config.vocab_size;
    const int64_t dim[] = {count, vocab};
    safetensors_writer *writer = NULL;
    float *logits = mem_array((size_t)vocab, sizeof *logits);
    propane_status status =
        logits ? safetensors_writer_open(path, &writer, err) : propane_fail_memory(err, (size_t)vocab * sizeof *logits);
    if (!status) status = safetensors_writer_declare(writer, "logits", ST_F32, 2, dim, err);
    infer_reset(m);
    for (int64_t i = 0; !status && i < count; i++) {
        status = infer_read(m, ids + i, 1, logits, err);
        if (!status) status = safetensors_writer_data(writer, logits, (size_t)vocab * sizeof *logits, err);
    }
    infer_reset(m);
    mem_free(logits);
    if (!status) return safetensors_writer_commit(writer, err);
    if (writer) safetensors_writer_abort(writer);
    return status;
}

/* The gradients take the place of the weights in a registry of the same model, which is then written as a model. */
static propane_status eval_gradients_collect(train_step *s, model_weights *gradients, double scale,
                                             propane_error *err) {
    for (int i = 0; i < gradients->count; i++) {
        const model_tensor *t = &gradients->tensors[i];
        float *to = model_weights_data(gradients, t);
        PROPANE_TRY(train_step_gradient(s, i, to, err));
        for (int64_t k = 0; k < t->count; k++) to[k] = (float)((double)to[k] / scale);
    }
    return PROPANE_OK;
}

propane_status eval_gradients(model_weights *w, const int32_t *ids, int64_t count, const eval_step *how,
                              const char *path, double *loss, propane_error *err) {
    bool half = strcmp(how->precision, "fp16") == 0;
    double scale = half ? 1024 : 1; /* as training does, so that small gradients stay in fp16's range */
    train_step_options o = {
        .partition = {.name = how->plan, .precision = half ? MIL_fp16 : MIL_fp32, .batch = 1, .context = count - 1},
        .device = how->device};
    train_step *s = NULL;
    model_weights *gradients = NULL;
    propane_status status = train_step_create(&o, w, &s, err);
    if (!status) status = train_step_batch(s, ids, ids + 1, true, scale, loss, err);
    if (!status) status = model_weights_create(&w->config, &gradients, err);
    if (!status) status = eval_gradients_collect(s, gradients, scale, err);
    if (!status) status = file_check_output(path, err);
    if (!status) status = model_store_write(gradients, path, MODEL_FORM_SAFETENSORS, ST_F32, err);
    model_weights_free(gradients);
    train_step_free(s);
    return status;
}
