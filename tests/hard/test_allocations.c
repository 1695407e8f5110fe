/* SPDX-License-Identifier: MIT
 * Entry points of the library, one row each, with each of their requests for memory failing (support/failing.h). Files
 * are written to a separate folder, which must hold nothing incomplete after a failure.
 */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/files/safetensors.h"
#include "support/failing.h"
#include "support/test.h"

static const char *hard_dir;

static const char *hard_path(const char *name) {
    static char path[1200];
    snprintf(path, sizeof path, "%s/%s", hard_dir, name);
    return path;
}

/* Expects that the folder holds only the requested file after a failure. */
static void hard_expect_only(const char *name) {
    DIR *d = opendir(hard_dir);
    for (struct dirent *e; (e = readdir(d));)
        EXPECT_MSG(e->d_name[0] == '.' || strcmp(e->d_name, name) == 0, "'%s' is left", e->d_name);
    closedir(d);
}

/* Appends the file's whole content, so that every success must have the same bytes under the final name. */
static propane_status hard_print_file(const char *path, text *result, propane_error *err) {
    char *data;
    size_t length;
    PROPANE_TRY(file_read(path, 1 << 20, &data, &length, err));
    text_append_n(result, data, length);
    mem_free(data);
    return result->failed ? propane_fail_memory(err, length) : PROPANE_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------ */

static json_t *hard_make_object(int rows) {
    json_t *root = json_object(), *list = json_array();
    for (int i = 0; i < rows; i++) {
        char key[80];
        json_t *row = json_object();
        snprintf(key, sizeof key, "a key that is long enough to make the buffer grow, number %d", i);
        json_put(row, key, json_integer(i));
        json_put(row, "text", json_string("\"quoted\" and \xc3\xa4"));
        json_add(list, json_pack("{s:f, s:o}", "half", 0.5, "row", row));
        json_put(root, key, json_pack("[i, i]", i, i + 1));
    }
    json_put(root, "list", list);
    return root;
}

static propane_status hard_json_print(void *context, text *result, propane_error *err) {
    json_t *root = hard_make_object(12);
    char *line = NULL;
    propane_status status = json_print(root, JSON_COMPACT | JSON_SORT_KEYS, &line, NULL, err);
    json_decref(root);
    if (line) text_append(result, line);
    mem_free(line);
    return !status && result->failed ? propane_fail_memory(err, 0) : status;
}

static propane_status hard_json_write(void *context, text *result, propane_error *err) {
    json_t *root = hard_make_object(8);
    propane_status status = json_write(hard_path("a.json"), root, JSON_INDENT(1), err);
    json_decref(root);
    hard_expect_only("a.json");
    return status ? status : hard_print_file(hard_path("a.json"), result, err);
}

static propane_status hard_json_read(void *context, text *result, propane_error *err) {
    static const char given[] = "{\"a\": [1, 2.5, \"x\\u00e4\"], \"b\": {\"c\": null}, \"d\": 12345678901234567890123}";
    json_t *root = NULL;
    int64_t missing = 7;
    PROPANE_TRY(json_parse(given, sizeof given - 1, "f.json", &root, err));
    propane_status status = json_get_int(root, "f.json", "e", false, 0, 9, &missing, err);
    text_printf(result, "%zu %lld", json_object_size(root), (long long)missing);
    json_decref(root);
    return !status && result->failed ? propane_fail_memory(err, 0) : status;
}

/* ---- tensors --------------------------------------------------------------------------------------------------------------- */

static propane_status hard_fill(safetensors_writer *w, propane_error *err) {
    float data[12] = {1, 2, 3};
    char name[80];
    PROPANE_TRY(safetensors_writer_metadata(w, "format", "pt", err));
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "model.layers.%d.self_attention.query.weight", i);
        PROPANE_TRY(safetensors_writer_declare(w, name, ST_F32, 2, (const int64_t[]){3, 4}, err));
    }
    for (int i = 0; i < 9; i++) PROPANE_TRY(safetensors_writer_data(w, data, sizeof data, err));
    return PROPANE_OK;
}

static propane_status hard_safetensors(void *context, text *result, propane_error *err) {
    safetensors_writer *w = NULL;
    safetensors *s = NULL;
    char path[1300];
    snprintf(path, sizeof path, "%s", hard_path("a.safetensors"));
    PROPANE_TRY(safetensors_writer_open(path, &w, err));
    propane_status status = hard_fill(w, err);
    if (!status)
        status = safetensors_writer_commit(w, err);
    else
        safetensors_writer_abort(w);
    hard_expect_only("a.safetensors");
    if (!status) status = safetensors_open(path, &s, err);
    for (int i = 0; !status && i < safetensors_count(s); i++) text_append(result, safetensors_at(s, i)->name);
    safetensors_close(s);
    return !status && result->failed ? propane_fail_memory(err, 0) : status;
}

/* ---- the table ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    failing_attempt attempt;
} hard_rows[] = {
    {"json_print", hard_json_print},
    {"json_write", hard_json_write},
    {"json_parse", hard_json_read},
    {"safetensors", hard_safetensors},
};

TEST(every_entry_point) {
    for (size_t i = 0; i < sizeof hard_rows / sizeof hard_rows[0]; i++) {
        char *dir = test_temp_dir();
        hard_dir = dir;
        EXPECT(test_each_failing_allocation(hard_rows[i].name, hard_rows[i].attempt, NULL) > 3);
        mem_free(dir);
    }
}

SUITE("hard/allocations", T(every_entry_point))
