/* SPDX-License-Identifier: MIT
 * Reads .hwx files: Mach-O load commands after a header with the magic 0xbeefface. Extracts sections, surfaces, text
 * and constants. A surface combines a tensor descriptor with an entry of the program descriptor's list of resources.
 * Entry i of that list belongs to base register 4 + i on H13, and to base register i on H14. Sizes and offsets are
 * checked against the file. Commands that execution does not need are skipped.
 */
#include <string.h>

#include "ane/h13/object.h"
#include "core/base/bytes.h"

enum {
    HEADER_BYTES = 32,
    SEGMENT_BYTES = 72,
    SECTION_BYTES = 80,
    COMMAND_SEGMENT = 0x19,
    COMMAND_SURFACE_OLD = 0x06,
    COMMAND_SURFACE = 0x40,
    COMMAND_DESCRIPTOR = 0x04,
    COMMAND_COMPILER = 0x08,
    KIND_PROGRAM = 1,
    KIND_PROGRAM_H14 = 4,
    KIND_TENSOR = 3,
    PROGRAM_BYTES = 0x860,
    TENSOR_BYTES = 0x88,
    RESOURCES = 252, /* entries in the program descriptor, from +0x30 to +0x810 */
    COMMANDS_MAX = 4096,
    SURFACES_MAX = 1024, /* far more than base registers; limits the pairs of names that are compared */
    NAME_MAX_BYTES = 1024
};

typedef struct hwx_reader {
    const uint8_t *data;
    size_t bytes;
    engine_object *o;
    const uint8_t *program; /* the program descriptor */
    int names;              /* number of surface names read so far */
    struct hwx_name {
        const char *name;
        uint64_t address;
    } *name;
} hwx_reader;

static propane_status hwx_sections(hwx_reader *r, const uint8_t *command, uint32_t size, int index,
                                   propane_error *err) {
    engine_object *o = r->o;
    uint32_t sections = size >= SEGMENT_BYTES ? bytes_u32(command + 64) : 0;
    if (size < SEGMENT_BYTES || sections > (size - SEGMENT_BYTES) / SECTION_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: load command %d: a segment of %u bytes cannot hold %u sections", o->source, index,
                            size, sections);
    for (uint32_t i = 0; i < sections; i++) {
        const uint8_t *s = command + SEGMENT_BYTES + (size_t)i * SECTION_BYTES;
        engine_section *to = &o->sections[o->section_count++];
        memcpy(to->name, s, 16);
        memcpy(to->segment, s + 16, 16);
        to->address = bytes_u64(s + 32);
        to->bytes = bytes_u64(s + 40);
        to->offset = bytes_u32(s + 48);
        if (to->offset && (to->offset > r->bytes || to->bytes > r->bytes - to->offset))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: section %s,%s: 0x%llx bytes at 0x%llx, but the file has 0x%zx", o->source,
                                to->segment, to->name, (unsigned long long)to->bytes, (unsigned long long)to->offset,
                                r->bytes);
    }
    return PROPANE_OK;
}

/* Copies the string at `offset` of a command. The string must end within the command, or with the command if fewer than
 * 256 bytes are left. */
static propane_status hwx_string(hwx_reader *r, const uint8_t *command, uint32_t size, uint32_t offset, int index,
                                 const char **out, propane_error *err) {
    const uint8_t *end = offset < size ? memchr(command + offset, 0, size - offset) : NULL;
    size_t length = end ? (size_t)(end - command) - offset : 0;
    if (offset < size && !end && size - offset < 256)
        length = size - offset, end = command + size; /* the zero padding was cut off */
    if (!end)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: load command %d: its name at 0x%x does not end within its 0x%x bytes", r->o->source,
                            index, offset, size);
    if (length > NAME_MAX_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: load command %d: a name of %zu bytes; the maximum is %d",
                            r->o->source, index, length, NAME_MAX_BYTES);
    *out = arena_string_n(r->o->arena, (const char *)command + offset, length);
    return *out ? PROPANE_OK : propane_fail_memory(err, length);
}

static propane_status hwx_name(hwx_reader *r, const uint8_t *command, uint32_t size, bool newer, int index,
                               propane_error *err) {
    if (size < (newer ? 24u : 20u))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: load command %d: %u bytes are too few for a surface's name",
                            r->o->source, index, size);
    struct hwx_name *n = &r->name[r->names++];
    r->o->newer |= newer;
    n->address = newer ? bytes_u64(command + 16) : bytes_u32(command + 16);
    return hwx_string(r, command, size, bytes_u32(command + 8), index, &n->name, err);
}

static propane_status hwx_tensor(hwx_reader *r, const uint8_t *command, uint32_t size, int index, propane_error *err) {
    engine_object *o = r->o;
    engine_surface *s = &o->surfaces[o->surface_count++];
    if (size < TENSOR_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: load command %d: a tensor descriptor of %u bytes instead of %d", o->source, index,
                            size, TENSOR_BYTES);
    if (bytes_u32(command + 0x24) != 5)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: load command %d: unknown element type %u; only 5 (fp16) is supported", o->source,
                            index, bytes_u32(command + 0x24));
    *s = (engine_surface){.bar = -1, .output = bytes_u32(command + 0x14) == 2};
    s->n = bytes_u32(command + 0x28), s->c = bytes_u32(command + 0x2c);
    s->h = bytes_u32(command + 0x30), s->w = bytes_u32(command + 0x34);
    s->batch = bytes_u64(command + 0x50), s->plane = bytes_u64(command + 0x58), s->row = bytes_u64(command + 0x60);
    s->bytes = bytes_u64(command + 0x70);
    return hwx_string(r, command, size, bytes_u32(command + 0x20), index, &s->name, err);
}

static propane_status hwx_command(hwx_reader *r, const uint8_t *command, uint32_t kind, uint32_t size, int index,
                                  propane_error *err) {
    if (kind == COMMAND_SEGMENT) return hwx_sections(r, command, size, index, err);
    if (kind == COMMAND_SURFACE || kind == COMMAND_SURFACE_OLD)
        return hwx_name(r, command, size, kind == COMMAND_SURFACE, index, err);
    uint32_t descriptor = kind == COMMAND_DESCRIPTOR && size >= 12 ? bytes_u32(command + 8) : 0;
    if (descriptor == KIND_TENSOR) return hwx_tensor(r, command, size, index, err);
    if (descriptor == KIND_PROGRAM || descriptor == KIND_PROGRAM_H14) {
        if (r->program || size < PROGRAM_BYTES)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: load command %d: a second program, or a descriptor of %u bytes (at least %d)",
                                r->o->source, index, size, PROGRAM_BYTES);
        r->program = command;
    }
    if (kind == COMMAND_COMPILER && size > 8) {
        size_t length = strnlen((const char *)command + 8, size - 8);
        r->o->compiler = arena_string_n(r->o->arena, (const char *)command + 8, length);
        if (!r->o->compiler) return propane_fail_memory(err, length);
    }
    return PROPANE_OK;
}

static propane_status hwx_commands(hwx_reader *r, propane_error *err) {
    uint32_t count = bytes_u32(r->data + 16), total = bytes_u32(r->data + 20);
    if (count > COMMANDS_MAX || total > r->bytes - HEADER_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %u load commands in 0x%x bytes; the file has 0x%zx, and the maximum is %d commands",
                            r->o->source, count, total, r->bytes, COMMANDS_MAX);
    r->o->sections = ARENA_ARRAY(r->o->arena, total / SECTION_BYTES + 1, engine_section);
    r->o->surfaces = ARENA_ARRAY(r->o->arena, count + 1, engine_surface);
    r->name = ARENA_ARRAY(r->o->arena, count + 1, struct hwx_name);
    if (!r->o->sections || !r->o->surfaces || !r->name) return propane_fail_memory(err, total);
    size_t at = HEADER_BYTES, end = HEADER_BYTES + total;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = end - at >= 8 ? bytes_u32(r->data + at + 4) : 0;
        if (size < 8 || size > end - at)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: load command %u at 0x%zx: it has 0x%x bytes, but only 0x%zx are left",
                                r->o->source, i, at, size, end - at);
        PROPANE_TRY(hwx_command(r, r->data + at, bytes_u32(r->data + at), size, (int)i, err));
        at += size;
    }
    return PROPANE_OK;
}

/* Finds the address of each surface by its name, and its base register by that address in the list of resources. */
static propane_status hwx_bars(hwx_reader *r, propane_error *err) {
    int first = bytes_u32(r->program + 8) == KIND_PROGRAM_H14 ? ENGINE_BAR_SURFACES : 0; /* base register 4 */
    for (int i = 0; i < r->o->surface_count; i++) {
        engine_surface *s = &r->o->surfaces[i];
        const struct hwx_name *n = r->name;
        while (n < r->name + r->names && strcmp(n->name, s->name) != 0) n++;
        if (n == r->name + r->names)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: the tensor '%s' has no address", r->o->source, s->name);
        s->address = n->address;
        for (int k = 0; k < RESOURCES && s->bar < 0 && k < ENGINE_BARS - ENGINE_BAR_SURFACES; k++)
            if (s->address && bytes_u64(r->program + 0x30 + 8 * (k + first)) == s->address)
                s->bar = ENGINE_BAR_SURFACES + k;
    }
    return PROPANE_OK;
}

static propane_status hwx_copy(hwx_reader *r, const engine_section *s, const uint8_t **out, uint64_t *bytes,
                               uint64_t *address, propane_error *err) {
    if (*out)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: section %s,%s occurs twice", r->o->source, s->segment,
                            s->name);
    *out = arena_copy(r->o->arena, r->data + s->offset, (size_t)s->bytes);
    *bytes = s->bytes;
    *address = s->address;
    return *out ? PROPANE_OK : propane_fail_memory(err, (size_t)s->bytes);
}

propane_status engine_hwx_parse(const uint8_t *data, size_t bytes, engine_object *o, propane_error *err) {
    hwx_reader r = {.data = data, .bytes = bytes, .o = o};
    if (bytes < HEADER_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file has %zu bytes, but a header has %d", o->source,
                            bytes, HEADER_BYTES);
    o->subtype = bytes_u32(data + 8);
    if (!engine_generation(o->subtype, NULL))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: a program of an unknown generation (subtype %u)",
                            o->source, o->subtype);
    PROPANE_TRY(hwx_commands(&r, err));
    if (!r.program) return propane_fail(err, PROPANE_ERR_INVALID, "%s: there is no program descriptor", o->source);
    if (o->surface_count > SURFACES_MAX || r.names > SURFACES_MAX)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %d surfaces and %d names of surfaces; the maximum is %d each", o->source,
                            o->surface_count, r.names, SURFACES_MAX);
    PROPANE_TRY(hwx_bars(&r, err));
    uint32_t first = bytes_u32(r.program + 0x818);
    o->first_words = first < ENGINE_TASK_WORDS ? (int)first + 1 : 0;
    for (int i = 0; i < o->section_count; i++) {
        const engine_section *s = &o->sections[i];
        if (strcmp(s->segment, "__DATA") == 0 && strcmp(s->name, "__bss") == 0) o->scratch_bytes = s->bytes;
        if (strcmp(s->segment, "__TEXT") != 0 || !s->offset) continue;
        if (strcmp(s->name, "__text") == 0)
            PROPANE_TRY(hwx_copy(&r, s, &o->text, &o->text_bytes, &o->text_address, err));
        else if (strcmp(s->name, "__const") == 0)
            PROPANE_TRY(hwx_copy(&r, s, &o->constants, &o->constant_bytes, &o->constant_address, err));
    }
    if (!o->text) return propane_fail(err, PROPANE_ERR_INVALID, "%s: there is no section __TEXT,__text", o->source);
    return PROPANE_OK;
}
