/* SPDX-License-Identifier: MIT
 * Owns writing a language model in another form, with its vocabulary if the form can hold one. A folder that holds
 * anything but a model is not replaced.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/arch/stored_weights.h"
#include "lm/files/gguf.h"
#include "lm/files/hub_cache.h"
#include "lm/files/model_tokenizer.h"
#include "lm/files/public_model.h"
#include "lm/files/store.h"
#include "lm/run/run_folder.h"

typedef struct saving {
    const propane_model *model;
    const tokenizer *tokenizer; /* NULL if there is none */
    bool given;                 /* the caller passed the tokenizer; otherwise it is the model's */
    model_form form;
    const gguf_type_info *type; /* of matrices */
} saving;

/* Copies a file from one folder into another. Does nothing if there is no such file. */
static propane_status api_save_copy_file(const char *from, const char *to, const char *name, propane_error *err) {
    char *source = run_path(from, name), *target = run_path(to, name), *data = NULL;
    size_t length = 0;
    propane_status status = source && target ? PROPANE_OK : propane_fail_memory(err, 0);
    if (status == PROPANE_OK && file_exists(source)) {
        status = file_read(source, (size_t)256 << 20, &data, &length, err);
        if (status == PROPANE_OK) status = file_write(target, data, length, err);
    }
    mem_free(data);
    mem_free(source);
    mem_free(target);
    return status;
}

/* Copies the model's tokenizer files unchanged, or makes Hugging Face's files from the tokenizer. */
static propane_status api_save_export_tokenizer(const saving *s, const char *to, int64_t longest, propane_error *err) {
    const char *from = s->model->path;
    static const char *const names[] = {"tokenizer.json",      "tokenizer_config.json",  "special_tokens_map.json",
                                        "chat_template.jinja", "generation_config.json", MODEL_TOKENIZER};
    char *own = run_path(from, "tokenizer.json");
    bool ready = !s->given && own && file_exists(own);
    mem_free(own);
    propane_status status = ready ? PROPANE_OK : tokenizer_export(s->tokenizer, to, longest, err);
    for (int i = ready ? 0 : 5; status == PROPANE_OK && !s->given && file_is_dir(from) && i < 6; i++)
        status = api_save_copy_file(from, to, names[i], err);
    if (status == PROPANE_OK && ready) status = tokenizer_chat_copy_tools(from, to, err);
    return status;
}

/* Saves the model. If the form cannot represent the vocabulary, the weights are saved without it. */
static propane_status api_save_write(const saving *s, const char *to, propane_error *err) {
    const model_weights *w = s->model->weights;
    const gguf_type type = (gguf_type)s->type->type;
    propane_error why = {0};
    propane_status status = PROPANE_OK;
    if (s->form != MODEL_FORM_GGUF)
        PROPANE_TRY(model_store_write(w, to, s->form, model_store_dtype(s->type->type), err));
    if (s->form == MODEL_FORM_GGUF) {
        status = s->tokenizer ? gguf_write_model(w, s->tokenizer, to, type, &why) : PROPANE_ERR_UNSUPPORTED;
        if (status == PROPANE_ERR_UNSUPPORTED) PROPANE_TRY(gguf_write_model(w, NULL, to, type, err));
    } else if (s->form == MODEL_FORM_DIR && s->tokenizer) {
        status = api_save_export_tokenizer(s, to, w->config.max_position_embeddings, &why);
    }
    if (status != PROPANE_OK && status != PROPANE_ERR_UNSUPPORTED) return propane_fail(err, status, "%s", why.text);
    if (why.text[0]) log_print("the vocabulary was omitted: %s", why.text);
    return PROPANE_OK;
}

/* Checks that a folder holds only a model's files, so that another model may replace it. */
static propane_status api_save_check_folder(const char *to, propane_error *err) {
    static const char *const own[] = {".",
                                      "..",
                                      "config.json",
                                      "generation_config.json",
                                      "model.safetensors",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "chat_template.jinja",
                                      TOKENIZER_CHAT_FOLDER,
                                      MODEL_TOKENIZER};
    DIR *folder = file_is_empty_dir(to) ? NULL : opendir(to);
    char foreign[300] = "";
    if (folder && !run_holds(to, "model.safetensors"))
        snprintf(foreign, sizeof foreign, "something other than a model");
    for (struct dirent *e; folder && !*foreign && (e = readdir(folder));) {
        bool known = false;
        for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) known |= strcmp(own[i], e->d_name) == 0;
        if (!known) snprintf(foreign, sizeof foreign, "%.200s, which does not belong to a model", e->d_name);
    }
    if (folder) closedir(folder);
    if (!*foreign) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "cannot write %s: a folder with that name contains %s; give another name", to, foreign);
}

/* Writes the whole folder or nothing, because the weights of one model next to the vocabulary of another would be read
 * without an error. */
static propane_status api_save_write_folder(const saving *s, const char *to, propane_error *err) {
    folder_writer *f = NULL;
    PROPANE_TRY(api_save_check_folder(to, err));
    PROPANE_TRY(folder_writer_open(to, &f, err));
    return folder_writer_end(f, api_save_write(s, folder_writer_path(f), err), err);
}

/* Finds the model's tokenizer. Leaves *out NULL if the model has none or an unreadable one, so that the weights are
 * saved without it. */
static propane_status api_save_find_tokenizer(const propane_model *m, tokenizer **out, propane_error *err) {
    propane_error none = {0};
    if (model_tokenizer_open(NULL, m->path, out, &none) == PROPANE_OK) return PROPANE_OK;
    if (none.status == PROPANE_ERR_MEMORY) return propane_fail(err, none.status, "%s", none.text);
    if (none.status != PROPANE_ERR_NOT_FOUND) log_print("the vocabulary was omitted: %s", none.text);
    return PROPANE_OK;
}

const char *propane_model_types(const char *between, char *out, size_t room) {
    char words[GGUF_TYPE_WORDS];
    if (!between || !out) return NULL;
    snprintf(out, room, "%s", gguf_type_words(between, words));
    return out;
}

propane_status propane_model_save(const propane_model *model, const propane_tokenizer *t, const char *path,
                                  const char *dtype, propane_error *err) {
    NEED(err, model, path);
    NEED_TEXT(err, path);
    API_ERROR(err);
    tokenizer *own = NULL;
    char words[GGUF_TYPE_WORDS];
    saving s = {.model = model,
                .type = gguf_type_find(dtype ? dtype : "f32"),
                .tokenizer = t,
                .given = t != NULL,
                .form = text_ends_with(path, ".bin")           ? MODEL_FORM_LLAMA2C
                        : text_ends_with(path, ".safetensors") ? MODEL_FORM_SAFETENSORS
                        : text_ends_with(path, ".gguf")        ? MODEL_FORM_GGUF
                                                               : MODEL_FORM_DIR};
    if (!s.type || (s.type->block > 1 && s.form != MODEL_FORM_GGUF))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: unknown weight type '%.40s'; the types are %s", path, dtype,
                            s.form == MODEL_FORM_GGUF ? gguf_type_words(", ", words)
                                                      : "f32, f16 and bf16 (blocks are for GGUF files)");
    if (t) PROPANE_TRY(propane_model_takes(model, t, err));
    PROPANE_TRY(stored_weights_expand(model->weights, err));
    if (!t) PROPANE_TRY(api_save_find_tokenizer(model, &own, err));
    if (own) s.tokenizer = own;
    propane_status status =
        s.form == MODEL_FORM_DIR ? api_save_write_folder(&s, path, err) : api_save_write(&s, path, err);
    tokenizer_free(own);
    return status;
}

/* ---- adapters --------------------------------------------------------------------------------------------------------------- */

static propane_status api_save_adapter_config(const char *adapter, const char *model, model_config *out,
                                              propane_error *err) {
    char *base = NULL, *place = NULL;
    if (!model) PROPANE_TRY(model_adapter_base(adapter, &base, err));
    if (!model && !base)
        return propane_fail(err, PROPANE_ERR_INVALID, "%.400s does not name its base model; name it", adapter);
    propane_status status = hub_cache_find(model ? model : base, &place, err);
    if (status == PROPANE_OK) status = run_config(place, out, err);
    mem_free(place);
    mem_free(base);
    if (status == PROPANE_OK || model) return status;
    const propane_error why = *err;
    return propane_fail(err, status, "%.700s; it is the adapter's base model: give its path", why.text);
}

propane_status propane_adapter_save(const char *adapter, const char *model, const char *path, propane_error *err) {
    NEED(err, adapter, path);
    NEED_TEXT(err, adapter);
    if (model) NEED_TEXT(err, model);
    NEED_TEXT(err, path);
    API_ERROR(err);
    model_config c;
    model_weights *w = NULL;
    if (!text_ends_with(path, ".gguf"))
        return propane_fail(err, PROPANE_ERR_INVALID, "%.400s: the name of an adapter file must be NAME.gguf", path);
    PROPANE_TRY(api_save_adapter_config(adapter, model, &c, err));
    PROPANE_TRY(model_weights_create(&c, &w, err)); /* untouched zeros take no memory */
    propane_status status = model_adapter_read(w, adapter, err);
    if (status == PROPANE_OK) status = gguf_write_adapter(w, path, err);
    model_weights_free(w);
    return status;
}
