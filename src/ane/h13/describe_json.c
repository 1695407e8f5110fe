/* SPDX-License-Identifier: MIT
 * Writes a compiled program as JSON: one object with surfaces and tasks. A task has its header words, and every
 * register that it writes, by address, with the fields that are not 0. Tasks of H13 also have their description in
 * words.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "ane/h13/describe.h"
#include "ane/h13/later.h"
#include "core/base/memory.h"

static json_t *describe_json_word(bool header, uint32_t address, uint32_t value) {
    json_t *word = json_pack("{s:I}", "value", (json_int_t)value), *fields = json_object();
    for (const engine_field *f = NULL; (f = engine_field_next(header, address, f));) {
        uint32_t part = engine_bits(value, f->low, f->bits);
        if (part) json_object_set_new(fields, f->name, json_integer(part));
    }
    uint32_t unknown = value & ~engine_known_bits(header, address);
    if (unknown) json_object_set_new(fields, "unknown", json_integer(unknown));
    json_object_set_new(word, "fields", fields);
    return word;
}

static json_t *describe_json_task(const engine_object *o, const engine_task *t) {
    json_t *task = json_object(), *header = json_array(), *registers = json_object();
    text line = {0};
    char name[16];
    engine_describe_task(o, t, &line);
    json_object_set_new(task, "text", json_string(line.data ? line.data : ""));
    text_deinit(&line);
    json_object_set_new(task, "offset", json_integer(t->offset));
    json_object_set_new(task, "words", json_integer(engine_task_words(t)));
    for (int i = 0; i < t->header_words; i++)
        json_array_append_new(header, describe_json_word(true, 4u * (uint32_t)i, t->header[i]));
    json_object_set_new(task, "header", header);
    for (int i = 0; i < ENGINE_REGISTERS; i++) {
        if (!t->written[i]) continue;
        uint32_t address = engine_address(i);
        snprintf(name, sizeof name, "0x%05x", address);
        json_object_set_new(registers, name, describe_json_word(false, address, t->word[i]));
    }
    json_object_set_new(task, "registers", registers);
    return task;
}

/* State during the walk over the tasks of other generations than H13, which the rows of later.def describe. */
typedef struct describe_json_later {
    uint32_t subtype;
    json_t *tasks, *header, *registers; /* header and registers belong to the current task */
} describe_json_later;

static json_t *describe_json_named(uint32_t subtype, const later_step *s) {
    later_field list[LATER_FIELDS];
    json_t *word = json_pack("{s:I}", "value", (json_int_t)s->value), *fields = json_object();
    int count = engine_later_fields(subtype, s->part == LATER_HEADER, s->address, list);
    const uint32_t unknown = engine_later_unknown(s->value, list, count);
    for (int i = 0; i < count; i++) {
        uint32_t part = engine_bits(s->value, list[i].low, list[i].bits);
        if (part) json_object_set_new(fields, list[i].name, json_integer(part));
    }
    if (unknown) json_object_set_new(fields, "unknown", json_integer(unknown));
    json_object_set_new(word, "fields", fields);
    return word;
}

static void describe_json_step(void *context, const later_step *s) {
    describe_json_later *l = context;
    char name[16];
    if (s->part == LATER_TASK) {
        json_t *task = json_pack("{s:I, s:I}", "offset", (json_int_t)s->address, "words", (json_int_t)s->value);
        l->header = json_array(), l->registers = json_object();
        json_object_set_new(task, "header", l->header);
        json_object_set_new(task, "registers", l->registers);
        json_array_append_new(l->tasks, task);
    } else if (s->part == LATER_HEADER)
        json_array_append_new(l->header, describe_json_named(l->subtype, s));
    else if (s->part == LATER_WORD) {
        snprintf(name, sizeof name, "0x%05x", s->address);
        json_object_set_new(l->registers, name, describe_json_named(l->subtype, s));
    }
}

static json_t *describe_json_surface(const engine_surface *s) {
    return json_pack("{s:s, s:i, s:[I,I,I,I], s:I, s:I, s:b, s:b}", "name", s->name, "bar", s->bar, "shape",
                     (json_int_t)s->n, (json_int_t)s->c, (json_int_t)s->h, (json_int_t)s->w, "plane",
                     (json_int_t)s->plane, "row", (json_int_t)s->row, "read", s->read, "written", s->written);
}

void engine_describe_json(const engine_object *o, text *out) {
    json_t *root = json_object(), *surfaces = json_array(), *tasks = json_array();
    json_object_set_new(root, "generation", json_string(engine_generation(o->subtype, NULL)));
    json_object_set_new(root, "container", json_string(o->anec ? "anec" : "hwx"));
    json_object_set_new(root, "text_bytes", json_integer((json_int_t)o->text_bytes));
    json_object_set_new(root, "constant_bytes", json_integer((json_int_t)o->constant_bytes));
    json_object_set_new(root, "scratch_bytes", json_integer((json_int_t)o->scratch_bytes));
    for (int i = 0; i < o->surface_count; i++) json_array_append_new(surfaces, describe_json_surface(&o->surfaces[i]));
    for (int i = 0; i < o->task_count && o->subtype == ENGINE_H13; i++)
        json_array_append_new(tasks, describe_json_task(o, &o->tasks[i]));
    if (o->subtype != ENGINE_H13) {
        propane_error err = {0};
        describe_json_later later = {.subtype = o->subtype, .tasks = tasks};
        const later_text tasks_of = {o->text, o->text_bytes, o->subtype};
        if (engine_later_walk(&tasks_of, describe_json_step, &later, &err))
            json_object_set_new(root, "unread", json_string(err.text));
    }
    json_object_set_new(root, "surfaces", surfaces);
    json_object_set_new(root, "tasks", tasks);
    char *dump = json_dumps(root, JSON_INDENT(1));
    text_append(out, dump ? dump : "{}");
    text_append(out, "\n");
    free(dump);
    json_decref(root);
}
