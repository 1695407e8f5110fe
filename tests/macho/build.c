/* SPDX-License-Identifier: MIT
 * Owns building the test files. Everything is at BASE plus its offset in the file. Pointers are recorded as slots
 * while the tables are laid out, and are encoded at the end.
 */
#include "macho/build.h"

#include <stdbool.h>
#include <string.h>

#define BASE UINT64_C(0x180000000)

enum { IMAGE_AT = 0x300, TABLES_AT = 0x800, SLOTS = 128, SELECTOR_SHIFT = 0x40 };

typedef struct slot {
    uint32_t at, to; /* offsets */
    const char *symbol;
} slot;

typedef struct maker {
    build_file *f;
    build_form form;
    build_lists lists;
    uint32_t used;
    slot slots[SLOTS];
    int slot_count;
} maker;

static bool is_cache(build_form form) { return form >= FORM_CACHE_2; }

const char *build_form_name(build_form form) {
    static const char *const names[FORMS] = {"classic", "chain1", "chain2", "chain6", "chain9",
                                             "chain12", "cache2", "cache3", "cache5", "cacheold"};
    return names[form];
}

static void put(build_file *f, size_t at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) f->data[at + (size_t)i] = (uint8_t)(value >> (8 * i));
}
static void put_big(build_file *f, size_t at, uint32_t value) {
    for (int i = 0; i < 4; i++) f->data[at + (size_t)i] = (uint8_t)(value >> (24 - 8 * i));
}

static uint32_t room(maker *m, uint32_t bytes) {
    m->used = (m->used + 7) & ~7u;
    uint32_t at = m->used;
    m->used += bytes;
    return at;
}
static uint32_t string(maker *m, const char *text) {
    uint32_t at = m->used;
    strcpy((char *)m->f->data + at, text);
    m->used += (uint32_t)strlen(text) + 1;
    return at;
}
static void point(maker *m, uint32_t at, uint32_t to) { m->slots[m->slot_count++] = (slot){at, to, NULL}; }
static void bind(maker *m, uint32_t at, const char *symbol) { m->slots[m->slot_count++] = (slot){at, 0, symbol}; }

/* ---- tables -------------------------------------------------------------------------------------------------------- */

typedef struct method {
    const char *name, *types;
} method;

static uint32_t plain_list(maker *m, const method *methods, int count) {
    bool relative = m->lists != LISTS_ABSOLUTE, direct = m->lists >= LISTS_DIRECT;
    uint32_t names[4], types[4], refs[4], size = relative ? 12 : 24;
    for (int i = 0; i < count; i++) {
        names[i] = string(m, methods[i].name);
        types[i] = string(m, methods[i].types);
    }
    for (int i = 0; relative && !direct && i < count; i++) {
        refs[i] = room(m, 8);
        point(m, refs[i], names[i]);
    }
    uint32_t list = room(m, 8 + size * (uint32_t)count);
    put(m->f, list, size | (relative ? 0x80000000 : 0) | (direct ? 0x40000000 : 0), 4);
    put(m->f, list + 4, (uint64_t)count, 4);
    for (int i = 0; i < count; i++) {
        uint32_t at = list + 8 + size * (uint32_t)i;
        if (relative) {
            put(m->f, at, direct ? names[i] - (TABLES_AT + SELECTOR_SHIFT) : refs[i] - at, 4);
            put(m->f, at + 4, types[i] - (at + 4), 4);
            put(m->f, at + 8, 0x400, 4);
        } else {
            point(m, at, names[i]);
            point(m, at + 8, types[i]);
            point(m, at + 16, 0x400);
        }
    }
    return list;
}

/* Returns the value for the field: a list of lists has its lowest bit set. */
static uint32_t method_list(maker *m, const method *methods, int count) {
    if (m->lists != LISTS_OF_LISTS) return plain_list(m, methods, count);
    uint32_t lists[4];
    for (int i = 0; i < count; i++)
        lists[i] = plain_list(m, &methods[i], 1); /* one for the class, one for a category */
    uint32_t outer = room(m, 8 + 8 * (uint32_t)count);
    put(m->f, outer, 8, 4);
    put(m->f, outer + 4, (uint64_t)count, 4);
    for (int i = 0; i < count; i++) {
        uint32_t at = outer + 8 + 8 * (uint32_t)i;
        put(m->f, at, 7 /* an image */ | (uint64_t)((int64_t)lists[i] - (int64_t)at) << 16, 8);
    }
    return outer | 1;
}

static uint32_t protocol(maker *m) {
    uint32_t name = string(m, "Working"), list = method_list(m, &(method){"work:", "v24@0:8@16"}, 1);
    uint32_t optional = method_list(m, &(method){"rest", "B16@0:8"}, 1), at = room(m, 96);
    point(m, at + 8, name);
    point(m, at + 24, list);
    point(m, at + 48, optional);
    put(m->f, at + 64, 96, 4);
    return at;
}

static uint32_t protocols(maker *m, uint32_t of) {
    uint32_t at = room(m, 16);
    put(m->f, at, 1, 8);
    point(m, at + 8, of);
    return at;
}

static uint32_t class_data(maker *m, uint32_t name, uint32_t methods, uint32_t adopted, uint32_t flags) {
    uint32_t at = room(m, 72);
    put(m->f, at, flags, 4);
    point(m, at + 24, name);
    if (methods) point(m, at + 32, methods);
    if (adopted) point(m, at + 40, adopted);
    return at;
}

static uint32_t class_at(maker *m, uint32_t data, uint32_t flags) {
    uint32_t at = room(m, 40);
    point(m, at + 32, data | flags);
    return at;
}

static uint32_t engine_class(maker *m, uint32_t adopted) {
    static const method own[] = {{"compileWithQoS:options:error:", "B36@0:8I16@20^@28"}, {"state", "Q16@0:8"}};
    uint32_t name = string(m, "_ANEEngine"), methods = method_list(m, own, 2);
    m->f->methods = methods & ~1u;
    uint32_t metas = method_list(m, &(method){"shared", "@16@0:8"}, 1);
    uint32_t meta = class_at(m, class_data(m, name, metas, 0, 1), 0);
    uint32_t at = class_at(m, class_data(m, name, methods, adopted, 0), 0);
    point(m, at, meta);
    bind(m, at + 8, "_OBJC_CLASS_$_NSObject");
    return at;
}

typedef struct tables {
    uint32_t classes, class_bytes, categories, category_bytes, protocols, protocol_bytes, selectors;
} tables;

static tables make_tables(maker *m) {
    tables t = {0};
    uint32_t working = protocol(m), engine = engine_class(m, protocols(m, working)), name = string(m, "_ANEDerived");
    uint32_t derived = class_at(m, class_data(m, name, 0, 0, 0), 2); /* a flag in the pointer to its data */
    point(m, derived + 8, engine);
    uint32_t more = string(m, "More"), extra = plain_list(m, &(method){"extra", "q16@0:8"}, 1), category = room(m, 56);
    point(m, category, more);
    point(m, category + 8, engine);
    point(m, category + 16, extra);
    t.classes = room(m, 16);
    point(m, t.classes, engine);
    point(m, t.classes + 8, derived);
    t.categories = room(m, 8);
    point(m, t.categories, category);
    t.protocols = room(m, 8);
    point(m, t.protocols, working);
    t.class_bytes = 16;
    t.category_bytes = t.protocol_bytes = 8;
    m->f->classes = t.classes;
    return t;
}

/* ---- pointers ------------------------------------------------------------------------------------------------------ */

static const char *const imports[] = {"_unused", "_OBJC_CLASS_$_NSObject"};

/* Encodes a pointer for the file. The links of the chains are arbitrary, because readers do not follow them. */
static uint64_t coded(build_form form, const slot *s) {
    uint64_t to = s->to, top = UINT64_C(1) << 63, second = UINT64_C(1) << 62, next = UINT64_C(2) << 51;
    bool sign = s->at % 16 == 0; /* sign only some pointers */
    uint64_t signed_link = top | next | UINT64_C(0x1234) << 32;
    switch (form) {
    case FORM_CLASSIC: return s->symbol ? 0 : BASE + to;
    case FORM_CHAIN_1:
        return s->symbol ? second | next | 1 | (sign ? top : 0) : sign ? signed_link | to : next | (BASE + to);
    case FORM_CHAIN_2: return s->symbol ? top | next | 1 : next | (BASE + to);
    case FORM_CHAIN_6: return s->symbol ? top | next | 1 : next | to;
    case FORM_CHAIN_9:
    case FORM_CHAIN_12:
        return s->symbol ? second | next | 1 | (form == FORM_CHAIN_9 ? 0x7f0000 : 0)
               : sign    ? signed_link | to
                         : next | to;
    case FORM_CACHE_2:
    case FORM_CACHE_OLD: return s->symbol ? 0 : (BASE + to - 0x1000) | UINT64_C(3) << 40;
    case FORM_CACHE_3: return s->symbol ? 0 : sign ? signed_link | to : UINT64_C(3) << 51 | (BASE + to);
    case FORM_CACHE_5: return s->symbol ? 0 : (sign ? top | UINT64_C(0x1234) << 34 : 0) | UINT64_C(3) << 52 | to;
    default: return 0;
    }
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

static uint32_t put_section(build_file *f, uint32_t at, const char *name, uint32_t to, uint32_t bytes) {
    memcpy(f->data + at, name, strlen(name));
    memcpy(f->data + at + 16, "__DATA", 6);
    put(f, at + 32, BASE + to, 8);
    put(f, at + 40, bytes, 8);
    put(f, at + 48, to, 4);
    return at + 80;
}

static void put_segment(build_file *f, uint32_t at, const char *name, uint32_t sections, uint64_t from, uint64_t to) {
    put(f, at, 0x19, 4);
    put(f, at + 4, 72 + 80 * sections, 4);
    memcpy(f->data + at + 8, name, strlen(name));
    put(f, at + 24, BASE + from, 8);
    put(f, at + 32, to - from, 8);
    put(f, at + 40, from, 8);
    put(f, at + 48, to - from, 8);
    put(f, at + 64, sections, 4);
}

/* Writes the header and commands at `at`; `rest` is the size of a last command that is already there, after the
 * segment. */
static void put_image(maker *m, uint32_t at, const tables *t, uint32_t rest, uint32_t commands) {
    build_file *f = m->f;
    uint32_t sections = t->selectors ? 1 : 3, next;
    put(f, at, 0xfeedfacf, 4);
    put(f, at + 4, 0x0100000c, 4);
    put(f, at + 8, m->form == FORM_CHAIN_2 || m->form == FORM_CHAIN_6 || m->form == FORM_CLASSIC ? 0 : 0x80000002, 4);
    put(f, at + 12, 6, 4);
    put(f, at + 16, 1 + commands, 4);
    put(f, at + 20, 72 + 80 * sections + rest, 4);
    put_segment(f, at + 32, "__TEXT", sections, is_cache(m->form) ? at : 0, m->used);
    next = at + 32 + 72;
    if (t->selectors) {
        put_section(f, next, "__objc_opt_ro", t->selectors, 48);
        return;
    }
    next = put_section(f, next, "__objc_classlist", t->classes, t->class_bytes);
    next = put_section(f, next, "__objc_catlist", t->categories, t->category_bytes);
    put_section(f, next, "__objc_protolist", t->protocols, t->protocol_bytes);
}

static void put_binds(maker *m, uint32_t command) {
    uint32_t at = m->used;
    uint8_t *p = m->f->data + at, *start = p;
    for (int i = 0; i < m->slot_count; i++) {
        if (!m->slots[i].symbol) continue;
        *p++ = 0x11; /* library 1 */
        *p++ = 0x40;
        strcpy((char *)p, m->slots[i].symbol);
        p += strlen(m->slots[i].symbol) + 1;
        *p++ = 0x51;
        *p++ = 0x70; /* segment 0, offset */
        for (uint32_t v = m->slots[i].at;; v >>= 7) {
            *p++ = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
            if (v <= 0x7f) break;
        }
        *p++ = 0x90;
    }
    *p++ = 0;
    put(m->f, command, 0x80000022, 4);
    put(m->f, command + 4, 48, 4);
    put(m->f, command + 16, at, 4);
    put(m->f, command + 20, (uint64_t)(p - start), 4);
    m->used += (uint32_t)(p - start);
}

static void put_chains(maker *m, uint32_t command) {
    static const uint16_t format[] = {
        [FORM_CHAIN_1] = 1, [FORM_CHAIN_2] = 2, [FORM_CHAIN_6] = 6, [FORM_CHAIN_9] = 9, [FORM_CHAIN_12] = 12};
    build_file *f = m->f;
    uint32_t at = room(m, 0), starts = 28, table = 64, names = 72 + 24,
             kind = m->form == FORM_CHAIN_9   ? 3
                    : m->form == FORM_CHAIN_2 ? 2
                                              : 1;
    put(f, at + 4, starts, 4);
    put(f, at + 8, table, 4);
    put(f, at + 12, names, 4);
    put(f, at + 16, 2, 4);
    put(f, at + 20, kind, 4);
    put(f, at + starts, 1, 4);
    put(f, at + starts + 4, 8, 4);
    put(f, at + starts + 8, 24, 4);
    put(f, at + starts + 12, 0x4000, 2);
    put(f, at + starts + 14, format[m->form], 2);
    uint32_t name = 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (kind == 3) {
            put(f, at + table + 16 * i, 1, 2);
            put(f, at + table + 16 * i + 4, name, 4);
        } else {
            put(f, at + table + (kind == 2 ? 8 : 4) * i, 1 | name << 9, 4);
        }
        strcpy((char *)f->data + at + names + name, imports[i]);
        name += (uint32_t)strlen(imports[i]) + 1;
    }
    put(f, command, 0x80000034, 4);
    put(f, command + 4, 16, 4);
    put(f, command + 8, at, 4);
    put(f, command + 12, names + name, 4);
    m->used = at + names + name;
}

static void put_slide(maker *m, uint32_t mapping) {
    build_file *f = m->f;
    uint32_t at = room(m, 40), version = m->form == FORM_CACHE_3 ? 3 : m->form == FORM_CACHE_5 ? 5 : 2;
    put(f, at, version, 4);
    put(f, at + 4, 4096, 4);
    if (version == 2) {
        put(f, at + 24, UINT64_C(0x00ffff0000000000), 8);
        put(f, at + 32, 0x1000, 8);
    } else {
        put(f, at + 16, BASE, 8);
    }
    put(f, mapping + 24, at, 8);
    put(f, mapping + 32, 40, 8);
}

static uint32_t put_objc_tables(maker *m) {
    bool old = m->form == FORM_CACHE_OLD;
    uint32_t at = room(m, 56), base = TABLES_AT + SELECTOR_SHIFT;
    put(m->f, at, old ? 16 : 1, 4);
    put(m->f, at + (old ? 40 : 48), old ? (uint64_t)base - at : base, 8);
    return at;
}

static void put_cache_header(maker *m, uint32_t header, uint32_t images, uint32_t image_count) {
    build_file *f = m->f;
    bool old = m->form == FORM_CACHE_OLD;
    memcpy(f->data, "dyld_v1  arm64e", 16);
    put(f, 0x10, header, 4);
    put(f, 0x14, 1, 4);
    put(f, old ? 0x18 : 0x1c0, images, 4);
    put(f, old ? 0x1c : 0x1c4, image_count, 4);
    uint32_t mapping = room(m, 56);
    put(f, header, BASE, 8);
    put(f, 0x138, mapping, 4);
    put(f, 0x13c, 1, 4);
    put_slide(m, mapping);
    put(f, header + 8, m->used, 8);
    put(f, mapping, BASE, 8);
    put(f, mapping + 8, m->used, 8);
}

static void make_cache(maker *m) {
    static const tables none = {0};
    build_file *f = m->f;
    bool old = m->form == FORM_CACHE_OLD;
    tables t = make_tables(m), library = none;
    uint32_t objc = put_objc_tables(m);
    uint32_t path = string(m, "/System/Library/PrivateFrameworks/AppleNeuralEngine.framework/AppleNeuralEngine");
    uint32_t other = string(m, "/usr/lib/libobjc.A.dylib");
    put_image(m, IMAGE_AT, &t, 0, 0);
    uint32_t images = room(m, 64), second = room(m, 32 + 72 + 80);
    library.selectors = objc;
    put_image(m, second, &library, 0, 0);
    put(f, images, BASE + IMAGE_AT, 8);
    put(f, images + 24, path, 4);
    put(f, images + 32, BASE + second, 8);
    put(f, images + 32 + 24, other, 4);
    if (!old) put(f, 0x1d0, objc, 8);
    put_cache_header(m, old ? 0x150 : 0x1f0, images, 2);
}

void build_macho(build_form form, build_lists lists, build_file *out) {
    *out = (build_file){0};
    maker m = {.f = out, .form = form, .lists = lists, .used = TABLES_AT};
    if (is_cache(form)) {
        make_cache(&m);
    } else {
        tables t = make_tables(&m);
        uint32_t command = 32 + 72 + 3 * 80, rest = form == FORM_CLASSIC ? 48 : 16;
        put_image(&m, 0, &t, rest, 1);
        (form == FORM_CLASSIC ? put_binds : put_chains)(&m, command);
    }
    for (int i = 0; i < m.slot_count; i++) put(out, m.slots[i].at, coded(form, &m.slots[i]), 8);
    out->bytes = m.used;
}

void build_split_cache(const char *suffix, build_file *main, build_file *part) {
    build_macho(FORM_CACHE_5, LISTS_DIRECT, part);
    *main = *part;
    uint32_t list = 0x240; /* between the header and the image, where the file is empty */
    put(main, 0x188, list, 4);
    put(main, 0x18c, 1, 4);
    memcpy(main->data + list + 24, suffix, strlen(suffix));
    /* The file's own mapping covers nothing that the image needs. */
    uint64_t mapping = main->data[0x138] | (uint64_t)main->data[0x139] << 8;
    put(main, 0x1f0, BASE + 0x100000, 8);
    put(main, mapping, BASE, 8);
    put(main, mapping + 8, 0x200, 8);
    put(part, 0x1c0, 0, 8);
    uint64_t own = part->data[0x138] | (uint64_t)part->data[0x139] << 8;
    put(part, own, BASE + 0x200, 8);
    put(part, own + 8, part->bytes - 0x200, 8);
    put(part, own + 16, 0x200, 8);
}

void build_fat(build_file *out) {
    build_file x86, arm;
    build_macho(FORM_CLASSIC, LISTS_ABSOLUTE, &x86);
    put(&x86, 4, 0x01000007, 4);
    put(&x86, 8, 3, 4);
    build_macho(FORM_CHAIN_12, LISTS_RELATIVE, &arm);
    *out = (build_file){0};
    put_big(out, 0, 0xcafebabe);
    put_big(out, 4, 2);
    const build_file *parts[] = {&x86, &arm};
    uint32_t at = 64;
    for (size_t i = 0; i < 2; i++) {
        size_t row = 8 + 20 * i;
        put_big(out, row, i ? 0x0100000c : 0x01000007);
        put_big(out, row + 4, i ? 0x80000002 : 3);
        put_big(out, row + 8, at);
        put_big(out, row + 12, (uint32_t)parts[i]->bytes);
        memcpy(out->data + at, parts[i]->data, parts[i]->bytes);
        at += (uint32_t)((parts[i]->bytes + 15) & ~(size_t)15);
    }
    out->bytes = at;
}
