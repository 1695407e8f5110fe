/* SPDX-License-Identifier: MIT
 * Owns the description of models, vocabularies and token files as JSON, with the schema in docs/coreml.md.
 */
#include <string.h>

#include "core/base/file.h"
#include "core/files/safetensors.h"
#include "lm/files/gguf.h"
#include "lm/files/model_tokenizer.h"
#include "lm/files/store.h"
#include "lm/text/tokenizer.h"
#include "lm/text/tokens.h"
#include "report/show.h"

static json_t *api_show_json_tensor(const char *name, const char *type, const int64_t *dim, int rank, bool reversed,
                                    uint64_t bytes) {
    json_t *o = json_object(), *shape = json_array();
    for (int d = 0; d < rank; d++) json_add(shape, json_integer(dim[reversed ? rank - 1 - d : d]));
    json_put(o, "name", json_words(name));
    json_put(o, "type", json_string(type));
    json_put(o, "shape", shape);
    json_put(o, "bytes", json_integer((json_int_t)bytes));
    return o;
}

static propane_status api_show_json_safetensors(const char *path, json_t *o, propane_error *err) {
    safetensors *s = NULL;
    json_t *tensors = json_array();
    propane_status status = safetensors_open(path, &s, err);
    for (int i = 0; !status && i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        json_add(tensors, api_show_json_tensor(t->name, safetensors_dtype_name(t->dtype), t->dim, t->rank, false,
                                               (uint64_t)t->bytes));
    }
    json_put(o, "tensors", tensors);
    safetensors_close(s);
    return status;
}

static json_t *api_show_json_gguf_value(const gguf_value *v) {
    if (v->type == GGUF_TEXT) return json_bytes((const char *)v->data, (size_t)v->bytes);
    if (v->type == GGUF_ARRAY) return json_pack("{s:I}", "items", (json_int_t)v->count);
    if (v->type == GGUF_F32 || v->type == GGUF_F64) return json_real(gguf_item_real(v, 0));
    return json_integer(gguf_item_int(v, 0));
}

static propane_status api_show_json_gguf(const char *path, json_t *o, propane_error *err) {
    gguf *g = NULL;
    model_config config;
    propane_error why = {0};
    PROPANE_TRY(gguf_open(path, &g, err));
    json_t *keys = json_object(), *tensors = json_array();
    for (int i = 0; i < gguf_value_count(g); i++) {
        json_t *key = json_words(gguf_value_at(g, i)->key);
        if (key) json_put(keys, json_string_value(key), api_show_json_gguf_value(gguf_value_at(g, i)));
        json_decref(key);
    }
    for (int i = 0; i < gguf_tensor_count(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        json_add(tensors, api_show_json_tensor(t->name, t->type->name, t->dim, t->rank, true, t->bytes));
    }
    if (gguf_config(g, &config, &why) == PROPANE_OK)
        json_put(o, "model", model_config_to_json(&config));
    else
        json_put(o, "not_usable", json_words(why.text));
    json_put(o, "keys", keys);
    json_put(o, "tensors", tensors);
    gguf_close(g);
    return PROPANE_OK;
}

static propane_status api_show_json_put_tokenizer(const tokenizer *t, json_t *o, propane_error *err) {
    const char *hash;
    PROPANE_TRY(tokenizer_hash(t, &hash, err));
    json_put(o, "tokenizer",
             json_pack("{s:s, s:s*, s:i, s:i, s:i, s:s}", "kind", tokenizer_kind_name(tokenizer_get_kind(t)), "model",
                       tokenizer_model_name(t), "ids", tokenizer_vocab_size(t), "bos", tokenizer_bos(t), "eos",
                       tokenizer_eos(t), "sha256", hash));
    return PROPANE_OK;
}

static propane_status api_show_json_tokenizer(const char *path, json_t *o, propane_error *err) {
    tokenizer *t = NULL;
    PROPANE_TRY(tokenizer_read(path, &t, err));
    const propane_status status = api_show_json_put_tokenizer(t, o, err);
    tokenizer_free(t);
    return status;
}

static propane_status api_show_json_tokens(const char *path, json_t *o, propane_error *err) {
    token_file t;
    PROPANE_TRY(token_file_open(path, &t, err));
    json_put(o, "tokens", json_integer(t.count));
    json_put(o, "text_bytes", json_integer(t.text_bytes));
    json_put(o, "vocabulary", json_integer(t.vocab_size));
    json_put(o, "bytes_per_token", json_integer(t.id_bytes));
    json_put(o, "tokenizer_sha256", json_words(t.tokenizer_hash));
    token_file_close(&t);
    return PROPANE_OK;
}

static propane_status api_show_json_folder(const char *path, json_t *o, propane_error *err) {
    model_config config;
    text part = {0};
    propane_error why = {0};
    propane_status status = PROPANE_OK;
    PROPANE_TRY(model_store_config(path, &config, err));
    json_put(o, "model", model_config_to_json(&config));
    text_printf(&part, "%s/model.safetensors", path);
    if (part.failed)
        status = propane_fail_memory(&why, part.capacity);
    else if (file_exists(part.data))
        status = api_show_json_safetensors(part.data, o, &why);
    text_deinit(&part);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    tokenizer *t = NULL; /* the model's tokenizer may be missing or unreadable */
    status = model_tokenizer_open(NULL, path, &t, &why);
    if (status == PROPANE_OK) status = api_show_json_put_tokenizer(t, o, &why);
    tokenizer_free(t);
    return status == PROPANE_ERR_MEMORY ? propane_fail(err, status, "%s", why.text) : PROPANE_OK;
}

/* Describes a file whose first bytes do not determine its kind, by trying to read it as each kind. */
static propane_status api_show_json_unknown(const char *path, json_t *o, propane_error *err) {
    model_form form;
    model_config config;
    propane_error none = {0};
    if (api_show_json_tokenizer(path, o, &none) == PROPANE_OK) {
        json_put(o, "kind", json_string("tokenizer"));
        return PROPANE_OK;
    }
    if (model_config_read(path, &config, &none) == PROPANE_OK) {
        json_put(o, "kind", json_string("configuration"));
        json_put(o, "model", model_config_to_json(&config));
        return PROPANE_OK;
    }
    PROPANE_TRY(model_store_form(path, &form, err));
    if (form == MODEL_FORM_SAFETENSORS) {
        json_put(o, "kind", json_string("safetensors"));
        if (model_store_config(path, &config, &none) == PROPANE_OK) json_put(o, "model", model_config_to_json(&config));
        return api_show_json_safetensors(path, o, err);
    }
    PROPANE_TRY(model_store_config(path, &config, err));
    json_put(o, "kind", json_string("llama2c"));
    json_put(o, "model", model_config_to_json(&config));
    return PROPANE_OK;
}

propane_status api_show_model_json(const char *path, const char *kind, json_t *o, propane_error *err) {
    if (!kind) return api_show_json_unknown(path, o, err);
    if (strcmp(kind, "tokens") == 0) return api_show_json_tokens(path, o, err);
    if (strcmp(kind, "gguf") == 0) return api_show_json_gguf(path, o, err);
    return api_show_json_folder(path, o, err);
}
