/* SPDX-License-Identifier: MIT
 * Describes a compiled program in words: what each task computes, and the buffers it reads and writes. Bits that no row
 * of h13.def names are printed as unknown.
 */
#include "ane/h13/describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ane/h13/later.h"
#include "core/base/float16.h"

static const char *describe_buffer(char out[80], const engine_object *o, int bar) {
    const engine_surface *s = engine_object_bar(o, bar);
    if (s)
        snprintf(out, 80, "%.60s", s->name);
    else if (bar == ENGINE_BAR_CONSTANTS)
        snprintf(out, 80, "constants");
    else if (bar == 2 || bar == ENGINE_BAR_SCRATCH)
        snprintf(out, 80, "scratch %d", bar);
    else
        snprintf(out, 80, "base register %d", bar);
    return out;
}

static void describe_source(const engine_object *o, const engine_task *t, bool second, text *out) {
    char name[80];
    uint32_t base = second ? 0x1381c : 0x13808, l2 = second ? 0x481c : 0x4808;
    bool dma = second ? engine_get_bits(t, 0x34, 1, 1) : engine_get_bits(t, 0x4804, 0, 2) != 0;
    if (!dma) {
        text_printf(out, "on-chip 0x%x", engine_get(t, l2));
        return;
    }
    text_append(out, describe_buffer(name, o, (int)engine_head(t, 8, second ? 6 : 0, 5)));
    if (engine_get(t, base)) text_printf(out, " + 0x%x", engine_get(t, base));
}

static void describe_planar(const engine_object *o, const engine_task *t, text *out) {
    static const char *const operations[8] = {"add",           "mul",         "maximum",     "minimum",
                                              "square of sum", "operation 5", "operation 6", "operation 7"};
    static const char *const pools[4] = {"sum", "average", "maximum", "minimum"};
    uint32_t cfg = engine_get(t, 0x8800), mode = engine_get_bits(t, 0x34, 4, 3);
    bool negated = engine_bits(cfg, 18, 1), reduces = mode == 5 || mode == 6;
    if (reduces) text_printf(out, "%s over the plane of ", pools[engine_bits(cfg, 0, 2)]);
    if (engine_bits(cfg, 6, 4) == 1) text_append(out, "absolute value of ");
    if (engine_bits(cfg, 19, 1)) {
        const char *name = operations[engine_bits(cfg, 2, 3)];
        text_printf(out, "%s of ", negated && engine_bits(cfg, 2, 3) == 0 ? "difference" : name);
        if (engine_bits(cfg, 16, 1)) text_append(out, "-");
        describe_source(o, t, false, out);
        text_append(out, mode == 4 ? " and the pair at " : " and ");
        describe_source(o, t, true, out);
    } else {
        if (!reduces && engine_bits(cfg, 6, 4) == 0) text_append(out, "copy of ");
        describe_source(o, t, false, out);
    }
    float scale = fp16_to_f32((uint16_t)engine_get_bits(t, 0x8804, 16, 16)), final;
    float bias = fp16_to_f32((uint16_t)engine_get_bits(t, 0x8804, 0, 16));
    uint32_t bits = engine_get(t, 0x880c);
    memcpy(&final, &bits, sizeof final);
    if (scale != 1) text_printf(out, ", times %g", (double)scale);
    if (bias != 0) text_printf(out, ", plus %g", (double)bias);
    if (final != 1) text_printf(out, ", times %g", (double) final);
    if (engine_bits(cfg, 12, 2) == 1) text_append(out, ", reciprocal");
    if (engine_bits(cfg, 12, 2) == 2) text_append(out, ", reciprocal square root");
    if (engine_bits(cfg, 5, 1)) text_append(out, ", clamped at 0");
}

static void describe_neural(const engine_object *o, const engine_task *t, text *out) {
    char name[80];
    uint32_t mode = engine_get_bits(t, 0xc804, 0, 4), conv = engine_get(t, 0x1c);
    const uint32_t groups = engine_get_bits(t, 0x24, 0, 13);
    if (mode == 0) {
        bool depthwise = engine_get_bits(t, 0x24, 14, 1), computed = engine_get_bits(t, 0xc800, 16, 1);
        text_printf(out, "%s%ux%u convolution", depthwise ? "depthwise " : "", engine_bits(conv, 0, 5),
                    engine_bits(conv, 5, 5));
        if (groups > 1) text_printf(out, " in %u groups", groups);
        if (engine_bits(conv, 13, 2) != 1) text_printf(out, ", stride %u", engine_bits(conv, 13, 2));
        text_append(out, " of ");
        describe_source(o, t, false, out);
        text_printf(out, " with %s %s", computed ? "computed kernel" : "kernel",
                    describe_buffer(name, o, (int)engine_head(t, 9, 0, 5)));
        if (engine_get_bits(t, 0xc804, 4, 1)) text_append(out, " and bias");
    } else {
        text_append(out, mode == 11 ? "maximum over channels of " : "copy of ");
        describe_source(o, t, false, out);
    }
    float scale = fp16_to_f32((uint16_t)engine_get_bits(t, 0xc810, 0, 16));
    if (scale != 1) text_printf(out, ", times %g", (double)scale);
    if (mode == 8) text_printf(out, ", plus %g", (double)fp16_to_f32((uint16_t)engine_get_bits(t, 0xc80c, 0, 16)));
    if (engine_get_bits(t, 0xc804, 16, 2) == 1) text_append(out, ", ReLU");
    if (engine_get_bits(t, 0xc804, 16, 2) == 2) text_append(out, ", table");
    if (engine_get_bits(t, 0x34, 28, 1)) text_append(out, ", channels and width exchanged");
}

void engine_describe_task(const engine_object *o, const engine_task *t, text *out) {
    char name[80];
    bool neural = engine_get_bits(t, 0x38, 20, 1);
    text_printf(out, "task %u, %s engine: ", engine_head(t, 0, 0, 16), neural ? "neural" : "planar");
    if (neural)
        describe_neural(o, t, out);
    else
        describe_planar(o, t, out);
    text_printf(out, "; [%u, %u, %u", engine_get(t, 0xc), engine_get_bits(t, 0, 16, 15), engine_get_bits(t, 0, 0, 15));
    if (engine_get(t, 4) != 1) text_printf(out, ", depth %u", engine_get(t, 4));
    text_append(out, "] to ");
    if (engine_get_bits(t, 0x17800, 0, 1)) {
        text_append(out, describe_buffer(name, o, (int)engine_head(t, 8, 12, 5)));
        if (engine_get(t, 0x17804)) text_printf(out, " + 0x%x", engine_get(t, 0x17804));
    } else
        text_printf(out, "on-chip 0x%x", engine_get(t, 0x4834));
}

/* ---- word by word -------------------------------------------------------------------------------------------------------- */

static void describe_word(bool header, uint32_t address, uint32_t value, text *out) {
    text_printf(out, "    %s%05x  %08x ", header ? "w" : "0x", header ? address / 4 : address, value);
    for (const engine_field *f = NULL; (f = engine_field_next(header, address, f));) {
        uint32_t part = engine_bits(value, f->low, f->bits);
        if (f->times > 1)
            text_printf(out, " %s[%u]=%s%x", f->name, (address - f->address) / 4, part > 9 ? "0x" : "", part);
        else
            text_printf(out, " %s=%s%x", f->name, part > 9 ? "0x" : "", part);
        if (f->mark == ENGINE_U && part) text_append(out, "(meaning unknown)");
    }
    uint32_t unknown = value & ~engine_known_bits(header, address);
    if (unknown) text_printf(out, " unknown bits 0x%x", unknown);
    text_append(out, "\n");
}

static void describe_words(const engine_task *t, text *out) {
    for (int i = 0; i < t->header_words; i++) describe_word(true, 4u * (uint32_t)i, t->header[i], out);
    for (int r = 0; r < t->record_count; r++) {
        const engine_record *record = &t->records[r];
        text_printf(out, "   record: %d registers starting at 0x%05x\n", record->count, record->address);
        for (int i = 0; i < record->count; i++)
            describe_word(false, record->address + 4u * (uint32_t)i, engine_get(t, record->address + 4u * (uint32_t)i),
                          out);
    }
}

/* ---- whole programs ---------------------------------------------------------------------------------------------------------- */

static const char *describe_role(const engine_object *o, const engine_surface *s) {
    if (!o->task_count) return s->output ? "output" : "input"; /* as the file states, because its tasks are not read */
    if (s->read && s->written) return "read and written";
    if (s->read || s->written) return s->read ? "read" : "written";
    return "not used by any task";
}

void engine_describe(const engine_object *o, bool words, text *out) {
    const char *chips = "";
    const char *name = engine_generation(o->subtype, &chips);
    text_printf(out, "%s: compiled program for %s (%s), %s\n", o->source, name, chips,
                o->anec    ? ".anec"
                : o->newer ? ".hwx of the newer compiler"
                           : ".hwx of the older compiler");
    for (int i = 0; i < o->section_count; i++)
        text_printf(out, "  section  %-10s %-8s 0x%08" PRIx64 "  0x%" PRIx64 " bytes\n", o->sections[i].segment,
                    o->sections[i].name, o->sections[i].address, o->sections[i].bytes);
    for (int i = 0; i < o->surface_count; i++) {
        const engine_surface *s = &o->surfaces[i];
        text_printf(out,
                    "  surface  %-16s base register %2d  [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
                    "] fp16, plane %" PRIu64 ", row %" PRIu64 " bytes: %s\n",
                    s->name, s->bar, s->n, s->c, s->h, s->w, s->plane, s->row, describe_role(o, s));
    }
    text_printf(out, "  text %" PRIu64 " bytes, constants %" PRIu64 ", scratch %" PRIu64 "\n", o->text_bytes,
                o->constant_bytes, o->scratch_bytes);
    if (o->subtype != ENGINE_H13) {
        bool runs = o->task_count > 0;
        text_printf(out, "  tasks of %s: frames and fields by name; they are %s%s%s\n", name,
                    runs ? "executed as those of H13" : "not executed", o->unread ? ": " : "",
                    o->unread ? o->unread : "");
        engine_later_describe(&(later_text){o->text, o->text_bytes, o->subtype}, words, out);
    }
    for (int i = 0; i < o->task_count && o->subtype == ENGINE_H13; i++) {
        text_append(out, "  ");
        engine_describe_task(o, &o->tasks[i], out);
        text_append(out, "\n");
        if (words) describe_words(&o->tasks[i], out);
    }
}
