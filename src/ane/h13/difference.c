/* SPDX-License-Identifier: MIT
 * Compares two compiled programs by task and register, and names the fields that differ.
 */
#include <stdio.h>

#include "ane/h13/describe.h"
#include "ane/h13/later.h"
#include "core/base/text.h"

static void difference_fields(bool header, uint32_t address, uint32_t a, uint32_t b, const char *indent, text *out) {
    if (!out) return;
    text_printf(out, "%s%s%05x  %08x %08x ", indent, header ? "w" : "0x", header ? address / 4 : address, a, b);
    for (const engine_field *f = NULL; (f = engine_field_next(header, address, f));) {
        uint32_t left = engine_bits(a, f->low, f->bits), right = engine_bits(b, f->low, f->bits);
        if (left != right) text_printf(out, " %s 0x%x | 0x%x", f->name, left, right);
    }
    uint32_t unknown = (a ^ b) & ~engine_known_bits(header, address);
    if (unknown) text_printf(out, " unknown bits 0x%x", unknown);
    text_append(out, "\n");
}

int engine_task_difference(const engine_task *a, const engine_task *b, const char *indent, text *out) {
    int differ = 0, words = a->header_words > b->header_words ? a->header_words : b->header_words;
    for (int i = 0; i < words; i++)
        if (a->header[i] != b->header[i] || (i >= a->header_words) != (i >= b->header_words)) {
            difference_fields(true, 4u * (uint32_t)i, a->header[i], b->header[i], indent, out);
            differ++;
        }
    for (int i = 0; i < ENGINE_REGISTERS; i++) {
        if (a->written[i] == b->written[i] && a->word[i] == b->word[i]) continue;
        if (a->written[i] != b->written[i] && out)
            text_printf(out, "%s0x%05x  written only in the %s\n", indent, engine_address(i),
                        a->written[i] ? "first" : "second");
        if (a->word[i] != b->word[i]) difference_fields(false, engine_address(i), a->word[i], b->word[i], indent, out);
        differ++;
    }
    return differ;
}

/* Returns whether the object has tasks in the form of H13. */
static bool difference_is_read(const engine_object *o) { return o->task_count > 0 || o->subtype == ENGINE_H13; }

static int difference_tasks(const engine_object *a, const engine_object *b, text *out) {
    int words = 0, both = a->task_count < b->task_count ? a->task_count : b->task_count;
    if (a->subtype != ENGINE_H13 || b->subtype != ENGINE_H13) text_append(out, "  registers in the form of H13\n");
    if (a->task_count != b->task_count) {
        const engine_object *more = a->task_count > both ? a : b;
        text_printf(out, "  tasks %d | %d\n", a->task_count, b->task_count);
        for (int i = both; i < more->task_count; i++) words += engine_task_words(&more->tasks[i]);
    }
    for (int i = 0; i < both; i++) {
        text lines = {0};
        int differ = engine_task_difference(&a->tasks[i], &b->tasks[i], "    ", &lines);
        text_printf(out, "  task %d: %d word%s\n%s", i, differ, text_plural(differ), lines.data ? lines.data : "");
        if (lines.failed) out->failed = true;
        text_deinit(&lines);
        words += differ;
    }
    return words;
}

/* Prints and returns how many words of the constants differ, including words that only one program has. */
static int difference_constants(const engine_object *a, const engine_object *b, text *out) {
    const int words = engine_words_that_differ(a->constants, a->constant_bytes, b->constants, b->constant_bytes);
    if (a->constant_bytes != b->constant_bytes)
        text_printf(out, "  bytes of constants %llu | %llu\n", (unsigned long long)a->constant_bytes,
                    (unsigned long long)b->constant_bytes);
    if (words) text_printf(out, "  constants: %d word%s\n", words, text_plural(words));
    return words;
}

int engine_describe_difference(const engine_object *a, const engine_object *b, text *out) {
    text_printf(out, "%s | %s\n", a->source, b->source);
    int words = difference_constants(a, b, out);
    if (difference_is_read(a) && difference_is_read(b)) return words + difference_tasks(a, b, out);
    const later_text x = {a->text, a->text_bytes, a->subtype}, y = {b->text, b->text_bytes, b->subtype};
    return words + engine_later_difference(&x, &y, out);
}
