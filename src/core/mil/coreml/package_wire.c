/* SPDX-License-Identifier: MIT
 * Owns turning a file's bytes into messages. protobuf-c unpacks recursively and without a limit, so the bytes are
 * walked first. Every length must fit inside its message, the nesting must not be deeper than a program can need, and
 * the number of messages must not need too much memory. Refuses kinds of models that are not read (package_older.c).
 */
#include "core/mil/coreml/package_wire.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package_older.h"

enum { MAX_DEPTH = 120, MAX_MESSAGES = 8000000 };

typedef struct walk {
    const char *source;
    const uint8_t *begin;
    propane_error *err;
    int64_t messages;
} walk;

static propane_status package_wire_broken(const walk *w, const uint8_t *at, const char *what) {
    return propane_fail(w->err, PROPANE_ERR_INVALID, "%s: not a Core ML model file: byte %lld: %s", w->source,
                        (long long)(at - w->begin), what);
}

/* Reads a number in base 128, low digits first. */
static propane_status package_wire_read_number(const walk *w, const uint8_t **at, const uint8_t *end, uint64_t *out) {
    const uint8_t *first = *at;
    *out = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at == end) return package_wire_broken(w, first, "the file ends inside a number");
        uint8_t byte = *(*at)++;
        if (shift < 64) *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return PROPANE_OK;
    }
    return package_wire_broken(w, first, "a number of more than ten bytes");
}

static propane_status package_wire_walk_message(walk *w, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                                                const uint8_t *end, int depth);

/* Checks the length of a field, and walks the field if it is a message. */
static propane_status package_wire_walk_field(walk *w, const ProtobufCMessageDescriptor *type, uint64_t tag,
                                              const uint8_t **at, const uint8_t *end, int depth) {
    const uint8_t *first = *at;
    uint64_t number = 0;
    const ProtobufCFieldDescriptor *field;
    switch (tag & 7) {
    case 0: return package_wire_read_number(w, at, end, &number);
    case 1: number = 8; break;
    case 5: number = 4; break;
    case 2: PROPANE_TRY(package_wire_read_number(w, at, end, &number)); break;
    default: return package_wire_broken(w, first, "a field of an unknown kind");
    }
    if (number > (uint64_t)(end - *at))
        return package_wire_broken(w, first, "a field is longer than the message that contains it");
    first = *at;
    *at += number;
    if ((tag & 7) != 2) return PROPANE_OK;
    field = protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE) return PROPANE_OK;
    return package_wire_walk_message(w, field->descriptor, first, *at, depth + 1);
}

static propane_status package_wire_walk_message(walk *w, const ProtobufCMessageDescriptor *type, const uint8_t *at,
                                                const uint8_t *end, int depth) {
    if (depth > MAX_DEPTH) return package_wire_broken(w, at, "messages are nested deeper than a program can need");
    if (++w->messages > MAX_MESSAGES) return package_wire_broken(w, at, "more messages than a program can need");
    while (at < end) {
        const uint8_t *first = at;
        uint64_t tag = 0;
        PROPANE_TRY(package_wire_read_number(w, &at, end, &tag));
        if (tag >> 3 == 0 || tag >> 32) return package_wire_broken(w, first, "an invalid field number");
        PROPANE_TRY(package_wire_walk_field(w, type, tag, &at, end, depth));
    }
    return PROPANE_OK;
}

/* ---- kinds of models ------------------------------------------------------------------------------------------------------ */

static propane_status package_wire_refuse_kind(const Coreml__Model *model, const char *source, propane_error *err) {
    text what = {0};
    text_printf(&what, "%s: this", source);
    const propane_status status =
        what.failed ? propane_fail_memory(err, 0)
        : strcmp(package_older_name(model), "empty") == 0
            ? propane_fail(err, PROPANE_ERR_INVALID, "%s: the model file holds no program", source)
            : package_older_refuse(model, what.data, err);
    text_deinit(&what);
    return status;
}

const Coreml__Pipeline *package_wire_pipeline(const Coreml__Model *model) {
    if (model->pipeline) return model->pipeline;
    if (model->pipeline_classifier) return model->pipeline_classifier->pipeline;
    return model->pipeline_regressor ? model->pipeline_regressor->pipeline : NULL;
}

/* ---- unpacking -------------------------------------------------------------------------------------------------------------- */

static void *package_wire_take(void *context, size_t bytes) {
    void *out = mem_alloc(bytes ? bytes : 1);
    if (!out) *(bool *)context = true;
    return out;
}
static void package_wire_give(void *context, void *memory) { mem_free(memory); }

propane_status package_wire_unpack(const void *data, size_t bytes, const char *source, Coreml__Model **out,
                                   propane_error *err) {
    bool no_memory = false;
    walk w = {source, data, err, 0};
    ProtobufCAllocator allocator = {package_wire_take, package_wire_give, &no_memory};
    *out = NULL;
    if (!bytes) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file is empty", source);
    PROPANE_TRY(package_wire_walk_message(&w, &coreml__model__descriptor, data, (const uint8_t *)data + bytes, 0));
    Coreml__Model *model = coreml__model__unpack(&allocator, bytes, data);
    if (!model && no_memory) return propane_fail_memory(err, bytes);
    if (!model)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a Core ML model file: a field has the wrong kind",
                            source);
    if (!model->program && !package_wire_pipeline(model) && !package_older_known(model)) {
        const propane_status status = package_wire_refuse_kind(model, source, err);
        package_wire_free(model);
        return status;
    }
    *out = model;
    return PROPANE_OK;
}

void package_wire_free(Coreml__Model *model) {
    bool unused = false;
    ProtobufCAllocator allocator = {package_wire_take, package_wire_give, &unused};
    if (model) coreml__model__free_unpacked(model, &allocator);
}
