/* SPDX-License-Identifier: MIT
 * Reads h13_oracles.jsonl and h14_oracles.jsonl, with one program per line. Tasks of H13 are given by header, records
 * and registers, a text of H14 by its words: {"id": .., "mil": .., "text": "0 0 0 0 3d0000 ..."}.
 */
#include "oracle.h"

#include <stdlib.h>

#include "ane/h13/h14.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "support/test.h"

/* The current line, for messages. */
typedef struct oracle_place {
    const char *path;
    int line;
} oracle_place;

static uint32_t oracle_hex(const oracle_place *p, const json_t *text, const char *what) {
    EXPECT_MSG(json_is_string(text), "%s:%d: %s: a text such as \"0x1f800\" is wanted", p->path, p->line, what);
    return (uint32_t)strtoul(json_string_value(text), NULL, 16);
}

static void oracle_record(const oracle_place *p, const char *record, engine_task *t) {
    unsigned address = 0;
    int count = 0;
    bool known = record && sscanf(record, "%x:%d", &address, &count) == 2 && count >= 1 && count <= 64;
    for (int i = 0; known && i < count; i++) known = engine_index(address + 4u * (unsigned)i) >= 0;
    EXPECT_MSG(known && t->record_count < ENGINE_RECORDS,
               "%s:%d: '%s' is no record of registers, \"0x1f800:18\" for 18 from 0x1f800 on", p->path, p->line,
               record ? record : "(no text)");
    engine_task_record(t, address, count);
}

static void oracle_task(const oracle_place *p, const json_t *json, engine_task *t) {
    json_t *value;
    size_t i;
    const char *key;
    t->offset = oracle_hex(p, json_object_get(json, "offset"), "offset of a task");
    json_array_foreach(json_object_get(json, "header"), i, value) {
        EXPECT_MSG(i < ENGINE_HEADER_WORDS, "%s:%d: a header of more than %d words", p->path, p->line,
                   ENGINE_HEADER_WORDS);
        t->header[t->header_words++] = oracle_hex(p, value, "header");
    }
    json_array_foreach(json_object_get(json, "records"), i, value) oracle_record(p, json_string_value(value), t);
    json_object_foreach(json_object_get(json, "words"), key, value) {
        uint32_t address = (uint32_t)strtoul(key, NULL, 16);
        EXPECT_MSG(engine_index(address) >= 0, "%s:%d: there is no register '%s'", p->path, p->line, key);
        engine_set(t, address, oracle_hex(p, value, key));
    }
}

/* Reads tasks of H14 from a text's words; the arena is freed with the line. */
static void oracle_text(const oracle_place *p, const char *words, oracle *o, arena *a) {
    propane_error err = {0};
    size_t length = strlen(words), count = 0;
    uint8_t *bytes = mem_alloc(4 * (length / 2 + 1));
    for (char *end; *words; words = end + (*end == ' ')) {
        bytes_put_u32(bytes + 4 * count++, (uint32_t)strtoul(words, &end, 16));
        EXPECT_MSG(end != words && (*end == ' ' || !*end), "%s:%d: '%.20s' is no word", p->path, p->line, words);
    }
    EXPECT_MSG(engine_h14_read(bytes, 4 * count, a, &o->tasks, &o->task_count, &err) == PROPANE_OK, "%s:%d: %s",
               p->path, p->line, err.text);
    o->subtype = ENGINE_H14;
    mem_free(bytes);
}

static void oracle_tasks(const oracle_place *p, const json_t *tasks, oracle *o, arena *a) {
    o->task_count = (int)json_array_size(tasks);
    o->tasks = ARENA_ARRAY(a, o->task_count, engine_task);
    for (int i = 0; i < o->task_count; i++) oracle_task(p, json_array_get(tasks, (size_t)i), &o->tasks[i]);
}

static void oracle_line(const oracle_place *p, const char *line, void (*visit)(const oracle *o, void *context),
                        void *context) {
    oracle o = {0};
    propane_error err = {0};
    char where[1100];
    snprintf(where, sizeof where, "%s:%d", p->path, p->line);
    EXPECT_OK(json_parse(line, strlen(line), where, &o.json, &err));
    o.id = json_string_value(json_object_get(o.json, "id"));
    const json_t *tasks = json_object_get(o.json, "tasks");
    const char *words = json_string_value(json_object_get(o.json, "text"));
    arena *a = arena_create();
    EXPECT_MSG(o.id && json_string_value(json_object_get(json_object_get(o.json, "mil"), "op")) &&
                   (words || json_array_size(tasks)),
               "%s: a program has \"id\", \"mil\" with \"op\", and \"tasks\" or \"text\"", where);
    if (words)
        oracle_text(p, words, &o, a);
    else
        oracle_tasks(p, tasks, &o, a);
    o.text_sha256 = json_string_value(json_object_get(o.json, "text_sha256"));
    o.text_bytes = (size_t)json_integer_value(json_object_get(o.json, "text_bytes"));
    visit(&o, context);
    arena_free(a);
    json_decref(o.json);
}

int oracle_each_of(const char *path, void (*visit)(const oracle *o, void *context), void *context) {
    propane_error err = {0};
    oracle_place place = {path, 0};
    char *data = NULL;
    size_t length = 0;
    int count = 0;
    EXPECT_OK(file_read(path, 1u << 26, &data, &length, &err));
    for (char *line = data, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        place.line++;
        if (!*line) continue;
        oracle_line(&place, line, visit, context);
        count++;
    }
    mem_free(data);
    return count;
}

int oracle_each(const char *name, void (*visit)(const oracle *o, void *context), void *context) {
    const char *path = test_data(name);
    return path ? oracle_each_of(path, visit, context) : -1;
}
