/* SPDX-License-Identifier: MIT
 * Compares two programs of H14 or a later generation by task and register, and names the fields that differ.
 */
#include "ane/h13/later.h"
#include "ane/h13/object.h"
#include "core/base/memory.h"
#include "core/base/text.h"

#include <stdlib.h>
#include <string.h>

/* The words of a text are sorted by task, then by kind in this order, then by address. */
typedef enum later_difference_kind {
    LATER_DIFFERENCE_HEADER,
    LATER_DIFFERENCE_BAR,
    LATER_DIFFERENCE_REGISTER
} later_difference_kind;
typedef struct later_difference_row {
    uint32_t task, kind, address, value;
} later_difference_row;

typedef struct later_difference_rows {
    later_difference_row *rows;
    size_t count, room;
    uint32_t tasks;
    bool failed, unread;
} later_difference_rows;

static void later_difference_add(void *context, const later_step *s) {
    later_difference_rows *r = context;
    if (s->part == LATER_TASK) {
        r->tasks++;
        return;
    }
    if (s->part == LATER_RECORD && s->bar < 0) return;
    if (r->count == r->room) { /* cannot happen, because each row is a word of the text */
        r->failed = true;
        return;
    }
    later_difference_kind kind = s->part == LATER_HEADER   ? LATER_DIFFERENCE_HEADER
                                 : s->part == LATER_RECORD ? LATER_DIFFERENCE_BAR
                                                           : LATER_DIFFERENCE_REGISTER;
    uint32_t value = s->part == LATER_RECORD ? (uint32_t)s->bar : s->value;
    r->rows[r->count++] = (later_difference_row){r->tasks - 1, kind, s->address, value};
}

static int later_difference_place(const later_difference_row *a, const later_difference_row *b) {
    if (a->task != b->task) return a->task < b->task ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    return (a->address > b->address) - (a->address < b->address);
}

static int later_difference_order(const void *a, const void *b) {
    int order = later_difference_place(a, b);
    const later_difference_row *x = a, *y = b;
    return order ? order : (x->value > y->value) - (x->value < y->value);
}

static void later_difference_read(later_difference_rows *r, const later_text *t, const char *which, text *out) {
    propane_error err = {0};
    r->room = (size_t)(t->bytes / 4) + 1;
    r->rows = mem_array(r->room, sizeof *r->rows);
    if (!r->rows) {
        r->failed = true;
        return;
    }
    propane_status status = engine_later_walk(t, later_difference_add, r, &err);
    if (status) text_printf(out, "  tasks of the %s from %u on cannot be read: %s\n", which, r->tasks, err.text);
    r->unread = status != PROPANE_OK;
    qsort(r->rows, r->count, sizeof *r->rows, later_difference_order);
}

static void later_difference_fields(uint32_t subtype, const later_difference_row *a, const later_difference_row *b,
                                    text *out) {
    later_field fields[LATER_FIELDS];
    const later_difference_row *row = a ? a : b;
    bool header = row->kind == LATER_DIFFERENCE_HEADER;
    uint32_t left = a ? a->value : 0, right = b ? b->value : 0;
    if (row->kind == LATER_DIFFERENCE_BAR) {
        text_printf(out, "    0x%05x  base register ", row->address);
        if (a) text_printf(out, "%u", left);
        text_append(out, " | ");
        if (b) text_printf(out, "%u", right);
        text_append(out, "\n");
        return;
    }
    text_printf(out, "    %s%05x  ", header ? "w" : "0x", header ? row->address / 4 : row->address);
    if (!a || !b) {
        text_printf(out, "%08x written only in the %s\n", row->value, a ? "first" : "second");
        return;
    }
    text_printf(out, "%08x %08x ", left, right);
    int count = engine_later_fields(subtype, header, row->address, fields);
    for (int i = 0; i < count; i++) {
        uint32_t x = engine_bits(left, fields[i].low, fields[i].bits),
                 y = engine_bits(right, fields[i].low, fields[i].bits);
        if (x == y) continue;
        text_printf(out, " %s", fields[i].name);
        if (fields[i].index >= 0) text_printf(out, "[%d]", fields[i].index);
        text_printf(out, " 0x%x | 0x%x", x, y);
    }
    uint32_t unknown = engine_later_unknown(left ^ right, fields, count);
    if (unknown) text_printf(out, " unknown bits 0x%x", unknown);
    text_append(out, "\n");
}

/* Prints the differences of one task and returns their number. *at_a and *at_b are at the task's rows and move past
 * them. */
static int later_difference_task(uint32_t subtype, uint32_t task, const later_difference_rows *a, size_t *at_a,
                                 const later_difference_rows *b, size_t *at_b, text *out) {
    text lines = {0};
    int differ = 0;
    for (;;) {
        const later_difference_row *x = *at_a < a->count ? &a->rows[*at_a] : NULL,
                                   *y = *at_b < b->count ? &b->rows[*at_b] : NULL;
        if (x && x->task != task) x = NULL;
        if (y && y->task != task) y = NULL;
        if (!x && !y) break;
        int order = !x ? 1 : !y ? -1 : later_difference_place(x, y);
        *at_a += order <= 0, *at_b += order >= 0;
        if (!order && x->value == y->value) continue;
        later_difference_fields(subtype, order <= 0 ? x : NULL, order >= 0 ? y : NULL, &lines);
        differ++;
    }
    text_printf(out, "  task %u: %d word%s\n%s", task, differ, text_plural(differ), lines.data ? lines.data : "");
    if (lines.failed) out->failed = true;
    text_deinit(&lines);
    return differ;
}

int engine_words_that_differ(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes) {
    enum { MOST = INT32_MAX / 4 }; /* the sum of a few such counts still fits into an int */
    uint64_t both = a_bytes < b_bytes ? a_bytes : b_bytes, all = a_bytes > b_bytes ? a_bytes : b_bytes, words = 0, at;
    for (at = 0; at + 4 <= both; at += 4) words += memcmp(a + at, b + at, 4) != 0;
    if (at < all) words += (at < both && memcmp(a + at, b + at, (size_t)(both - at)) != 0) + (all - both + 3) / 4;
    return words > MOST ? MOST : (int)words;
}

static int later_difference_bytes(const later_text *a, const later_text *b) {
    return engine_words_that_differ(a->data, a->bytes, b->data, b->bytes);
}

int engine_later_difference(const later_text *a, const later_text *b, text *out) {
    if (a->subtype != b->subtype) {
        text_printf(out, "  programs of %s and %s: their tasks cannot be compared by field\n",
                    engine_generation(a->subtype, NULL), engine_generation(b->subtype, NULL));
        return 1 + later_difference_bytes(a, b); /* one for the generation */
    }
    later_difference_rows x = {0}, y = {0};
    int words = 0;
    later_difference_read(&x, a, "first", out);
    later_difference_read(&y, b, "second", out);
    if (x.failed || y.failed) out->failed = true;
    if (x.tasks != y.tasks) text_printf(out, "  tasks %u | %u\n", x.tasks, y.tasks);
    size_t at_x = 0, at_y = 0;
    for (uint32_t task = 0; task < x.tasks || task < y.tasks; task++)
        words += later_difference_task(a->subtype, task, &x, &at_x, &y, &at_y, out);
    if ((x.unread || y.unread) && !words) words = later_difference_bytes(a, b);
    mem_free(x.rows);
    mem_free(y.rows);
    return words;
}
