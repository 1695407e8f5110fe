/* SPDX-License-Identifier: MIT
 * Compiled programs, .hwx and .anec: an accepted file can be described in words and as JSON, and its tasks encode to
 * the text that they came from.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ane/h13/describe.h"
#include "core/base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    propane_error err = {0};
    engine_object *o = NULL;
    propane_status status = engine_object_parse(data, size, "fuzz", &o, &err);
    if (status) {
        if (err.status != status || !err.text[0] || o) abort();
        return 0;
    }
    if (o->task_count) {
        size_t bytes = engine_stream_bytes(o->tasks, o->task_count);
        uint8_t *again = mem_alloc(bytes);
        if (bytes > o->text_bytes) abort();
        engine_stream_write(o->tasks, o->task_count, again);
        if (memcmp(again, o->text, bytes) != 0) abort();
        mem_free(again);
    }
    text out = {0};
    engine_describe(o, true, &out);
    engine_describe_json(o, &out);
    engine_describe_difference(o, o, &out);
    text_deinit(&out);
    engine_object_free(o);
    return 0;
}
