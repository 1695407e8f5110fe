/* SPDX-License-Identifier: MIT
 * Owns making each call of a table with one argument wrong at a time, and comparing the table with the headers.
 */
#include "api/call_table.h"

#include <ctype.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/test.h"

/* A path without a file, and a name that does not exist. */
#define NOTHING "Makefile/none"

/* ---- arguments ---------------------------------------------------------------------------------------------------------------- */

/* Records the argument once, and the attempts that are possible with it. */
static void call_note(calls *c, const char *name) {
    if (!c->listing) return;
    EXPECT_MSG(c->argument_count < CALL_ARGUMENTS, "%s: too many arguments", name);
    c->arguments[c->argument_count++] = name;
}

static void call_try(calls *c, const char *name, int variant, call_expected expected) {
    if (!c->listing) return;
    EXPECT_MSG(c->count < CALL_ATTEMPTS, "%s: too many attempts", name);
    c->list[c->count++] = (call_attempt){name, variant, expected};
}

/* Returns -1 if this argument is correct. */
static int call_variant(const calls *c, const char *name) {
    return c->now.argument && strcmp(c->now.argument, name) == 0 ? c->now.variant : -1;
}

bool call_is_null(calls *c, const char *name, call_expected null) {
    call_note(c, name);
    call_try(c, name, 0, null);
    return call_variant(c, name) == 0;
}

void *call_out(calls *c, const char *name, call_expected null, void **slot) {
    call_note(c, name);
    call_try(c, name, 0, null);
    if (call_variant(c, name) == 0) return NULL;
    c->slots[c->slot_count++] = slot;
    *slot = c; /* must be changed afterwards */
    return slot;
}

const char *call_text(calls *c, const char *name, const char *good, call_expected null, bool exists) {
    call_note(c, name);
    call_try(c, name, 0, null);
    call_try(c, name, 1, exists ? CALL_REFUSED : CALL_EITHER);
    if (exists) call_try(c, name, 2, CALL_REFUSED);
    switch (call_variant(c, name)) {
    case 0: return NULL;
    case 1: return "";
    case 2: return NOTHING;
    default: return good;
    }
}

/* Tries NULL, and sizes that are too small or too large. The smaller sizes of older headers, which have fewer members,
 * are allowed, so they are not tried. */
void *call_sized(calls *c, const char *name, call_expected null, void *good, size_t bytes) {
    static const size_t sizes[] = {0, 1, 1 << 20, SIZE_MAX};
    call_note(c, name);
    call_try(c, name, 0, null);
    for (int i = 0; i < 4; i++) call_try(c, name, i + 1, CALL_REFUSED);
    const int variant = call_variant(c, name);
    if (variant == 0) return NULL;
    EXPECT(bytes <= CALL_ROOM && c->room_count < 2);
    unsigned char *room = c->rooms[c->room_count++];
    memcpy(room, good, bytes);
    memcpy(room, variant > 0 ? &sizes[variant - 1] : &bytes, sizeof bytes);
    return room;
}

int64_t call_integer(calls *c, const char *name, int64_t good, call_number kind, int64_t most) {
    call_note(c, name);
    if (kind == CALL_ANY) return good;
    const int64_t wrong[] = {-1, 0, most, 99, good + 1};
    const bool tried[] = {kind != CALL_SIZE, kind == CALL_COUNT || kind == CALL_SIZE || kind == CALL_COUNT0,
                          kind == CALL_EXACT || kind == CALL_INDEX || kind == CALL_WORD, kind == CALL_WORD,
                          kind == CALL_EXACT};
    for (int i = 0; i < 5; i++)
        if (tried[i]) call_try(c, name, i, kind == CALL_COUNT0 && i == 1 ? CALL_TAKEN : CALL_REFUSED);
    if (call_variant(c, name) < 0) return good;
    snprintf(c->given, sizeof c->given, "%lld", (long long)wrong[call_variant(c, name)]);
    return wrong[call_variant(c, name)];
}

/* ---- faults
 * --------------------------------------------------------------------------------------------------------------------- */

/* Collects all faults, which are reported at the end, one per line. */
static text call_faults;
#define CALL_EXPECT(condition, ...)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) text_printf(&call_faults, __VA_ARGS__), text_printf(&call_faults, "\n");                     \
    } while (0)

/* ---- calls -------------------------------------------------------------------------------------------------------------------- */

/* Fills the results that a call must overwrite. */
static int call_make(calls *c, const call_row *row, propane_error *err) {
    c->slot_count = c->room_count = 0;
    c->given[0] = 0;
    return row->make(c, err);
}

static void call_good(calls *c, const call_table *t, const call_row *row, const char *when) {
    propane_error err = {0};
    c->now = (call_attempt){0};
    const int got = call_make(c, row, &err);
    if (row->kind == CALL_STATUS)
        CALL_EXPECT(got == PROPANE_OK, "%s%s: %s: %s", row->name, when, propane_status_name((propane_status)got),
                    err.text);
    if (row->kind == CALL_LACKS) CALL_EXPECT(got != PROPANE_OK, "%s%s: it went well", row->name, when);
    if (row->kind == CALL_GIVES) CALL_EXPECT(got == 0, "%s%s: it gives what refuses", row->name, when);
    t->after();
}

static bool call_says(const char *sentence, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = sentence; (at = strstr(at, word)); at += length) {
        const char before = at == sentence ? ' ' : at[-1], behind = at[length];
        if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)behind)) return true;
    }
    return false;
}

/* Returns whether the sentence names the argument, the call or the given value. This is not required of a call that the
 * fixture cannot make, nor of an empty list. */
static bool call_explains(const calls *c, const call_row *row, const call_attempt *a, const char *sentence) {
    if (row->kind == CALL_LACKS || strcmp(c->given, "0") == 0) return true;
    if (c->given[0] && strstr(sentence, c->given)) return true;
    return call_says(sentence, a->argument) || call_says(sentence, row->name) || strstr(sentence, "size") ||
           strstr(sentence, "empty") || strstr(sentence, "''") || strstr(sentence, "Makefile");
}

static void call_check_refusal(const calls *c, const call_row *row, const call_attempt *a, propane_status got,
                               const propane_error *err) {
    char want[200];
    CALL_EXPECT(got != PROPANE_OK, "%s: wrong '%s' (%d) is taken", row->name, a->argument, a->variant);
    CALL_EXPECT(err->status == got && err->text[0], "%s: wrong '%s' (%d): the error has the status %s and says '%s'",
                row->name, a->argument, a->variant, propane_status_name(err->status), err->text);
    CALL_EXPECT(call_explains(c, row, a, err->text), "%s: wrong '%s' (%d): the sentence names neither: %s", row->name,
                a->argument, a->variant, err->text);
    if (a->expected == CALL_NULL) {
        snprintf(want, sizeof want, "%s: %s must not be NULL", row->name, a->argument);
        CALL_EXPECT(got == PROPANE_ERR_INVALID && strncmp(err->text, want, strlen(want)) == 0,
                    "%s: %s NULL: %s: '%s', want '%s'", row->name, a->argument, propane_status_name(got), err->text,
                    want);
    }
}

/* Expects a refusal that leaves nothing behind, also if the caller does not request the sentence. */
static void call_bad(calls *c, const call_table *t, const call_row *row, const call_attempt *a) {
    propane_error err = {.status = PROPANE_OK};
    text before = {0}, behind = {0};
    c->now = *a;
    t->look(&before);
    const int got = call_make(c, row, &err);
    const bool status = row->kind == CALL_STATUS || row->kind == CALL_LACKS;
    if (a->expected == CALL_TAKEN && row->kind == CALL_STATUS)
        CALL_EXPECT(got == PROPANE_OK, "%s: '%s' (%d) is refused: %s", row->name, a->argument, a->variant, err.text);
    if (status && (a->expected == CALL_REFUSED || a->expected == CALL_NULL))
        call_check_refusal(c, row, a, (propane_status)got, &err);
    for (int i = 0; i < c->slot_count; i++)
        CALL_EXPECT(got == PROPANE_OK || !*c->slots[i], "%s: wrong '%s' (%d): an output is not NULL", row->name,
                    a->argument, a->variant);
    if (row->kind == CALL_GIVES && a->expected == CALL_TAKEN)
        CALL_EXPECT(got == 0, "%s: '%s' (%d) is refused", row->name, a->argument, a->variant);
    if ((row->kind == CALL_GIVES || row->kind == CALL_MAYBE) && a->expected != CALL_TAKEN && a->expected != CALL_EITHER)
        CALL_EXPECT(got == 1, "%s: wrong '%s' (%d) is taken", row->name, a->argument, a->variant);
    t->after();
    const int64_t live = mem_live_count(); /* the first call may have filled a cache */
    const int again = call_make(c, row, NULL);
    CALL_EXPECT(again == got, "%s: wrong '%s' (%d): %d, and without an error %d", row->name, a->argument, a->variant,
                got, again);
    t->after();
    CALL_EXPECT(mem_live_count() == live, "%s: wrong '%s' (%d): %lld blocks are left", row->name, a->argument,
                a->variant, (long long)(mem_live_count() - live));
    t->look(&behind);
    if (a->expected == CALL_REFUSED || a->expected == CALL_NULL)
        CALL_EXPECT(strcmp(before.data, behind.data) == 0, "%s: wrong '%s' (%d): something has changed:\n%s\n%s",
                    row->name, a->argument, a->variant, before.data, behind.data);
    text_deinit(&before);
    text_deinit(&behind);
}

/* ---- headers ------------------------------------------------------------------------------------------------------------------ */

/* Replaces comments, preprocessor lines and text in braces with blanks. */
static void call_strip(char *s) {
    int depth = 0;
    for (char *p = s; *p; p++) {
        if (p[0] == '/' && p[1] == '*') {
            char *end = strstr(p, "*/");
            memset(p, ' ', (size_t)(end + 2 - p));
        }
        if (*p == '#' && (p == s || p[-1] == '\n'))
            for (; *p && *p != '\n'; p++) *p = p[0] == '\\' && p[1] == '\n' ? (p[1] = ' ') : ' ';
        if (*p == '{') depth++;
        const bool closes = *p == '}';
        if (depth) *p = ' ';
        if (closes) depth--;
    }
}

static const call_row *call_find(const call_table *t, const char *name, size_t length) {
    for (int i = 0; i < t->count; i++)
        if (strlen(t->rows[i].name) == length && memcmp(t->rows[i].name, name, length) == 0) return &t->rows[i];
    return NULL;
}

static void call_list(calls *c, const call_table *t, const call_row *row) {
    c->count = c->argument_count = 0;
    c->listing = true;
    call_good(c, t, row, "");
    c->listing = false;
}

/* Checks a parameter such as "const char *name", by its last word. */
static void call_check_parameter(const calls *c, const call_row *row, const char *from, const char *to) {
    while (to > from && !isalnum((unsigned char)to[-1])) to--;
    const char *begin = to;
    while (begin > from && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) begin--;
    char name[100];
    snprintf(name, sizeof name, "%.*s", (int)(to - begin), begin);
    if (strcmp(name, "err") == 0 || strcmp(name, "why") == 0 || strcmp(name, "void") == 0) return;
    for (int i = 0; i < c->argument_count; i++)
        if (strcmp(c->arguments[i], name) == 0) return;
    EXPECT_MSG(false, "%s: the row does not say what '%s' may be", row->name, name);
}

/* `open` is the bracket after the name. Returns the number of calls, which is 1. */
static int call_check_declaration(calls *c, const call_table *t, const char *name, const char *open) {
    const call_row *row = call_find(t, name, (size_t)(open - name));
    const char *end = strchr(open, ')');
    EXPECT_MSG(row, "%.*s has no row in tests/api/calls", (int)(open - name), name);
    EXPECT(end);
    call_list(c, t, row);
    for (const char *from = open + 1; from < end;) {
        const size_t length = strcspn(from, ",)");
        call_check_parameter(c, row, from, from + length);
        from += length + 1;
    }
    return 1;
}

static int call_check_header(calls *c, const call_table *t, const char *header) {
    char path[200], *s = NULL;
    size_t length = 0;
    int found = 0;
    propane_error err = {0};
    snprintf(path, sizeof path, "include/propane/%s.h", header);
    EXPECT_OK(file_read(path, 1 << 20, &s, &length, &err));
    call_strip(s);
    for (char *at = s, *end; (end = strchr(at, ';')); at = end + 1) {
        *end = 0;
        const char *name = strstr(at, "typedef") ? NULL : strchr(at, '(');
        if (!name) continue;
        while (name > at && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
        if (strncmp(name, "propane_", 8) == 0) found += call_check_declaration(c, t, name, strchr(at, '('));
    }
    mem_free(s);
    return found;
}

void calls_check(const call_table *t) {
    static calls c;
    int found = 0;
    for (const char *const *h = t->headers; *h; h++) found += call_check_header(&c, t, *h);
    EXPECT_MSG(found == t->count, "the headers have %d calls, the table %d rows", found, t->count);
    for (int i = 0; i < t->count; i++) {
        call_list(&c, t, &t->rows[i]);
        for (int k = 0; k < c.count; k++) call_bad(&c, t, &t->rows[i], &c.list[k]);
        call_good(&c, t, &t->rows[i], " afterwards");
    }
    if (call_faults.length) fprintf(stderr, "%s", call_faults.data);
    EXPECT(!call_faults.length);
}
