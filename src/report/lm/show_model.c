/* SPDX-License-Identifier: MIT
 * Owns the texts about models, vocabularies and token files, including files whose kind shows only when they are read.
 * show_model_json.c describes the same files as JSON.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/files/safetensors.h"
#include "lm/data/jsonl.h"
#include "lm/files/gguf.h"
#include "lm/files/model_tokenizer.h"
#include "lm/files/store.h"
#include "lm/text/tokenizer.h"
#include "lm/text/tokens.h"
#include "report/show.h"

/* ---- models and text ------------------------------------------------------------------------------------------------------ */

static void api_show_config(text *to, const model_config *c) {
    text_printf(to,
                "  %s: %" PRId64 " layer%s, width %" PRId64 ", hidden %" PRId64 ", %" PRId64 " head%s of %" PRId64
                " (%" PRId64 " for keys and values),\n  vocabulary %" PRId64 ", context %" PRId64 ", ",
                c->model_type, c->num_hidden_layers, text_plural(c->num_hidden_layers), c->hidden_size,
                model_config_hidden(c), c->num_attention_heads, text_plural(c->num_attention_heads), c->head_dim,
                c->num_key_value_heads, c->vocab_size, c->max_position_embeddings);
    if (c->num_experts)
        text_printf(to, "%" PRId64 " experts, %" PRId64 " per token, ", c->num_experts, c->num_experts_per_tok);
    if (model_arch_of(c)->position == ARCH_LEARNED)
        text_printf(to, "learned positions");
    else
        text_printf(to, "rope theta %g", c->rope_theta);
    if (c->rope_scaling != MODEL_ROPE_PLAIN) text_printf(to, ", %s by %g", model_config_rope_name(c), c->rope_factor);
    if (c->nope_every) text_printf(to, ", none in every layer %" PRId64, c->nope_every);
    if (c->sliding_window) text_printf(to, ", window %" PRId64, c->sliding_window);
    if (c->sliding_window && c->full_every) text_printf(to, " but in every layer %" PRId64, c->full_every);
    if (c->sliding_window && c->rope_local_theta > 0) text_printf(to, " (theta %g)", c->rope_local_theta);
    text_printf(to, ", norm epsilon %g, %s head\n", c->rms_norm_eps, c->tie_word_embeddings ? "tied" : "separate");
}

static propane_status api_show_safetensors(text *to, const char *path, propane_error *err) {
    safetensors *s = NULL;
    PROPANE_TRY(safetensors_open(path, &s, err));
    double bytes = 0, elements = 0;
    char size[32];
    for (int i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        bytes += (double)t->bytes;
        elements += (double)t->count;
    }
    text_printf(to, "%s: safetensors, %d tensor%s, %.0f element%s, %s\n", path, safetensors_count(s),
                text_plural(safetensors_count(s)), elements, elements == 1 ? "" : "s", text_bytes(size, bytes));
    for (int i = 0; i < safetensors_count(s); i++) {
        const safetensors_tensor *t = safetensors_at(s, i);
        text_printf(to, "  %-5s %-60s [", safetensors_dtype_name(t->dtype), t->name);
        for (int d = 0; d < t->rank; d++) text_printf(to, "%s%" PRId64, d ? ", " : "", t->dim[d]);
        text_printf(to, "]\n");
    }
    safetensors_close(s);
    return PROPANE_OK;
}

static propane_status api_show_model(text *to, const char *path, model_form form, propane_error *err) {
    model_config config;
    propane_status status = model_store_config(path, &config, err);
    if (form == MODEL_FORM_SAFETENSORS) { /* the tensors can be listed even without a configuration */
        PROPANE_TRY(api_show_safetensors(to, path, err));
        if (status == PROPANE_OK) api_show_config(to, &config);
        return PROPANE_OK;
    }
    PROPANE_TRY(status);
    text_printf(to, "%s: %s\n", path, form == MODEL_FORM_DIR ? "a model's folder" : "llama2.c checkpoint, version 0");
    api_show_config(to, &config);
    return PROPANE_OK;
}

static void api_show_gguf_value(text *to, const gguf_value *v) {
    text_printf(to, "  %-44s ", v->key);
    if (v->type == GGUF_TEXT) {
        char shown[80];
        text_printf(to, "%s\n", text_quote(shown, (const char *)v->data, (size_t)v->bytes));
    } else if (v->type == GGUF_ARRAY)
        text_printf(to, "list of %" PRIu64 "\n", v->count);
    else if (v->type == GGUF_F32 || v->type == GGUF_F64)
        text_printf(to, "%g\n", gguf_item_real(v, 0));
    else
        text_printf(to, "%" PRId64 "\n", gguf_item_int(v, 0));
}

static propane_status api_show_gguf(text *to, const char *path, propane_error *err) {
    gguf *g = NULL;
    model_config config;
    propane_error why = {0};
    PROPANE_TRY(gguf_open(path, &g, err));
    text_printf(to, "%s: GGUF, %d key%s, %d tensor%s\n", path, gguf_value_count(g), text_plural(gguf_value_count(g)),
                gguf_tensor_count(g), text_plural(gguf_tensor_count(g)));
    for (int i = 0; i < gguf_value_count(g); i++) api_show_gguf_value(to, gguf_value_at(g, i));
    for (int i = 0; i < gguf_tensor_count(g); i++) {
        const gguf_tensor *t = gguf_tensor_at(g, i);
        text_printf(to, "  %-5s %-60s [", t->type->name, t->name);
        for (int d = t->rank - 1; d >= 0; d--) text_printf(to, "%" PRId64 "%s", t->dim[d], d ? ", " : "");
        text_printf(to, "]\n");
    }
    if (gguf_config(g, &config, &why) == PROPANE_OK)
        api_show_config(to, &config);
    else
        text_printf(to, "  Propane cannot use it: %s\n", why.text);
    gguf_close(g);
    return PROPANE_OK;
}

/* Prints a line such as "kind hf (Unigram), 32000 ids, bos -1, eos 1". */
static void api_show_vocabulary(text *to, const tokenizer *t) {
    const char *model = tokenizer_model_name(t);
    text_printf(to, "kind %s%s%s%s, %d ids, bos %d, eos %d\n", tokenizer_kind_name(tokenizer_get_kind(t)),
                model ? " (" : "", model ? model : "", model ? ")" : "", tokenizer_vocab_size(t), tokenizer_bos(t),
                tokenizer_eos(t));
}

static propane_status api_show_tokenizer(text *to, const char *path, propane_error *err) {
    tokenizer *t = NULL;
    const char *hash;
    PROPANE_TRY(tokenizer_read(path, &t, err));
    const propane_status status = tokenizer_hash(t, &hash, err);
    if (!status) {
        text_printf(to, "%s: tokenizer, ", path);
        api_show_vocabulary(to, t);
        text_printf(to, "  sha256 %s\n", hash);
    }
    tokenizer_free(t);
    return status;
}

/* Prints a line about the tokenizer of the model in a folder, if it has one. */
static propane_status api_show_own_tokenizer(text *to, const char *dir, propane_error *err) {
    tokenizer *t = NULL;
    propane_error why = {0};
    const propane_status status = model_tokenizer_open(NULL, dir, &t, &why);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    if (status == PROPANE_ERR_NOT_FOUND) return PROPANE_OK;
    text_append(to, "  tokenizer: ");
    if (status == PROPANE_OK)
        api_show_vocabulary(to, t);
    else
        text_printf(to, "cannot be read: %s\n", why.text);
    tokenizer_free(t);
    return PROPANE_OK;
}

static propane_status api_show_tokens(text *to, const char *path, propane_error *err) {
    token_file t;
    PROPANE_TRY(token_file_open(path, &t, err));
    text_printf(to,
                "%s: token file, %" PRId64 " token%s of %" PRId64 " byte%s of text, vocabulary %" PRId64
                ", %d bytes per token\n  tokenizer sha256 %s\n",
                path, t.count, text_plural(t.count), t.text_bytes, text_plural(t.text_bytes), t.vocab_size, t.id_bytes,
                t.tokenizer_hash);
    token_file_close(&t);
    return PROPANE_OK;
}

/* ---- kind of the file
 * ------------------------------------------------------------------------------------------------------- */

/* Describes a file of unknown kind, by trying to read it as each kind. Vocabularies and configurations look like any
 * other JSON. */
static propane_status api_show_unknown(text *to, const char *path, propane_error *err) {
    model_form form;
    model_config config;
    propane_error why = {0}, other = {0};
    file_map map;
    PROPANE_TRY(file_map_open(path, &map, err));
    const bool json = map.bytes && map.data[0] == '{';
    const char *disguise = map.bytes ? file_disguise(map.data, map.bytes) : "";
    file_map_close(&map);
    if (model_store_form(path, &form, &why) == PROPANE_OK && !json &&
        (form == MODEL_FORM_SAFETENSORS || model_store_config(path, &(model_config){0}, &why) == PROPANE_OK))
        return api_show_model(to, path, form, err);
    if (api_show_tokenizer(to, path, &other) == PROPANE_OK) return PROPANE_OK;
    if (json && model_config_read(path, &config, &why) == PROPANE_OK) {
        text_printf(to, "%s: a model's configuration\n", path);
        api_show_config(to, &config);
        return PROPANE_OK;
    }
    if (json && strcmp(other.text, why.text) == 0) return propane_fail(err, other.status, "%s", other.text);
    if (json)
        return propane_fail(err, PROPANE_ERR_INVALID, "neither a tokenizer (%s) nor a model's configuration (%s)",
                            other.text, why.text);
    if (why.status && model_store_form(path, &form, &other) == PROPANE_OK && form == MODEL_FORM_LLAMA2C)
        return propane_fail(err, why.status, "%s", why.text);
    if (*disguise) return propane_fail(err, PROPANE_ERR_INVALID, "%s: an unknown kind of file%s", path, disguise);
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s: an unknown kind of file; known are MIL text, MILBlob weights, safetensors, GGUF, a llama2.c checkpoint, a "
        "tokenizer, a token file or a compiled program; to train on a text: propane train --data FILE",
        path);
}

/* Describes the readable files of a folder that is not a complete model. Then returns the reason `why` as the error,
 * unless there were readable files and none of them is a safetensors file, without which the folder is no model. */
static propane_status api_show_parts(text *to, const char *dir, const propane_error *why, propane_error *err) {
    struct dirent **entries = NULL;
    int shown = 0, weights = 0, count = scandir(dir, &entries, NULL, alphasort);
    propane_status status = PROPANE_OK;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        text path = {0};
        propane_error none = {0};
        text_printf(&path, "%s/%s", dir, name);
        if (path.failed) status = propane_fail_memory(err, strlen(dir));
        if (!status && text_ends_with(name, ".safetensors"))
            weights += api_show_safetensors(to, path.data, &none) == PROPANE_OK;
        else if (!status && text_ends_with(name, ".gguf"))
            shown += api_show_gguf(to, path.data, &none) == PROPANE_OK;
        else if (!status && (strcmp(name, "tokenizer.json") == 0 || strcmp(name, MODEL_TOKENIZER) == 0))
            shown += api_show_tokenizer(to, path.data, &none) == PROPANE_OK;
        text_deinit(&path);
        free(entries[i]);
    }
    free(entries);
    return status || (shown && !weights) ? status : propane_fail(err, why->status, "%s", why->text);
}

const char *api_show_model_kind(const char *path, const file_map *map) {
    if (!map) return train_jsonl_is(path) ? "examples" : NULL;
    return token_file_is(map->data, map->bytes) ? "tokens" : NULL;
}

propane_status api_show_model_contents(const char *path, const char *kind, text *to, propane_error *err) {
    propane_error why = {0};
    if (!kind) return api_show_unknown(to, path, err);
    if (strcmp(kind, "tokens") == 0) return api_show_tokens(to, path, err);
    if (strcmp(kind, "gguf") == 0) return api_show_gguf(to, path, err);
    if (api_show_model(to, path, MODEL_FORM_DIR, &why) == PROPANE_OK) return api_show_own_tokenizer(to, path, err);
    return api_show_parts(to, path, &why, err);
}
