/* SPDX-License-Identifier: MIT
 * Writes .hwx for H13 and H14 in the newer compiler's layout: scratch memory at the bottom of the address space, then
 * the surfaces by base register, then text and constants. Anything not needed to run (symbols, the compiler's notes) is
 * left out, except for a text that identifies the writer.
 */
#include <string.h>

#include "ane/h13/object.h"
#include "core/base/bytes.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

enum {
    MAGIC = (int)0xbeefface,
    HEADER_BYTES = 32,
    SEGMENT_BYTES = 72,
    SECTION_BYTES = 80,
    PROGRAM_NAMES = 0x878,
    PROGRAM_NAMES_H14 = 0x888,
    TENSOR_NAMES = 0xd38,
    VM_BASE = 0x30000000,
    RELOCATION = 0x05000002 /* a word to which the address of __const is added */
};

static const char hwx_identity[] = "ANEC v1\npropane\n\t-t h13\n", hwx_identity_h14[] = "ANEC v1\npropane\n\t-t h14\n";

typedef struct hwx_writer {
    const engine_object *o;
    uint8_t *data; /* NULL to only count lengths */
    size_t at;
    uint64_t address[ENGINE_BARS]; /* of surfaces, by base register */
    uint64_t text_address;
    size_t text_offset, relocations_at;
    uint32_t relocations, commands;
} hwx_writer;

static uint8_t *hwx_command(hwx_writer *w, uint32_t kind, size_t bytes) {
    static uint8_t nowhere[0x2000];
    uint8_t *at = w->data ? w->data + w->at : nowhere;
    bytes_put_u32(at, kind);
    bytes_put_u32(at + 4, (uint32_t)bytes);
    w->at += bytes;
    w->commands++;
    return at;
}

typedef struct hwx_part {
    const char *name;
    uint64_t address, bytes;
    size_t offset;
    uint32_t align, flags, relocations;
} hwx_part;

static void hwx_segment(hwx_writer *w, const char *name, uint64_t address, uint64_t bytes, uint32_t protection,
                        uint32_t flags, const hwx_part *parts, int count) {
    uint8_t *s = hwx_command(w, 0x19, SEGMENT_BYTES + SECTION_BYTES * (size_t)count);
    bool in_file = count && parts[0].offset;
    memcpy(s + 8, name, strlen(name));
    bytes_put_u64(s + 24, address);
    bytes_put_u64(s + 32, bytes);
    bytes_put_u64(s + 40, in_file ? parts[0].offset : 0);
    bytes_put_u64(s + 48, in_file ? bytes : 0);
    bytes_put_u32(s + 56, protection);
    bytes_put_u32(s + 60, protection);
    bytes_put_u32(s + 64, (uint32_t)count);
    bytes_put_u32(s + 68, flags);
    for (int i = 0; i < count; i++) {
        uint8_t *p = s + SEGMENT_BYTES + SECTION_BYTES * (size_t)i;
        memcpy(p, parts[i].name, strlen(parts[i].name));
        memcpy(p + 16, name, strlen(name));
        bytes_put_u64(p + 32, parts[i].address);
        bytes_put_u64(p + 40, parts[i].bytes);
        bytes_put_u32(p + 48, (uint32_t)parts[i].offset);
        bytes_put_u32(p + 52, parts[i].align);
        bytes_put_u32(p + 56, parts[i].relocations ? (uint32_t)w->relocations_at : 0);
        bytes_put_u32(p + 60, parts[i].relocations);
        bytes_put_u32(p + 64, parts[i].flags | (parts[i].relocations ? 0x100 : 0));
    }
}

static uint64_t hwx_surface_bytes(const engine_surface *s) { return (uint64_t)s->n * s->bytes; }

/* Assigns addresses to the surfaces, in the order of base registers, and to the text. Counts the relocations. */
static void hwx_place(hwx_writer *w) {
    uint64_t at = VM_BASE + (uint64_t)round_up((int64_t)w->o->scratch_bytes, ENGINE_PAGE);
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++) {
        const engine_surface *s = engine_object_bar(w->o, bar);
        if (!s) continue;
        w->address[bar] = at;
        at += (uint64_t)round_up((int64_t)hwx_surface_bytes(s), ENGINE_PAGE);
    }
    w->text_address = at;
    /* H14's addresses are relative to a base register and need no relocation */
    for (int i = 0; i < w->o->task_count && w->o->subtype == ENGINE_H13; i++)
        if (engine_head(&w->o->tasks[i], 9, 0, 6) == (0x20 | ENGINE_BAR_CONSTANTS))
            for (uint32_t lane = 0; lane < ENGINE_LANES; lane++)
                w->relocations += engine_get_bits(&w->o->tasks[i], 0x1f808 + 4 * lane, 0, 1);
}

static void hwx_segments(hwx_writer *w) {
    const engine_object *o = w->o;
    uint64_t constants = engine_object_constants_at(o), total = constants + o->constant_bytes;
    hwx_segment(w, "__PAGEZERO", 0, ENGINE_PAGE, 0, 4, NULL, 0);
    if (o->scratch_bytes) {
        hwx_part bss = {"__bss", VM_BASE, o->scratch_bytes, 0, 14, 1, 0};
        hwx_segment(w, "__DATA", VM_BASE, (uint64_t)round_up((int64_t)o->scratch_bytes, ENGINE_PAGE), 3, 6, &bss, 1);
    }
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++) {
        const engine_surface *s = engine_object_bar(o, bar);
        if (!s) continue;
        hwx_part part = {
            s->output ? "__data" : "__const", w->address[bar], hwx_surface_bytes(s), 0, 14, s->output ? 0x23 : 0x21, 0};
        hwx_segment(w, "__FVMLIB", w->address[bar], (uint64_t)round_up((int64_t)part.bytes, ENGINE_PAGE),
                    s->output ? 2 : 1, 6, &part, 1);
    }
    hwx_part parts[2] = {
        {"__text", w->text_address, o->text_bytes, w->text_offset, 14, 0x28, w->relocations},
        {"__const", w->text_address + constants, o->constant_bytes, w->text_offset + (size_t)constants, 6, 0x26, 0}};
    hwx_segment(w, "__TEXT", w->text_address, (uint64_t)round_up((int64_t)total, ENGINE_PAGE), 5, 0, parts, 2);
}

static const char *hwx_function(const hwx_writer *w) { return w->o->subtype == ENGINE_H14 ? "main" : "net"; }

/* Counts the event bits in the headers of all tasks, plus one per task. */
static uint32_t hwx_events(const engine_object *o) {
    uint32_t count = 0;
    for (int i = 0; i < o->task_count; i++, count++)
        for (uint32_t bits = o->tasks[i].header[4]; bits; bits &= bits - 1) count++;
    return count;
}

static uint32_t hwx_longest(const engine_object *o) {
    uint32_t most = 0;
    for (int i = 0; i < o->task_count; i++)
        if (engine_head(&o->tasks[i], 1, 0, 16) > most) most = engine_head(&o->tasks[i], 1, 0, 16);
    return most;
}

/* Writes the program descriptor for H14 [joshuaswarren/mil-hwx-compiler research/oracles/h14, program_descriptor].
 * Inferred: +0x858 is the size of scratch memory, +0x860 the result of hwx_events, and +0x880 the longest estimate of a
 * task. Also inferred: entry i of the resources belongs to base register i. The published records show five entries,
 * with scratch memory at 2 and the first surface at 4. */
static void hwx_program_h14(hwx_writer *w) {
    const engine_object *o = w->o;
    uint8_t *p = hwx_command(w, 4, PROGRAM_NAMES_H14 + 8);
    bytes_put_u32(p + 0x08, 4);
    bytes_put_u32(p + 0x0c, (PROGRAM_NAMES_H14 - 0x10) / 4);
    bytes_put_u64(p + 0x10, w->text_address);
    bytes_put_u64(p + 0x18, w->text_address + engine_object_constants_at(o));
    if (o->scratch_bytes) bytes_put_u64(p + 0x30 + 8 * 2, VM_BASE);
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++) bytes_put_u64(p + 0x30 + 8 * bar, w->address[bar]);
    bytes_put_u64(p + 0x810, w->text_address);
    const uint32_t words[][2] = {{0x820, 4},
                                 {0x824, (uint32_t)(o->text_bytes / 4)},
                                 {0x830, (uint32_t)o->task_count},
                                 {0x838, 0xffffffff},
                                 {0x83c, 0xffffffff},
                                 {0x844, 0xffff},
                                 {0x848, PROGRAM_NAMES_H14},
                                 {0x858, (uint32_t)o->scratch_bytes},
                                 {0x860, hwx_events(o)},
                                 {0x868, 3},
                                 {0x870, 1},
                                 {0x878, 9},
                                 {0x87c, 8},
                                 {0x880, hwx_longest(o)}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) bytes_put_u32(p + words[i][0], words[i][1]);
    if (w->data) memcpy(p + PROGRAM_NAMES_H14, hwx_function(w), 5);
}

static void hwx_program(hwx_writer *w) {
    const engine_object *o = w->o;
    uint8_t *p = hwx_command(w, 4, PROGRAM_NAMES + 8);
    bytes_put_u32(p + 0x08, 1);
    bytes_put_u32(p + 0x0c, (PROGRAM_NAMES - 0x10) / 4);
    bytes_put_u64(p + 0x10, w->text_address);
    bytes_put_u64(p + 0x18, w->text_address + engine_object_constants_at(o));
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++)
        bytes_put_u64(p + 0x30 + 8 * (bar - ENGINE_BAR_SURFACES), w->address[bar]);
    bytes_put_u64(p + 0x810, w->text_address);
    bytes_put_u32(p + 0x818, (uint32_t)engine_task_words(&o->tasks[0]) - 1);
    bytes_put_u32(p + 0x81c, (uint32_t)o->task_count);
    bytes_put_u32(p + 0x824, 0xffff);
    bytes_put_u32(p + 0x83c, PROGRAM_NAMES);
    static const uint32_t kept[][2] = {{0x850, 0x11}, {0x858, 4}, {0x860, 1}, {0x868, 9}, {0x86c, 8}};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) bytes_put_u32(p + kept[i][0], kept[i][1]);
    if (w->data) memcpy(p + PROGRAM_NAMES, "net", 4);
}

static void hwx_tensor(hwx_writer *w, const engine_surface *s) {
    size_t length = strlen(s->name) + 1, function = strlen(hwx_function(w)) + 1, names = TENSOR_NAMES + function;
    uint8_t *p = hwx_command(w, 4, TENSOR_NAMES + (size_t)round_up((int64_t)(function + 2 * length), 8));
    bytes_put_u32(p + 0x08, 3);
    bytes_put_u32(p + 0x0c, (TENSOR_NAMES - 0x10) / 4);
    bytes_put_u32(p + 0x10, 3);
    bytes_put_u32(p + 0x14, s->output ? 2 : 1);
    bytes_put_u32(p + 0x18, TENSOR_NAMES);
    bytes_put_u32(p + 0x20, (uint32_t)names);
    bytes_put_u32(p + 0x24, 5);
    const int64_t dims[5] = {s->n, s->c, s->h, s->w, 1};
    for (int i = 0; i < 5; i++) bytes_put_u32(p + 0x28 + 4 * i, (uint32_t)dims[i]);
    bytes_put_u64(p + 0x50, s->batch);
    bytes_put_u64(p + 0x58, s->plane);
    bytes_put_u64(p + 0x60, s->row);
    bytes_put_u64(p + 0x68, 2);
    bytes_put_u64(p + 0x70, s->bytes);
    bytes_put_u32(p + 0x78, 1);
    bytes_put_u32(p + 0x7c, (uint32_t)(names + length));
    bytes_put_u64(p + 0x80, s->bytes);
    if (!w->data) return;
    memcpy(p + TENSOR_NAMES, hwx_function(w), function);
    memcpy(p + names, s->name, length);
    memcpy(p + names + length, s->name, length);
}

static void hwx_commands(hwx_writer *w) {
    const engine_object *o = w->o;
    w->at = HEADER_BYTES;
    w->commands = 0;
    hwx_segments(w);
    for (int i = 0; i < o->surface_count; i++) {
        const engine_surface *s = &o->surfaces[i];
        uint8_t *p = hwx_command(w, 0x40, (size_t)round_up((int64_t)(0x18 + strlen(s->name) + 1), 8));
        bytes_put_u32(p + 8, 0x18);
        bytes_put_u64(p + 0x10, w->address[s->bar]);
        if (w->data) memcpy(p + 0x18, s->name, strlen(s->name) + 1);
    }
    if (o->subtype == ENGINE_H14)
        hwx_program_h14(w);
    else
        hwx_program(w);
    for (int output = 0; output < 2; output++)
        for (int i = 0; i < o->surface_count; i++)
            if (o->surfaces[i].output == output) hwx_tensor(w, &o->surfaces[i]);
    const char *identity = o->subtype == ENGINE_H14 ? hwx_identity_h14 : hwx_identity;
    uint8_t *p = hwx_command(w, 8, 8 + (size_t)round_up(sizeof hwx_identity, 8));
    if (w->data) memcpy(p + 8, identity, sizeof hwx_identity);
}

/* Writes a relocation for each lane's base word that points into the constants. */
static void hwx_relocations(hwx_writer *w) {
    uint8_t *out = w->data + w->relocations_at;
    for (int i = 0; i < w->o->task_count && w->o->subtype == ENGINE_H13; i++) {
        const engine_task *t = &w->o->tasks[i];
        if (engine_head(t, 9, 0, 6) != (0x20 | ENGINE_BAR_CONSTANTS)) continue;
        uint32_t at = t->offset + 4 * (uint32_t)t->header_words;
        for (int r = 0; r < t->record_count; r++) {
            const engine_record *record = &t->records[r];
            for (uint32_t lane = 0; lane < ENGINE_LANES; lane++) {
                uint32_t word = 0x1f848 + 4 * lane;
                if (word < record->address || word >= record->address + 4 * (uint32_t)record->count) continue;
                if (!engine_get_bits(t, 0x1f808 + 4 * lane, 0, 1)) continue;
                bytes_put_u32(out, at + 4 + word - record->address);
                bytes_put_u32(out + 4, RELOCATION);
                out += 8;
            }
            at += 4 + 4 * (uint32_t)record->count;
        }
    }
}

propane_status engine_hwx_write(const engine_object *o, uint8_t **out, size_t *bytes, propane_error *err) {
    hwx_writer w = {.o = o};
    hwx_place(&w);
    hwx_commands(&w);
    w.relocations_at = w.at;
    w.text_offset = (size_t)round_up((int64_t)(w.at + 8 * (size_t)w.relocations), ENGINE_PAGE);
    size_t total = (size_t)engine_object_constants_at(o) + (size_t)o->constant_bytes;
    *bytes = w.text_offset + (size_t)round_up((int64_t)total, ENGINE_PAGE);
    if (!(*out = w.data = mem_alloc(*bytes))) return propane_fail_memory(err, *bytes);
    hwx_commands(&w);
    const uint32_t header[8] = {(uint32_t)MAGIC, 0x80, o->subtype, 2, w.commands, (uint32_t)(w.at - HEADER_BYTES),
                                0x00200000,      0};
    for (int i = 0; i < 8; i++) bytes_put_u32(w.data + 4 * i, header[i]);
    hwx_relocations(&w);
    memcpy(w.data + w.text_offset, o->text, (size_t)o->text_bytes);
    memcpy(w.data + w.text_offset + engine_object_constants_at(o), o->constants, (size_t)o->constant_bytes);
    return PROPANE_OK;
}
