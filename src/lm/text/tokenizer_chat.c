/* SPDX-License-Identifier: MIT
 * Owns the parts of a vocabulary's files that concern conversations: the chat template's text and the names of the
 * first and last token of a sequence. A tokenizer carries these parts from one file format to another; they change no
 * id. chat_find.c interprets the template.
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
    PROPANE_TRY(tokenizer_chat_keep(t->arena, c->tools, &t->chat.tools, err));
    PROPANE_TRY(tokenizer_chat_keep(t->arena, c->format, &t->chat.format, err));
    PROPANE_TRY(tokenizer_chat_keep(t->arena, c->bos, &t->chat.bos, err));
    return tokenizer_chat_keep(t->arena, c->eos, &t->chat.eos, err);
}

/* ---- from files ------------------------------------------------------------------------------------------------------------ */

/* Returns a token's text, which is a string or the "content" of an object. */
static const char *tokenizer_chat_token(const json_t *config, const char *key) {
    const json_t *value = json_object_get(config, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static const char *tokenizer_chat_named(const json_t *config, const char *wanted) {
    const json_t *item;
    size_t i;
    json_array_foreach(json_object_get(config, "chat_template"), i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, wanted) == 0) return json_string_value(json_object_get(item, "template"));
    }
    return NULL;
}

/* Returns the template's text: the string itself, or the template called "default" (otherwise the first one) in a list
 * of {name, template}. Returns NULL if there is none. */
static const char *tokenizer_chat_template(const json_t *config) {
    const json_t *value = json_object_get(config, "chat_template");
    if (json_is_string(value)) return json_string_value(value);
    const char *named = tokenizer_chat_named(config, "default");
    return named ? named : json_string_value(json_object_get(json_array_get(value, 0), "template"));
}

propane_status tokenizer_chat_from_json(arena *a, const json_t *config, tokenizer_chat *out, propane_error *err) {
    PROPANE_TRY(tokenizer_chat_keep(a, tokenizer_chat_token(config, "bos_token"), &out->bos, err));
    PROPANE_TRY(tokenizer_chat_keep(a, tokenizer_chat_token(config, "eos_token"), &out->eos, err));
    const char *format = json_string_value(json_object_get(config, TOKENIZER_CHAT_FORMAT));
    PROPANE_TRY(tokenizer_chat_keep(a, format, &out->format, err));
    PROPANE_TRY(tokenizer_chat_keep(a, tokenizer_chat_named(config, "tool_use"), &out->tools, err));
    return tokenizer_chat_keep(a, tokenizer_chat_template(config), &out->jinja, err);
}

/* Returns the path of `name` in the folder `path`, or next to the file `path`. Returns NULL if memory runs out. */
static char *tokenizer_chat_beside(arena *a, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    size_t folder = file_is_dir(path) ? strlen(path) : slash ? (size_t)(slash - path) : 0;
    if (folder) return arena_printf(a, "%.*s/%s", (int)folder, path, name);
    return arena_printf(a, "%s%s", slash == path ? "/" : "", name);
}

/* Reads the text of a file. If the file does not exist, *to keeps its value. */
static propane_status tokenizer_chat_read_text(arena *a, const char *path, const char **to, propane_error *err) {
    char *data = NULL;
    size_t length;
    if (!path) return propane_fail_memory(err, 0);
    if (!file_exists(path)) return PROPANE_OK;
    PROPANE_TRY(file_read(path, FILE_LIMIT, &data, &length, err));
    const propane_status status = tokenizer_chat_keep(a, data, to, err);
    mem_free(data);
    return status;
}

/* Template files take precedence over all templates in the configuration, because a folder with one such file has all
 * its templates in files. */
propane_status tokenizer_chat_read(const char *path, arena *a, tokenizer_chat *out, propane_error *err) {
    const char *config = tokenizer_chat_beside(a, path, "tokenizer_config.json"),
               *jinja = tokenizer_chat_beside(a, path, "chat_template.jinja"),
               *tools = tokenizer_chat_beside(a, path, TOKENIZER_CHAT_TOOLS);
    json_t *object = NULL;
    propane_status status = config && jinja ? PROPANE_OK : propane_fail_memory(err, strlen(path));
    if (!status && file_exists(config)) status = json_read(config, FILE_LIMIT, &object, err);
    if (!status && object) status = tokenizer_chat_from_json(a, object, out, err);
    if (!status && file_exists(jinja)) out->tools = NULL;
    if (!status) status = tokenizer_chat_read_text(a, jinja, &out->jinja, err);
    if (!status) status = tokenizer_chat_read_text(a, tools, &out->tools, err);
    json_decref(object);
    return status;
}

propane_status tokenizer_chat_copy_tools(const char *from, const char *to, propane_error *err) {
    arena *a = arena_create();
    const char *source = a ? tokenizer_chat_beside(a, from, TOKENIZER_CHAT_TOOLS) : NULL, *jinja = NULL;
    char *folder = a ? arena_printf(a, "%s/" TOKENIZER_CHAT_FOLDER, to) : NULL,
         *target = a ? arena_printf(a, "%s/" TOKENIZER_CHAT_TOOLS, to) : NULL;
    propane_status status = source && folder && target ? PROPANE_OK : propane_fail_memory(err, 0);
    if (!status && !file_same(source, target)) status = tokenizer_chat_read_text(a, source, &jinja, err);
    if (!status && jinja) status = file_make_dir(folder, err);
    if (!status && jinja) status = file_write(target, jinja, strlen(jinja), err);
    arena_free(a);
    return status;
}

/* Returns a string, or a list with names if there is another template for tools. */
json_t *tokenizer_chat_put_templates(const tokenizer_chat *c) {
    if (!c->tools) return json_string(c->jinja);
    return json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "default", "template", c->jinja, "name", "tool_use",
                     "template", c->tools);
}

json_t *tokenizer_chat_to_json(const tokenizer_chat *c) {
    if (!c->jinja && !c->bos && !c->eos && !c->format) return NULL;
    json_t *o = json_object();
    if (o && c->bos) json_put(o, "bos_token", json_string(c->bos));
    if (o && c->eos) json_put(o, "eos_token", json_string(c->eos));
    if (o && c->jinja) json_put(o, "chat_template", tokenizer_chat_put_templates(c));
    if (o && c->format) json_put(o, TOKENIZER_CHAT_FORMAT, json_string(c->format));
    return o;
}
