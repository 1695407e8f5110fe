/* SPDX-License-Identifier: MIT
 * Owns the description of a file as JSON, with the schema in docs/coreml.md. Keys may be added later, but the meaning
 * of a key never changes.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/coreml/package.h"
#include "report/show.h"

enum { SCHEMA = 1 };

static void api_show_json_merge(json_t *o, json_t *more) {
    const char *key;
    json_t *value;
    json_object_foreach(more, key, value) json_put(o, key, json_incref(value));
    json_decref(more);
}

static propane_status api_show_json_program(const char *path, json_t *o, propane_error *err) {
    mil_module *m = NULL;
    PROPANE_TRY(mil_read(path, &(mil_read_options){.late = true}, &m, err));
    api_show_json_merge(o, api_show_module_json(m));
    mil_module_free(m);
    return PROPANE_OK;
}

static propane_status api_show_json_weights(const char *path, json_t *o, propane_error *err) {
    mil_blob_file *file = NULL;
    PROPANE_TRY(mil_blob_open(path, &file, err));
    json_t *records = json_array();
    mil_blob blob;
    uint64_t at = 0;
    propane_status status;
    while ((status = mil_blob_next(file, &at, &blob, err)) == PROPANE_OK) {
        const mil_dtype_info *type = mil_dtype_get(blob.dtype);
        json_add(records,
                 json_pack("{s:I, s:s, s:I, s:I}", "offset", (json_int_t)blob.offset, "type", type->name, "bytes",
                           (json_int_t)blob.bytes, "elements",
                           (json_int_t)((blob.bytes * 8 - (uint64_t)blob.padding_bits) / (uint64_t)type->bits)));
    }
    json_put(o, "records", records);
    mil_blob_close(file);
    return status == PROPANE_ERR_NOT_FOUND ? PROPANE_OK : status;
}

static propane_status api_show_json_contents(const char *path, const char *kind, json_t *o, propane_error *err) {
    if (kind && strcmp(kind, "program") == 0) return api_show_json_program(path, o, err);
    if (kind && strcmp(kind, "weights") == 0) return api_show_json_weights(path, o, err);
    return api_show_model_json(path, kind, o, err);
}

propane_status api_show_json(const char *path, const char *kind, text *to, propane_error *err) {
    json_t *o = json_object();
    char *shown = NULL;
    json_put(o, "schema", json_integer(SCHEMA));
    json_put(o, "kind", json_string(kind ? kind : "unknown"));
    json_put(o, "file", json_words(path));
    propane_status status = api_show_json_contents(path, kind, o, err);
    if (!status) status = json_print(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9), &shown, NULL, err);
    if (!status) text_printf(to, "%s\n", shown);
    mem_free(shown);
    json_decref(o);
    return status;
}
