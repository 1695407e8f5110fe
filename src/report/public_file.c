/* SPDX-License-Identifier: MIT
 * Owns the recognition of files by their content, and the public calls on an engine's compiled programs, whose
 * registers src/ane/h13 decodes. show.c describes the other files.
 */
#include <string.h>

#include "ane/h13/compile.h"
#include "ane/h13/describe.h"
#include "core/base/file.h"
#include "core/mil/coreml/package.h"
#include "core/pass/pass.h"
#include "core/run/public.h"
#include "report/show.h"

/* ---- kinds ------------------------------------------------------------------------------------------------------------------ */

static bool api_file_begins(const file_map *map, const char *magic) {
    size_t n = strlen(magic);
    return map->bytes >= n && memcmp(map->data, magic, n) == 0;
}

/* Returns whether the first word after comments and blanks is "program". */
static bool api_file_looks_like_mil(const file_map *map) {
    size_t i = 0;
    for (bool comment = false; i < map->bytes; i++) {
        const unsigned char c = map->data[i];
        if (c == '\n') comment = false;
        if (comment || c == ' ' || (c >= '\t' && c <= '\r')) continue;
        if (c != '/' || i + 1 >= map->bytes || map->data[i + 1] != '/') break;
        comment = true;
    }
    return map->bytes - i >= 7 && memcmp(map->data + i, "program", 7) == 0;
}

static bool api_file_is_blob(const file_map *map) {
    return map->bytes >= 128 && map->data[4] == 2 && !map->data[5] && !map->data[6] && !map->data[7] &&
           map->data[8] == 0 && map->data[64] == 0xEF && map->data[65] == 0xBE;
}

/* Returns the kind of a file by its name or its first bytes, or NULL if they do not determine it. */
static const char *api_file_kind_of(const char *path, const file_map *map) {
    const size_t length = strlen(path);
    const bool json = map->bytes && map->data[0] == '{';
    if (engine_object_is(map->data, map->bytes)) return "compiled";
    if (length > 8 && strcmp(path + length - 8, ".mlmodel") == 0) return "program";
    if (length > 4 && strcmp(path + length - 4, ".mil") == 0) return "program";
    if (api_show_model_kind(path, map)) return api_show_model_kind(path, map);
    if (api_file_begins(map, "GGUF")) return "gguf";
    if (api_file_is_blob(map)) return "weights";
    return api_file_looks_like_mil(map) && !json ? "program" : NULL;
}

/* Finds the kind of a file or folder. Sets *kind to NULL if the kind is unknown. Fails if the file cannot be read. */
static propane_status api_file_look(const char *path, const char **kind, propane_error *err) {
    file_map map;
    *kind = api_show_model_kind(path, NULL);
    if (!*kind && mil_is_program_folder(path)) *kind = "program";
    if (*kind) return PROPANE_OK;
    if (file_is_dir(path)) {
        *kind = "folder";
        return PROPANE_OK;
    }
    PROPANE_TRY(file_map_open(path, &map, err));
    *kind = api_file_kind_of(path, &map);
    const bool empty = map.bytes == 0;
    file_map_close(&map);
    return empty ? propane_fail(err, PROPANE_ERR_INVALID, "%s: the file is empty", path) : PROPANE_OK;
}

const char *propane_file_kind(const char *path) {
    if (!path) return NULL;
    const char *kind = NULL;
    propane_error dropped = {0};
    return api_file_look(path, &kind, &dropped) == PROPANE_OK ? kind : NULL;
}

propane_status propane_file_show(const char *path, const propane_show_options *options, char **out, size_t *length,
                                 propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    API_ERROR(err);
    propane_show_options o = {0};
    propane_object *object = NULL;
    const char *kind = NULL;
    text to = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_show_options", err));
    NEED_FORM(err, o.form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON);
    propane_status status = api_file_look(path, &kind, err);
    if (!status && kind && strcmp(kind, "examples") == 0) {
        status = api_show_examples(path, &o, &to, err);
    } else if (!status && kind && strcmp(kind, "compiled") == 0) {
        status = propane_object_open(path, &object, err);
        if (!status && o.form == PROPANE_JSON) engine_describe_json(object, &to);
        if (!status && o.form != PROPANE_JSON) engine_describe(object, o.words, &to);
        propane_object_free(object);
    } else if (!status && o.form == PROPANE_JSON) {
        status = api_show_json(path, kind, &to, err);
    } else if (!status) {
        status = api_show_contents(path, kind, &to, err);
    }
    if (!status) return api_give_text(&to, out, length, err);
    if (to.length && api_give_text(&to, out, length, NULL) != PROPANE_OK) *out = NULL;
    text_deinit(&to);
    return status;
}

/* ---- compiled programs ------------------------------------------------------------------------------------------------------ */

propane_status propane_object_open(const char *path, propane_object **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    return engine_object_open(path, out, err);
}

void propane_object_free(propane_object *object) { engine_object_free(object); }

propane_status propane_object_compile(propane_module *module, const char *function, const char *target, char **report,
                                      propane_object **out, propane_error *err) {
    if (out) *out = NULL;
    if (report) *report = NULL;
    NEED(err, module, out);
    API_ERROR(err);
    text printed = {0};
    bool second = target && strcmp(target, "m2") == 0;
    if (target && !second && strcmp(target, "m1") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "target is '%.40s'; it must be m1 or m2", target);
    mil_function *f = mil_module_function(module, function, err);
    propane_status status = f ? pass_run(f, &pass_all, err) : err->status;
    engine_compile_options how = {.report = &printed, .subtype = second ? ENGINE_H14 : ENGINE_H13};
    if (!status) status = engine_compile(f, &how, out, err);
    if (!status && report) status = api_give_text(&printed, report, NULL, err);
    text_deinit(&printed);
    return status;
}

propane_status propane_object_write(const propane_object *object, const char *path, propane_error *err) {
    NEED(err, object, path);
    NEED_TEXT(err, path);
    return engine_object_save(object, path, err);
}

bool propane_object_describe(const propane_object *object, propane_object_info *out) {
    if (!object || !out) return false;
    const propane_object_info mine = {.tasks = object->task_count,
                                      .constant_bytes = (uint64_t)object->constant_bytes,
                                      .scratch_bytes = (uint64_t)object->scratch_bytes};
    return api_give(out, &mine, sizeof mine);
}

propane_status propane_object_compare(const propane_object *a, const propane_object *b, int *differences, char **out,
                                      propane_error *err) {
    if (out) *out = NULL;
    NEED(err, a, b, differences, out);
    text printed = {0};
    *differences = engine_describe_difference(a, b, &printed);
    return api_give_text(&printed, out, NULL, err);
}
