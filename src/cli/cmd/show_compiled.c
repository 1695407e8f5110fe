/* SPDX-License-Identifier: MIT
 * Prints what src/engine tells of compiled programs.
 */
#include "cli/cmd/show_compiled.h"

#include <stdio.h>

#include "base/file.h"
#include "engine/describe.h"

bool show_compiled_is(const char *path) {
    file_map map;
    propane_error err;
    if (file_is_dir(path) || file_map_open(path, &map, &err) != PROPANE_OK) return false;
    bool is = engine_object_is(map.data, map.bytes);
    file_map_close(&map);
    return is;
}

static propane_status show_compiled_print(text *out, propane_error *err) {
    propane_status status = out->failed ? propane_fail_memory(err, out->length) : PROPANE_OK;
    if (!status) fwrite(out->data, 1, out->length, stdout);
    text_deinit(out);
    return status;
}

propane_status show_compiled(const char *path, bool words, bool json, propane_error *err) {
    engine_object *o = NULL;
    text out = {0};
    PROPANE_TRY(engine_object_open(path, &o, err));
    if (json)
        engine_describe_json(o, &out);
    else
        engine_describe(o, words, &out);
    engine_object_free(o);
    return show_compiled_print(&out, err);
}

propane_status show_compiled_difference(const char *a, const char *b, int *words, propane_error *err) {
    engine_object *left = NULL, *right = NULL;
    text out = {0};
    propane_status status = engine_object_open(a, &left, err);
    if (!status) status = engine_object_open(b, &right, err);
    if (!status) *words = engine_describe_difference(left, right, &out);
    engine_object_free(left);
    engine_object_free(right);
    return status ? status : show_compiled_print(&out, err);
}
