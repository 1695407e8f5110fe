/* SPDX-License-Identifier: MIT
 * Owns the public functions of language models: opening a model of any form (optionally with an adapter), describing it, and
 * exporting it as one program. public_save.c saves models.
 */
#include "lm/files/public_model.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/coreml/package.h"
#include "core/run/public.h"
#include "lm/arch/stored_weights.h"
#include "lm/files/export_coreml.h"
#include "lm/files/hub_cache.h"
#include "lm/files/store.h"
#include "lm/run/run_folder.h"

const char *propane_model_form(const char *path) {
    if (!path) return NULL;
    static const char *const names[] = {"folder", "safetensors", "llama2c", "gguf"};
    model_form form;
    propane_error none = {0};
    if (!run_is_model(path) || model_store_form(path, &form, &none) != PROPANE_OK) return NULL;
    return names[form];
}

propane_status propane_model_open(const char *path, const char *adapter, propane_model **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    API_ERROR(err);
    propane_model *m = mem_alloc(sizeof *m);
    propane_status status = m ? hub_cache_find(path, &m->path, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) status = run_model(m->path, adapter, true, &m->weights, err);
    if (m && m->path && status == PROPANE_ERR_NOT_FOUND && strcmp(m->path, path) != 0) { /* an incomplete download */
        const propane_error why = *err;
        status = propane_fail(err, status, "%.700s; to download it: hf download %.200s", why.text, path);
    }
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
    if (!model || !out) return false;
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

propane_status propane_model_takes(const propane_model *model, const propane_tokenizer *t, propane_error *err) {
    NEED_AS(err, "model, tokenizer", model, t);
    return run_vocabulary(model->path, model->weights->config.vocab_size, t, err);
}

propane_status propane_model_export(propane_model *model, const propane_export_options *options, propane_module **out,
                                    propane_error *err) {
    if (out) *out = NULL;
    NEED(err, model, out);
    API_ERROR(err);
    propane_export_options o = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_export_options", err));
    if (o.context < 0 || o.stateless < 0 || o.length_count < 0 || o.length_count > MODEL_EXPORT_LENGTHS)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_export_options: at most %d lengths, none negative",
                            MODEL_EXPORT_LENGTHS);
    PROPANE_TRY(need_list(err, "propane_export_options", "lengths", "length_count", o.lengths, o.length_count));
    model_export_options own = {.dtype = o.wide ? MIL_fp32 : MIL_fp16,
                                .context = o.context,
                                .length_count = o.length_count,
                                .stateless = o.stateless};
    if (o.length_count) memcpy(own.lengths, o.lengths, (size_t)o.length_count * sizeof *own.lengths);
    PROPANE_TRY(stored_weights_expand(model->weights, err));
    return model_export(model->weights, &own, out, err);
}
