/* SPDX-License-Identifier: MIT
 * Owns the writing of a page to a file, and the reading of measured times that a page shows.
 */
#include "apps/propane/cmd/page_file.h"

#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"

enum { MOST_TRACE = 1 << 28 };

propane_status page_file_write(const propane_module *m, const propane_page_options *options, const char *path,
                               propane_error *err) {
    char *page = NULL;
    size_t length = 0;
    propane_status status = file_check_output(path, err);
    if (!status) status = propane_module_page(m, options, &page, &length, err);
    if (!status) status = file_write(path, page, length, err);
    propane_free(page);
    return status;
}

propane_status page_file_read_trace(const char *path, propane_page_value **rows, int *count, void **names,
                                    propane_error *err) {
    json_t *root = NULL, *event;
    size_t i;
    *rows = NULL;
    *names = NULL;
    *count = 0;
    PROPANE_TRY(json_read(path, MOST_TRACE, &root, err));
    json_t *events = json_object_get(root, "traceEvents");
    *rows = mem_array(json_array_size(events) + 1, sizeof **rows);
    *names = root;
    if (!*rows) return propane_fail_memory(err, json_array_size(events) * sizeof **rows);
    json_array_foreach(events, i, event) {
        const char *name = json_string_value(json_object_get(event, "name"));
        const json_t *took = json_object_get(event, "dur");
        if (!name || !json_is_number(took) || json_number_value(took) < 0) continue;
        (*rows)[(*count)++] = (propane_page_value){.size = sizeof **rows, .name = name, .us = json_number_value(took)};
    }
    if (*count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: it contains no times; 'propane run MODEL --seed 1 --trace FILE.json' writes them", path);
}
