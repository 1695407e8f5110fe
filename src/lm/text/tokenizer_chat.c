/* SPDX-License-Identifier: MIT
 * Owns what a vocabulary's files say about conversations: the chat template's text and what the first and last token of a
 * sequence are called. A tokenizer carries it from one form of files to another; it changes no id. What the template means
 * is chat.c's.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "lm/text/tokenizer_internal.h"

enum { FILE_LIMIT = 32 << 20 };

const tokenizer_chat *tokenizer_get_chat(const tokenizer *t) { return &t->chat; }

static propane_status tokenizer_chat_keep(arena *a, const char *from, const char **to, propane_error *err) {
    if (!from) return PROPANE_OK;
    *to = arena_string(a, from);
    return *to ? PROPANE_OK : propane_fail_memory(err, strlen(from));
}

propane_status tokenizer_set_chat(tokenizer *t, const tokenizer_chat *c, propane_error *err) {
    PROPANE_TRY(tokenizer_chat_keep(t->arena, c->jinja, &t->chat.jinja, err));
    PROPANE_TRY(tokenizer_chat_keep(t->arena, c->format, &t->chat.format, err));
    PROPANE_TRY(tokenizer_chat_keep(t->arena, c->bos, &t->chat.bos, err));
    return tokenizer_chat_keep(t->arena, c->eos, &t->chat.eos, err);
}

/* ---- from files ------------------------------------------------------------------------------------------------------------ */

/* A token's text: a string, or an object with "content". */
static const char *tokenizer_chat_token(const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* The template's text: a string, or the one called "default" of a list of {name, template}. NULL: there is none. */
static const char *tokenizer_chat_template(const json_t *config) {
    const json_t *value = json_object_get(config, "chat_template"), *item;
    if (json_is_string(value)) return json_string_value(value);
    size_t i;
    const char *first = NULL;
    json_array_foreach(value, i, item) {
        const char *name = json_string_value(json_object_get(item, "name")),
                   *jinja = json_string_value(json_object_get(item, "template"));
        if (name && jinja && strcmp(name, "default") == 0) return jinja;
        if (!first) first = jinja;
    }
    return first;
}

propane_status tokenizer_chat_from_json(arena *a, const json_t *config, tokenizer_chat *out, propane_error *err) {
    PROPANE_TRY(tokenizer_chat_keep(a, tokenizer_chat_token(config, "bos_token"), &out->bos, err));
    PROPANE_TRY(tokenizer_chat_keep(a, tokenizer_chat_token(config, "eos_token"), &out->eos, err));
    const char *format = json_string_value(json_object_get(config, TOKENIZER_CHAT_FORMAT));
    PROPANE_TRY(tokenizer_chat_keep(a, format, &out->format, err));
    return tokenizer_chat_keep(a, tokenizer_chat_template(config), &out->jinja, err);
}

/* NAME in the folder, or beside the file. NULL: no memory. */
static char *tokenizer_chat_beside(arena *a, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    size_t folder = file_is_dir(path) ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    if (folder) return arena_printf(a, "%.*s/%s", (int)folder, path, name);
    return arena_printf(a, "%s%s", slash == path ? "/" : "", name);
}

propane_status tokenizer_chat_read(const char *path, arena *a, tokenizer_chat *out, propane_error *err) {
    const char *config = tokenizer_chat_beside(a, path, "tokenizer_config.json"),
               *jinja = tokenizer_chat_beside(a, path, "chat_template.jinja");
    json_t *object = NULL;
    char *data = NULL;
    size_t length;
    propane_status status = config && jinja ? PROPANE_OK : propane_fail_memory(err, strlen(path));
    if (!status && file_exists(config)) status = json_read(config, FILE_LIMIT, &object, err);
    if (!status && object) status = tokenizer_chat_from_json(a, object, out, err);
    if (!status && file_exists(jinja)) status = file_read(jinja, FILE_LIMIT, &data, &length, err);
    if (!status && data) status = tokenizer_chat_keep(a, data, &out->jinja, err);
    json_decref(object);
    mem_free(data);
    return status;
}

json_t *tokenizer_chat_to_json(const tokenizer_chat *c) {
    if (!c->jinja && !c->bos && !c->eos && !c->format) return NULL;
    json_t *o = json_object();
    if (o && c->bos) json_put(o, "bos_token", json_string(c->bos));
    if (o && c->eos) json_put(o, "eos_token", json_string(c->eos));
    if (o && c->jinja) json_put(o, "chat_template", json_string(c->jinja));
    if (o && c->format) json_put(o, TOKENIZER_CHAT_FORMAT, json_string(c->format));
    return o;
}
