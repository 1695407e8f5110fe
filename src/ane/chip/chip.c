/* SPDX-License-Identifier: MIT
 * Owns the tables made from chips.def, and finds chips by name. Refuses unknown names with a list of the known ones.
 */
#include "ane/chip/chip.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { KIND_M = false, KIND_A = true };

static const chip chips[CHIP_COUNT] = {
#define CHIP(id, name, title, arch, generation, kind)                                                                  \
    [CHIP_##id] = {CHIP_##id, name, title, arch, CHIP_##generation, KIND_##kind},
#include "ane/chip/chips.def"
};

static const chip_figure figures[CHIP_COUNT][CHIP_FIELD_COUNT] = {
#define FIGURE(chip, field, value, evidence, source) [CHIP_##chip][CHIP_##field] = {value, CHIP_##evidence, source},
#include "ane/chip/chips.def"
};

static const struct {
    const char *name, *unit, *text;
} fields[CHIP_FIELD_COUNT] = {
#define FIELD(id, unit, text) {#id, unit, text},
#include "ane/chip/chips.def"
};

const char *chip_evidence_name(chip_evidence evidence) {
    static const char *const names[] = {"measured", "documented", "reported", "inferred", "disputed"};
    return names[evidence];
}

const char *chip_generation_name(chip_generation generation) {
    static const char *const names[] = {"h12", "h13", "h14", "h15", "h16", "h17", "h18", "h19"};
    return names[generation];
}

const chip *chip_get(chip_id id) { return &chips[id]; }
const chip_figure *chip_know(const chip *c, chip_field field) { return &figures[c->id][field]; }
const char *chip_field_name(chip_field field) { return fields[field].name; }
const char *chip_field_unit(chip_field field) { return fields[field].unit; }

/* Returns true if `a`, which has `length` characters, equals `b`. Ignores case, and reads blanks and underscores in `a`
 * as hyphens. */
static bool chip_same_name(const char *a, const char *b, size_t length) {
    size_t i = 0;
    for (; i < length && b[i]; i++) {
        int x = tolower((unsigned char)a[i]), y = tolower((unsigned char)b[i]);
        if (x == '_' || x == ' ') x = '-';
        if (x != y) return false;
    }
    return i == length && !b[i];
}

static const chip *chip_do_find(const char *name, size_t length) {
    if (length == 0) return NULL;
    for (int i = 0; i < CHIP_COUNT; i++)
        if (chip_same_name(name, chips[i].name, length)) return &chips[i];
    for (int i = 0; i < CHIP_COUNT; i++)
        if (chip_same_name(name, chips[i].arch, length)) return &chips[i];
    return NULL;
}

static propane_status chip_unknown(const char *name, size_t length, propane_error *err) {
    char known[400] = "";
    size_t used = 0;
    for (int i = 0; i < CHIP_COUNT; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? " " : "", chips[i].name);
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "there is no chip '%.*s'; the chips are %s",
                        (int)(length < 40 ? length : 40), name, known);
}

propane_status chip_find(const char *name, const chip **out, propane_error *err) {
    *out = chip_do_find(name, strlen(name));
    return *out ? PROPANE_OK : chip_unknown(name, strlen(name), err);
}

static void chip_add_chip(const chip *c, const chip *out[CHIP_COUNT], int *count) {
    for (int i = 0; i < *count; i++)
        if (out[i] == c) return;
    out[(*count)++] = c;
}

propane_status chip_find_list(const char *names, const chip *out[CHIP_COUNT], int *count, propane_error *err) {
    *count = 0;
    for (const char *at = names;;) {
        size_t length = strcspn(at, ",");
        while (length && *at == ' ') {
            at++;
            length--;
        }
        size_t word = length;
        while (word && at[word - 1] == ' ') word--;
        bool macs = chip_same_name(at, "all", word), phones = chip_same_name(at, "all-a", word);
        if (macs || phones) {
            for (int i = 0; i < CHIP_COUNT; i++)
                if (chips[i].is_phone == phones) chip_add_chip(&chips[i], out, count);
        } else {
            const chip *c = chip_do_find(at, word);
            if (!c) return chip_unknown(at, word, err);
            chip_add_chip(c, out, count);
        }
        if (!at[length]) return PROPANE_OK;
        at += length + 1;
    }
}

bool chip_listed(const char *list, const chip *c) {
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, " ");
        if (chip_same_name(at, "all", n) || chip_same_name(at, c->is_phone ? "phones" : "macs", n) ||
            chip_same_name(at, c->name, n) || chip_same_name(at, chip_generation_name(c->generation), n))
            return true;
        at += n + (at[n] == ' ');
    }
    return false;
}
