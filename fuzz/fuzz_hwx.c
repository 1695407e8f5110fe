/* SPDX-License-Identifier: MIT
 * Compiled programs, .hwx and .anec: an accepted file can be described in words and as JSON. Its tasks encode to the
 * text that they came from; those of H14, which are read in the form of H13, encode to a text that means the same
 * tasks.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ane/h13/describe.h"
#include "ane/h13/h14.h"
#include "core/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_text(const engine_object *o) {
    size_t bytes = engine_stream_bytes(o->tasks, o->task_count);
    uint8_t *again = mem_alloc(bytes);
    if (bytes > o->text_bytes) abort();
    engine_stream_write(o->tasks, o->task_count, again);
    if (memcmp(again, o->text, bytes) != 0) abort();
    mem_free(again);
}

static void same_meaning(engine_object *o) {
    propane_error err = {0};
    const uint8_t *first, *second;
    uint64_t first_bytes, second_bytes;
    engine_task *tasks;
    int count;
    if (engine_h14_write(o->tasks, o->task_count, o->arena, &first, &first_bytes, &err)) return;
    if (engine_h14_read(first, first_bytes, o->arena, &tasks, &count, &err) || count != o->task_count) abort();
    if (engine_h14_write(tasks, count, o->arena, &second, &second_bytes, &err)) abort();
    if (first_bytes != second_bytes || memcmp(first, second, first_bytes) != 0) abort();
}

/* Compares with the same file as one of the next generation. */
static void other_generation(const engine_object *o, const uint8_t *data, size_t size, text *out) {
    enum { SUBTYPE = 8, SUBTYPES = 12 };
    propane_error err = {0};
    engine_object *next = NULL;
    uint8_t *copy = mem_alloc(size + 1);
    memcpy(copy, data, size);
    if (size > SUBTYPE) copy[SUBTYPE] = (uint8_t)((copy[SUBTYPE] + 1) % SUBTYPES);
    if (!engine_object_parse(copy, size, "fuzz", &next, &err)) engine_describe_difference(o, next, out);
    engine_object_free(next);
    mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    engine_object *o = NULL;
    propane_status status = engine_object_parse(data, size, "fuzz", &o, &err);
    if (status) {
        if (err.status != status || !err.text[0] || o) abort();
        return 0;
    }
    if (o->task_count && o->subtype == ENGINE_H14)
        same_meaning(o);
    else if (o->task_count)
        same_text(o);
    text out = {0};
    engine_describe(o, true, &out);
    engine_describe_json(o, &out);
    if (engine_describe_difference(o, o, &out)) abort();
    other_generation(o, data, size, &out);
    text_deinit(&out);
    engine_object_free(o);
    return 0;
}
