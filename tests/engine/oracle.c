/* SPDX-License-Identifier: MIT
 * Reads h13_oracles.jsonl: a program a line.
 */
#include "oracle.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "support/test.h"

static uint32_t oracle_hex(const json_t *text) { return (uint32_t)strtoul(json_string_value(text), NULL, 16); }

static void oracle_task(const json_t *json, engine_task *t) {
    json_t *value;
    size_t i;
    const char *key;
    t->offset = oracle_hex(json_object_get(json, "offset"));
    json_array_foreach(json_object_get(json, "header"), i, value) t->header[t->header_words++] = oracle_hex(value);
    json_array_foreach(json_object_get(json, "records"), i, value) {
        unsigned address = 0;
        int count = 0;
        EXPECT(sscanf(json_string_value(value), "%x:%d", &address, &count) == 2);
        engine_task_record(t, address, count);
    }
    json_object_foreach(json_object_get(json, "words"), key, value)
        engine_set(t, (uint32_t)strtoul(key, NULL, 16), oracle_hex(value));
}

int oracle_each(void (*visit)(const oracle *o, void *context), void *context) {
    const char *path = test_data("h13_oracles.jsonl");
    propane_error err = {0};
    char *data = NULL;
    size_t length = 0;
    int count = 0;
    if (!path) return -1;
    EXPECT_OK(file_read(path, 1u << 24, &data, &length, &err));
    for (char *line = data, *end; line && *line; line = end, count++) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        oracle o = {0};
        EXPECT_OK(json_parse(line, strlen(line), path, &o.json, &err));
        o.id = json_string_value(json_object_get(o.json, "id"));
        json_t *tasks = json_object_get(o.json, "tasks"), *value;
        size_t i;
        o.task_count = (int)json_array_size(tasks);
        o.tasks = mem_array((size_t)o.task_count, sizeof *o.tasks);
        json_array_foreach(tasks, i, value) oracle_task(value, &o.tasks[i]);
        o.text_sha256 = json_string_value(json_object_get(o.json, "text_sha256"));
        o.text_bytes = (size_t)json_integer_value(json_object_get(o.json, "text_bytes"));
        visit(&o, context);
        mem_free(o.tasks);
        json_decref(o.json);
    }
    mem_free(data);
    return count;
}
