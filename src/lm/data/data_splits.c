/* SPDX-License-Identifier: MIT
 * Owns the names of a data set's parts. A name that consists of a part's word and other words counts only if there is a
 * training file whose name differs only in that word. A text whose name happens to contain "test" is therefore not
 * taken for test data. Names that are not recognised are DATA_ANY; no name is refused.
 */
#include "lm/data/data_splits.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    data_part part;
    bool lonely; /* a file with only this word as its name needs no matching training file */
} words[] = {{"train", DATA_TRAIN, false},     {"training", DATA_TRAIN, false}, {"valid", DATA_VALID, true},
             {"validation", DATA_VALID, true}, {"val", DATA_VALID, true},       {"dev", DATA_VALID, false},
             {"test", DATA_TEST, true},        {"testing", DATA_TEST, false},   {"eval", DATA_TEST, false},
             {"evaluation", DATA_TEST, false}};

enum { WORDS = sizeof words / sizeof words[0] };

static bool data_splits_ends(const char *name, const char *const *endings, int count) {
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < count; i++)
        if (strcasecmp(dot + 1, endings[i]) == 0) return true;
    return false;
}

bool data_splits_is_data(const char *name) {
    static const char *const endings[] = {"jsonl", "json", "csv", "tsv", "txt", "text", "raw", "tokens", "tok", "bin"};
    return data_splits_ends(name, endings, sizeof endings / sizeof endings[0]);
}

bool data_splits_is_document(const char *name) {
    static const char *const endings[] = {"md", "rst", "yaml", "yml", "cff"};
    static const char *const stems[] = {"README", "LICENSE", "LICENCE", "COPYING", "CITATION", "dataset_info"};
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++)
        if (strncasecmp(name, stems[i], strlen(stems[i])) == 0) return true;
    return data_splits_ends(name, endings, sizeof endings / sizeof endings[0]);
}

/* Returns whether the word is part of a shard's number: "00000", "of", "a1b2c3d4". */
static bool data_splits_is_number(const char *word, size_t length) {
    size_t digits = 0, hex = 0;
    for (size_t i = 0; i < length; i++) digits += isdigit((unsigned char)word[i]) != 0;
    for (size_t i = 0; i < length; i++) hex += isxdigit((unsigned char)word[i]) != 0;
    return digits == length || (hex == length && length >= 6) || (length == 2 && strncasecmp(word, "of", 2) == 0);
}

static int data_splits_word(const char *word, size_t length) {
    for (int i = 0; i < WORDS; i++)
        if (strlen(words[i].word) == length && strncasecmp(words[i].word, word, length) == 0) return i;
    return -1;
}

/* Returns the index in `words` of the part's word in the name, or -1 if there is none or more than one. A folder's name
 * must consist only of that word. Sets `shape` and `alone`. */
static int data_splits_read(data_entry *e) {
    const char *dot = strrchr(e->name, '.');
    const size_t stem = !e->folder && dot && dot != e->name ? (size_t)(dot - e->name) : strlen(e->name);
    int found = -1, others = 0, many = 0;
    size_t n = 0;
    for (size_t at = 0; at < stem;) {
        const size_t length = strcspn(e->name + at, "._- "), left = stem - at;
        const size_t word = length < left ? length : left;
        const int which = data_splits_word(e->name + at, word);
        const bool number = word > 0 && data_splits_is_number(e->name + at, word);
        if (which >= 0) found = which, many++;
        others += word > 0 && which < 0 && !number;
        const char *shown = which >= 0 ? "*" : number ? "" : NULL;
        const int put = shown ? snprintf(e->shape + n, sizeof e->shape - n, "%s/", shown)
                              : snprintf(e->shape + n, sizeof e->shape - n, "%.*s/", (int)word, e->name + at);
        if (put > 0 && n + (size_t)put < sizeof e->shape) n += (size_t)put;
        at += word + 1;
    }
    snprintf(e->shape + n, sizeof e->shape - n, "%s", e->name + stem);
    e->alone = others == 0;
    return many == 1 && (e->alone || !e->folder) ? found : -1;
}

/* Returns whether the names differ only in the part's word. */
static bool data_splits_pair(const data_entry *a, const data_entry *b) {
    return (a->alone && b->alone) || strcmp(a->shape, b->shape) == 0;
}

/* Returns whether an entry of the training part (with `training`) or of another part matches the name of `e`. */
static bool data_splits_has_partner(const data_entry *e, const data_entry *entries, int count, bool training) {
    for (int i = 0; i < count; i++) {
        const data_part part = entries[i].part;
        const bool fits = training ? part == DATA_TRAIN : part == DATA_VALID || part == DATA_TEST;
        if (fits && data_splits_pair(&entries[i], e)) return true;
    }
    return false;
}

static bool data_splits_has(const data_entry *entries, int count, data_part part) {
    for (int i = 0; i < count; i++)
        if (entries[i].part == part) return true;
    return false;
}

void data_splits_find(data_entry *entries, int count) {
    for (int i = 0; i < count; i++) {
        const int which = entries[i].data ? data_splits_read(&entries[i]) : -1;
        entries[i].part = which >= 0 ? words[which].part : DATA_ANY;
        entries[i].lonely = which >= 0 && words[which].lonely && entries[i].alone && !entries[i].folder;
    }
    for (int i = 0; i < count; i++) {
        data_entry *e = &entries[i];
        const bool held = e->part == DATA_VALID || e->part == DATA_TEST;
        if (held && !e->lonely && !data_splits_has_partner(e, entries, count, true)) e->part = DATA_ANY;
    }
    const bool held = data_splits_has(entries, count, DATA_VALID) || data_splits_has(entries, count, DATA_TEST);
    for (int i = 0; i < count; i++) {
        data_entry *e = &entries[i];
        const bool belongs = held && (e->alone || data_splits_has_partner(e, entries, count, false));
        if (e->part == DATA_TRAIN && !belongs) e->part = DATA_ANY;
    }
    const bool training = data_splits_has(entries, count, DATA_TRAIN);
    for (int i = 0; i < count; i++)
        if (training && entries[i].part == DATA_ANY) entries[i].part = DATA_BESIDE;
}
