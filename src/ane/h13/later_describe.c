/* SPDX-License-Identifier: MIT
 * Describes tasks of H14 and later in words: sizes, base registers, dimensions if rows of later.def name them, and
 * every word by field.
 */
#include "ane/h13/later.h"

#include <stdio.h>
#include <string.h>

typedef struct later_words {
    const later_text *text;
    text *out, rows; /* `rows` are the words of the current task */
    bool words, open;
    uint32_t offset, size, id, win, hin, cin;
    int records, bars[8], bar_count;
} later_words;

static void later_describe_fields(uint32_t subtype, const later_step *s, text *out) {
    later_field fields[LATER_FIELDS];
    bool header = s->part == LATER_HEADER;
    int count = engine_later_fields(subtype, header, s->address, fields);
    const uint32_t unknown = engine_later_unknown(s->value, fields, count);
    for (int i = 0; i < count; i++) {
        const later_field *f = &fields[i];
        uint32_t part = engine_bits(s->value, f->low, f->bits);
        text_printf(out, " %s", f->name);
        if (f->index >= 0) text_printf(out, "[%d]", f->index);
        text_printf(out, "=%s%x", part > 9 ? "0x" : "", part);
    }
    if (unknown) text_printf(out, " unknown bits 0x%x", unknown);
    text_append(out, "\n");
}

static void later_describe_word(later_words *w, const later_step *s) {
    bool header = s->part == LATER_HEADER;
    const char *block = header ? NULL : engine_later_block(w->text->subtype, s->address);
    text_printf(&w->rows, "    %s%05x  %08x ", header ? "w" : "0x", header ? s->address / 4 : s->address, s->value);
    if (!header && !block) text_append(&w->rows, " (no block is known there)");
    later_describe_fields(w->text->subtype, s, &w->rows);
}

static void later_describe_end(later_words *w) {
    if (!w->open) return;
    text_printf(w->out, "  task %u at 0x%x: %u words, %d records", w->id, w->offset, w->size, w->records);
    if (w->win && w->cin) text_printf(w->out, "; source [%u, %u, %u]", w->cin, w->hin ? w->hin : 1, w->win);
    for (int i = 0; i < w->bar_count; i++) text_printf(w->out, "%s%d", i ? ", " : "; base registers ", w->bars[i]);
    text_append(w->out, "\n");
    if (w->words && w->rows.data) text_append(w->out, w->rows.data);
    if (w->rows.failed) w->out->failed = true;
    text_deinit(&w->rows);
}

static void later_describe_dimension(later_words *w, const later_step *s) {
    later_field fields[LATER_FIELDS];
    int count = engine_later_fields(w->text->subtype, false, s->address, fields);
    for (int i = 0; i < count; i++) {
        uint32_t part = engine_bits(s->value, fields[i].low, fields[i].bits);
        if (strcmp(fields[i].name, "Win") == 0) w->win = part;
        if (strcmp(fields[i].name, "Hin") == 0) w->hin = part;
        if (strcmp(fields[i].name, "Cin") == 0) w->cin = part;
    }
}

static void later_describe_step(void *context, const later_step *s) {
    later_words *w = context;
    switch (s->part) {
    case LATER_TASK:
        later_describe_end(w);
        *w = (later_words){
            .text = w->text, .out = w->out, .words = w->words, .open = true, .offset = s->address, .size = s->value};
        break;
    case LATER_RECORD:
        w->records++;
        if (s->bar >= 0 && w->bar_count < 8) w->bars[w->bar_count++] = s->bar;
        text_printf(&w->rows, "   record 0x%08x starting at 0x%05x", s->value, s->address);
        if (s->bar >= 0) text_printf(&w->rows, ", base register %d", s->bar);
        text_append(&w->rows, "\n");
        break;
    case LATER_HEADER:
        if (s->address == 0) w->id = s->value & 0xffff;
        later_describe_word(w, s);
        break;
    case LATER_WORD:
        later_describe_dimension(w, s);
        later_describe_word(w, s);
        break;
    }
}

void engine_later_describe(const later_text *t, bool words, text *out) {
    propane_error err = {0};
    later_words w = {.text = t, .out = out, .words = words};
    propane_status status = engine_later_walk(t, later_describe_step, &w, &err);
    later_describe_end(&w);
    if (status) text_printf(out, "  the tasks after this point cannot be read: %s\n", err.text);
}
