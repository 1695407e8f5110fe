/* SPDX-License-Identifier: MIT
 * Owns adapters on disk, in the form of the package peft. Tensors are named base_model.model.NAME.lora_A.weight and
 * lora_B.weight; the adapter of a layer that the file leaves out is zero. Unknown tensors, other shapes, and
 * unsupported settings that change the numbers are refused, because the adapter would be misread.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/files/safetensors.h"
#include "lm/arch/model_tensors.h"
#include "lm/files/gguf.h"

enum { LIMIT = 1 << 24 };

static char *peft_in_folder(const char *dir, const char *name) {
    size_t bytes = strlen(dir) + strlen(name) + 2;
    char *path = mem_alloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", dir, name);
    return path;
}

bool model_adapter_is(const char *path) {
    char *config = peft_in_folder(path, MODEL_ADAPTER_CONFIG);
    bool there = config && file_exists(config);
    mem_free(config);
    return there;
}

/* ---- configuration --------------------------------------------------------------------------------------------------------- */

static bool peft_is_empty(const json_t *v) {
    return !v || json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) || (json_is_integer(v) && json_integer_value(v) == 0);
}

static propane_status peft_check_settings(const json_t *o, const char *source, propane_error *err) {
    static const char *const empty[] = {
        "use_dora",        "modules_to_save",         "rank_pattern",      "alpha_pattern",
        "exclude_modules", "trainable_token_indices", "target_parameters", "lora_bias",
        "use_qalora",      "alora_invocation_tokens", "layer_replication"};
    const char *type = NULL, *bias = "none";
    PROPANE_TRY(json_get_text(o, source, "peft_type", true, &type, err));
    PROPANE_TRY(json_get_text(o, source, "bias", false, &bias, err));
    if (strcmp(type, "LORA") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: peft_type is '%.40s'; only LORA is supported", source,
                            type);
    if (strcmp(bias, "none") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: bias is '%.40s'; only none is supported", source, bias);
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        if (!peft_is_empty(json_object_get(o, empty[i])))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: '%s' is set, which Propane does not support; train the adapter without it", source,
                                empty[i]);
    return PROPANE_OK;
}

/* Reads target_modules, a list of names or one string. peft treats a string as a regular expression; only a plain name
 * is accepted. */
static propane_status peft_read_targets(const json_t *o, const char *source, const model_config *c, model_lora *out,
                                        propane_error *err) {
    const json_t *value = json_object_get(o, "target_modules"), *item;
    size_t i;
    char list[600] = "";
    if (json_is_string(value)) {
        if (strpbrk(json_string_value(value), "()[]|\\^$+?"))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: target_modules is a regular expression; give a list of names", source);
        snprintf(list, sizeof list, "%s", json_string_value(value));
    }
    json_array_foreach(value, i, item) {
        size_t used = strlen(list);
        const char *name = json_string_value(item);
        if (!name || used + strlen(name) + 2 > sizeof list)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: target_modules must be a short list of names", source);
        snprintf(list + used, sizeof list - used, "%s%s", used ? "," : "", name);
    }
    if (!*list) return propane_fail(err, PROPANE_ERR_INVALID, "%s: target_modules is missing", source);
    propane_status status = model_lora_choose(out, c, list, err);
    return status == PROPANE_OK ? status : propane_fail_prefix(err, status, "%s", source);
}

propane_status model_adapter_config(const char *dir, const model_config *c, model_lora *out, propane_error *err) {
    json_t *o = NULL;
    char *path = peft_in_folder(dir, MODEL_ADAPTER_CONFIG);
    *out = (model_lora){.alpha = 8};
    if (!path) return propane_fail_memory(err, strlen(dir));
    if (file_is_dir(dir) && !file_exists(path)) {
        mem_free(path);
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s contains no adapter: there is no " MODEL_ADAPTER_CONFIG
                            " in it; a training run writes it with its first checkpoint or validation",
                            dir);
    }
    propane_status status = json_read(path, LIMIT, &o, err);
    if (status == PROPANE_OK) status = peft_check_settings(o, path, err);
    if (status == PROPANE_OK) status = json_get_int(o, path, "r", true, 1, 4096, &out->rank, err);
    if (status == PROPANE_OK) status = json_get_real(o, path, "lora_alpha", false, &out->alpha, err);
    if (status == PROPANE_OK) status = json_get_real(o, path, "lora_dropout", false, &out->dropout, err);
    if (status == PROPANE_OK) status = json_get_bool(o, path, "use_rslora", false, &out->rank_root, err);
    if (status == PROPANE_OK) status = peft_read_targets(o, path, c, out, err);
    json_decref(o);
    mem_free(path);
    return status;
}

propane_status model_adapter_base(const char *dir, char **out, propane_error *err) {
    const char *base = NULL;
    json_t *o = NULL;
    char *path = peft_in_folder(dir, MODEL_ADAPTER_CONFIG);
    *out = NULL;
    propane_status status = path ? json_read(path, LIMIT, &o, err) : propane_fail_memory(err, strlen(dir));
    if (status == PROPANE_OK) status = json_get_text(o, path, "base_model_name_or_path", false, &base, err);
    if (status == PROPANE_OK && base && !(*out = mem_copy_string(base)))
        status = propane_fail_memory(err, strlen(base));
    json_decref(o);
    mem_free(path);
    return status;
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------- */

/* Finds a tensor. Names usually lack the adapter's name, but older files include ".default". */
static const safetensors_tensor *peft_find(const safetensors *s, const model_tensor *t) {
    char name[400];
    const safetensors_tensor *found = safetensors_find(s, t->stored);
    if (found) return found;
    snprintf(name, sizeof name, "%.*s.default.weight", (int)(strlen(t->stored) - strlen(".weight")), t->stored);
    return safetensors_find(s, name);
}

static bool peft_is_first(const model_weights *w, int adapter) { return w->tensors[adapter].first_row == 0; }

/* Reads a tensor of the file into our tensor, or into the several tensors that it holds. */
static propane_status peft_fill_tensor(model_weights *w, int first, const safetensors *s,
                                       const safetensors_tensor *from, propane_error *err) {
    const model_tensor *t = &w->tensors[first];
    if (from->rank != 2 || from->dim[0] != t->stored_rows || from->dim[1] != t->dim[1])
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: '%s' is not [%lld,%lld], as the model and the rank require",
                            safetensors_source(s), t->stored, (long long)t->stored_rows, (long long)t->dim[1]);
    if (t->stored_rows == t->dim[0]) return safetensors_f32(s, from, model_weights_data(w, t), err);
    float *all = mem_array((size_t)(t->stored_rows * t->dim[1]), sizeof *all);
    if (!all) return propane_fail_memory(err, (size_t)(t->stored_rows * t->dim[1]) * sizeof *all);
    propane_status status = safetensors_f32(s, from, all, err);
    for (int i = first; status == PROPANE_OK && i < model_weights_total(w); i++)
        if (strcmp(w->tensors[i].stored, t->stored) == 0)
            memcpy(model_weights_data(w, &w->tensors[i]), all + w->tensors[i].first_row * t->dim[1],
                   (size_t)w->tensors[i].count * sizeof *all);
    mem_free(all);
    return status;
}

static propane_status peft_fill(model_weights *w, const safetensors *s, propane_error *err) {
    int used = 0;
    for (int i = w->count; i < model_weights_total(w); i++) {
        const safetensors_tensor *found = peft_is_first(w, i) ? peft_find(s, &w->tensors[i]) : NULL;
        if (!found) continue; /* zeros for a layer without an adapter */
        PROPANE_TRY(peft_fill_tensor(w, i, s, found, err));
        used++;
    }
    if (used == safetensors_count(s) && used > 0) return PROPANE_OK;
    for (int i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        bool known = false;
        for (int k = w->count; k < model_weights_total(w); k++) known |= peft_find(s, &w->tensors[k]) == t;
        if (!known)
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "%s: '%.120s' belongs to no adapter of this model; is it the model that the adapter was "
                "trained on?",
                safetensors_source(s), t->name);
    }
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no adapter", safetensors_source(s));
}

propane_status model_adapter_read(model_weights *w, const char *dir, propane_error *err) {
    model_lora l;
    safetensors *s = NULL;
    PROPANE_TRY(model_adapter_config(dir, &w->config, &l, err));
    PROPANE_TRY(model_weights_add_lora(w, &l, err));
    char *path = peft_in_folder(dir, MODEL_ADAPTER_WEIGHTS);
    propane_status status = path ? safetensors_open(path, &s, err) : propane_fail_memory(err, strlen(dir));
    if (status == PROPANE_OK) status = safetensors_verify_model(s, err);
    if (status == PROPANE_OK) status = peft_fill(w, s, err);
    safetensors_close(s);
    mem_free(path);
    return status;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

static json_t *peft_targets_of(const model_lora *l) {
    json_t *list = json_array();
    for (const char *at = l->modules; list && *at;) {
        size_t n = strcspn(at, ",");
        if (json_array_append_new(list, json_stringn(at, n))) break;
        at += n + (at[n] == ',');
    }
    return list;
}

/* Sets `out` to a name of the base model that peft can load: a name on the hub if the base is in the hub's cache or is
 * a GGUF file that names its source. Otherwise this is the whole path, because the adapter may be used from another
 * folder. */
static void peft_base_name(const char *base, char out[PATH_MAX]) {
    static const char mark[] = "/models--", hub[] = "https://huggingface.co/";
    const char *cached = strstr(base, mark), *end = cached ? strstr(cached, "/snapshots/") : NULL;
    const char *source = NULL;
    gguf *g = NULL;
    if (end) {
        cached += sizeof mark - 1;
        const char *owner = strstr(cached, "--");
        if (owner && owner < end) {
            snprintf(out, PATH_MAX, "%.*s/%.*s", (int)(owner - cached), cached, (int)(end - owner - 2), owner + 2);
            return;
        }
    }
    if (text_ends_with(base, ".gguf") && gguf_open(base, &g, NULL) == PROPANE_OK &&
        gguf_get_text(g, "general.source.repo_url", false, &source, NULL) == PROPANE_OK && source &&
        strncmp(source, hub, sizeof hub - 1) == 0)
        snprintf(out, PATH_MAX, "%s", source + sizeof hub - 1);
    else if (!realpath(base, out))
        snprintf(out, PATH_MAX, "%s", base);
    gguf_close(g);
}

static propane_status peft_write_config(const model_lora *l, bool transposed, const char *path, const char *base,
                                        propane_error *err) {
    char name[PATH_MAX];
    peft_base_name(base, name);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:b, s:s, s:b, s:b, s:b, s:o}", "peft_type", "LORA", "task_type",
                  "CAUSAL_LM", "base_model_name_or_path", name, "r", (json_int_t)l->rank, "lora_alpha", l->alpha,
                  "lora_dropout", l->dropout, "use_rslora", (int)l->rank_root, "bias", "none", "fan_in_fan_out",
                  (int)transposed, "inference_mode", 1, "init_lora_weights", 1, "target_modules", peft_targets_of(l));
    propane_status status = json_write(path, o, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(15), err);
    json_decref(o);
    return status;
}

static propane_status peft_write_weights(const model_weights *w, const char *path, propane_error *err) {
    safetensors_writer *out = NULL;
    PROPANE_TRY(safetensors_writer_open(path, &out, err));
    propane_status status = safetensors_writer_metadata(out, "format", "pt", err);
    for (int i = w->count; i < model_weights_total(w) && status == PROPANE_OK; i++) {
        const int64_t dim[] = {w->tensors[i].stored_rows, w->tensors[i].dim[1]};
        if (peft_is_first(w, i)) status = safetensors_writer_declare(out, w->tensors[i].stored, ST_F32, 2, dim, err);
    }
    for (int i = w->count; i < model_weights_total(w) && status == PROPANE_OK; i++)
        status = safetensors_writer_data(out, model_weights_data(w, &w->tensors[i]),
                                         (size_t)w->tensors[i].count * sizeof(float), err);
    if (status == PROPANE_OK) return safetensors_writer_commit(out, err);
    safetensors_writer_abort(out);
    return status;
}

/* Returns the value of peft's fan_in_fan_out: whether the model's files store the adapted matrices transposed. */
static bool peft_holds_transposed(const model_weights *w) {
    for (int i = 0; i < w->count; i++)
        if (w->tensors[i].transposed && model_lora_targets(&w->lora, w->tensors[i].param)) return true;
    return false;
}

propane_status model_adapter_write(const model_weights *w, const char *dir, const char *base, propane_error *err) {
    PROPANE_TRY(file_make_dir(dir, err));
    char *config = peft_in_folder(dir, MODEL_ADAPTER_CONFIG), *weights = peft_in_folder(dir, MODEL_ADAPTER_WEIGHTS);
    propane_status status =
        config && weights ? peft_write_weights(w, weights, err) : propane_fail_memory(err, strlen(dir));
    if (status == PROPANE_OK) status = peft_write_config(&w->lora, peft_holds_transposed(w), config, base, err);
    mem_free(config);
    mem_free(weights);
    return status;
}
