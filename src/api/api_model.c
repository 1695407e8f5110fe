/* SPDX-License-Identifier: MIT
 * Owns the public calls on language models: open any form, with an adapter; say what it is; save in another form; export as
 * one program.
 */
#include "api/api_model.h"

#include <string.h>

#include "api/api.h"
#include "api/run_folder.h"
#include "base/log.h"
#include "base/memory.h"
#include "mil/coreml/package.h"
#include "model/files/export_coreml.h"
#include "model/files/gguf.h"
#include "model/files/store.h"

const char *propane_model_form(const char *path) {
    static const char *const names[] = {"folder", "safetensors", "llama2c", "gguf"};
    model_form form;
    propane_error none = {0};
    if (!path || !run_is_model(path) || model_store_form(path, &form, &none) != PROPANE_OK) return NULL;
    return names[form];
}

propane_status propane_model_open(const char *path, const char *adapter, propane_model **out, propane_error *err) {
    API_ERROR(err);
    *out = NULL;
    propane_model *m = mem_alloc(sizeof *m);
    if (m) m->path = mem_copy_string(path);
    propane_status status = m && m->path ? run_model(path, adapter, &m->weights, err) : propane_fail_memory(err, 0);
    if (status)
        propane_model_free(m);
    else
        *out = m;
    return status;
}

void propane_model_free(propane_model *model) {
    if (!model) return;
    model_weights_free(model->weights);
    mem_free(model->path);
    mem_free(model);
}

bool propane_model_describe(const propane_model *model, propane_model_info *out) {
    const model_config *c = &model->weights->config;
    const propane_model_info mine = {.architecture = c->model_type,
                                     .layers = c->num_hidden_layers,
                                     .width = c->hidden_size,
                                     .hidden = c->intermediate_size,
                                     .heads = c->num_attention_heads,
                                     .kv_heads = c->num_key_value_heads,
                                     .vocabulary = c->vocab_size,
                                     .context = c->max_position_embeddings,
                                     .parameters = model->weights->parameters};
    return api_give(out, &mine, sizeof mine);
}

/* ---- saving ----------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    safetensors_dtype tensor;
    gguf_type block;
    bool gguf_alone;
} api_model_types[] = {
    {"f32", ST_F32, GGUF_TYPE_F32, false},    {"f16", ST_F16, GGUF_TYPE_F16, false},
    {"bf16", ST_BF16, GGUF_TYPE_BF16, false}, {"q8_0", ST_F32, GGUF_TYPE_Q8_0, true},
    {"q4_0", ST_F32, GGUF_TYPE_Q4_0, true},
};

static propane_status api_model_save_gguf(const propane_model *m, const tokenizer *t, const char *path, gguf_type type,
                                          propane_error *err) {
    propane_error why = {0};
    if (!t) return gguf_write_model(m->weights, NULL, path, type, err);
    propane_status status = gguf_write_model(m->weights, t, path, type, &why);
    if (status != PROPANE_ERR_UNSUPPORTED) return status ? propane_fail(err, status, "%s", why.text) : PROPANE_OK;
    log_tell("%s: the vocabulary is left out: %s", path, why.text);
    return gguf_write_model(m->weights, NULL, path, type, err);
}

propane_status propane_model_save(const propane_model *model, const propane_tokenizer *t, const char *path,
                                  const char *dtype, propane_error *err) {
    API_ERROR(err);
    size_t type = 0;
    const size_t count = sizeof api_model_types / sizeof api_model_types[0];
    const model_form form = text_ends_with(path, ".bin")           ? MODEL_FORM_LLAMA2C
                            : text_ends_with(path, ".safetensors") ? MODEL_FORM_SAFETENSORS
                            : text_ends_with(path, ".gguf")        ? MODEL_FORM_GGUF
                                                                   : MODEL_FORM_DIR;
    while (type < count && strcmp(api_model_types[type].name, dtype ? dtype : "f32") != 0) type++;
    if (type == count || (api_model_types[type].gguf_alone && form != MODEL_FORM_GGUF))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: weights as '%.40s'; there are f32, f16, bf16%s", path, dtype,
                            form == MODEL_FORM_GGUF ? ", q8_0, q4_0" : " (q8_0 and q4_0 are for GGUF files)");
    if (form == MODEL_FORM_GGUF) return api_model_save_gguf(model, t, path, api_model_types[type].block, err);
    PROPANE_TRY(model_store_write(model->weights, path, form, api_model_types[type].tensor, err));
    if (form != MODEL_FORM_DIR || !t) return PROPANE_OK;
    propane_error why = {0};
    propane_status status = tokenizer_export(t, path, model->weights->config.max_position_embeddings, &why);
    if (status != PROPANE_ERR_UNSUPPORTED) return status ? propane_fail(err, status, "%s", why.text) : PROPANE_OK;
    log_tell("%s: the vocabulary is left out: %s", path, why.text);
    return PROPANE_OK;
}

propane_status propane_model_export(propane_model *model, const propane_export_options *options, propane_module **out,
                                    propane_error *err) {
    API_ERROR(err);
    propane_export_options o = {0};
    *out = NULL;
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_export_options", err));
    if (o.context < 0 || o.stateless < 0 || o.length_count < 0 || o.length_count > MODEL_EXPORT_LENGTHS)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_export_options: at most %d lengths, nothing negative",
                            MODEL_EXPORT_LENGTHS);
    model_export_options own = {.dtype = o.wide ? MIL_fp32 : MIL_fp16,
                                .context = o.context,
                                .length_count = o.length_count,
                                .stateless = o.stateless};
    if (o.length_count) memcpy(own.lengths, o.lengths, (size_t)o.length_count * sizeof *own.lengths);
    return model_export(model->weights, &own, out, err);
}
