/* SPDX-License-Identifier: MIT
 * Walks an image's Objective-C tables. The walk starts at the lists of classes, categories and protocols in the image's
 * sections, and follows each entry to its method lists. An entry of a method list is three pointers or three 32-bit
 * distances. Shared caches also have lists of method lists, and selectors as distances from one base.
 *
 * Each item occupies separate bytes in the file, so there cannot be more items than bytes. A file whose tables are
 * reached again and again is refused when the budget of bytes is spent.
 */
#include "apps/ane-lab/macho/objc.h"

#include <inttypes.h>
#include <string.h>

enum {
    LIST_RELATIVE = (int)0x80000000,
    LIST_DIRECT = 0x40000000, /* selectors are relative to the cache's base */
    ENTRY_POINTERS = 24,
    ENTRY_RELATIVE = 12,
    CLASS_BYTES = 40,
    CLASS_DATA_BYTES = 72,
    CATEGORY_BYTES = 40,
    PROTOCOL_BYTES = 72,
    TEXT_FACTOR = 64 /* bytes of text that may be read per byte of the file; more than 1, because strings are shared */
};

typedef struct reader {
    const space *s;
    arena *a;
    uint64_t budget, text;
    propane_error *err;
    /* methods and protocols of the entry that is being read */
    macho_method *methods;
    int method_count, method_room;
    const char **protocols;
    int protocol_count, protocol_room;
} reader;

static propane_status objc_spend(reader *r, uint64_t bytes, const char *what) {
    if (bytes > r->budget)
        return propane_fail(r->err, PROPANE_ERR_INVALID, "%s: %s: the tables claim more entries than fit into the file",
                            r->s->name, what);
    r->budget -= bytes;
    return PROPANE_OK;
}

static propane_status objc_text(reader *r, uint64_t address, const char *what, const char **out) {
    PROPANE_TRY(space_read_text(r->s, address, what, out, r->err));
    uint64_t n = strlen(*out) + 1;
    if (n > r->text)
        return propane_fail(r->err, PROPANE_ERR_INVALID, "%s: %s: the tables refer to more text than the file holds",
                            r->s->name, what);
    r->text -= n;
    return PROPANE_OK;
}

static propane_status objc_pointer(reader *r, uint64_t address, const char *what, space_pointer *out) {
    return space_read_pointer(r->s, address, what, out, r->err);
}

/* Sets *out to the text to which the pointer at `address` leads. */
static propane_status objc_pointed_text(reader *r, uint64_t address, const char *what, const char **out) {
    space_pointer p;
    PROPANE_TRY(objc_pointer(r, address, what, &p));
    return objc_text(r, p.address, what, out);
}

/* Returns a list with room for `more` items after `count`: `old`, or a copy in the arena with at least twice the room.
 * Returns NULL if memory runs out. */
static void *objc_grown(reader *r, const void *old, int count, int more, int *room, size_t size) {
    if (count + more <= *room) return (void *)(uintptr_t)old;
    int want = *room * 2 > count + more ? *room * 2 : count + more;
    void *list = arena_array(r->a, (size_t)want, size);
    if (list && count) memcpy(list, old, (size_t)count * size);
    if (list) *room = want;
    return list;
}

/* ---- methods ------------------------------------------------------------------------------------------------------- */

static propane_status objc_relative(reader *r, uint64_t field, bool direct, macho_method *m) {
    const uint8_t *p;
    PROPANE_TRY(space_at(r->s, field, ENTRY_RELATIVE, "a method", &p, r->err));
    int64_t name = (int32_t)space_u32(p), types = (int32_t)space_u32(p + 4);
    if (direct)
        PROPANE_TRY(objc_text(r, r->s->selector_base + (uint64_t)name, "a selector", &m->name));
    else
        PROPANE_TRY(objc_pointed_text(r, field + (uint64_t)name, "a selector", &m->name));
    return types ? objc_text(r, field + 4 + (uint64_t)types, "a method's types", &m->types) : PROPANE_OK;
}

static propane_status objc_absolute(reader *r, uint64_t entry, macho_method *m) {
    space_pointer types;
    PROPANE_TRY(objc_pointed_text(r, entry, "a selector", &m->name));
    PROPANE_TRY(objc_pointer(r, entry + 8, "a method's types", &types));
    return types.address ? objc_text(r, types.address, "a method's types", &m->types) : PROPANE_OK;
}

static propane_status objc_method_list(reader *r, uint64_t list, bool of_class, bool optional) {
    const uint8_t *p;
    PROPANE_TRY(space_at(r->s, list, 8, "a method list", &p, r->err));
    uint32_t flags = space_u32(p), count = space_u32(p + 4), size = flags & 0xfffc;
    bool is_relative = flags & (uint32_t)LIST_RELATIVE, direct = is_relative && (flags & LIST_DIRECT);
    if (size != (is_relative ? ENTRY_RELATIVE : ENTRY_POINTERS))
        return propane_fail(r->err, PROPANE_ERR_INVALID,
                            "%s: the method list at address 0x%" PRIx64 " has entries of %u bytes, not %d", r->s->name,
                            list, size, is_relative ? ENTRY_RELATIVE : ENTRY_POINTERS);
    if (direct && !r->s->selector_base)
        return propane_fail(r->err, PROPANE_ERR_UNSUPPORTED,
                            "%s: the method list at address 0x%" PRIx64
                            " refers to the shared cache that the image was extracted from; read the cache instead",
                            r->s->name, list);
    PROPANE_TRY(objc_spend(r, 8 + (uint64_t)count * size, "a method list"));
    PROPANE_TRY(space_at(r->s, list + 8, (uint64_t)count * size, "a method list", &p, r->err));
    macho_method *m = objc_grown(r, r->methods, r->method_count, (int)count, &r->method_room, sizeof *m);
    if (!m) return propane_fail_memory(r->err, count * sizeof *m);
    r->methods = m;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t entry = list + 8 + (uint64_t)i * size;
        macho_method *to = &r->methods[r->method_count];
        *to = (macho_method){.of_class = of_class, .optional = optional};
        PROPANE_TRY(is_relative ? objc_relative(r, entry, direct, to) : objc_absolute(r, entry, to));
        r->method_count++;
    }
    return PROPANE_OK;
}

/* Reads one list of methods or protocols. A shared cache combines a class's list with the lists of its categories, as
 * (image, distance) pairs, and objc_list_of_lists calls `use` for each list. */
typedef propane_status list_use(reader *r, uint64_t list, bool of_class, bool optional);

static propane_status objc_list_of_lists(reader *r, uint64_t address, list_use *use, bool of_class, bool optional) {
    const uint8_t *p;
    PROPANE_TRY(space_at(r->s, address, 8, "a list of lists", &p, r->err));
    uint32_t size = space_u32(p), count = space_u32(p + 4);
    if (size != 8)
        return propane_fail(r->err, PROPANE_ERR_INVALID,
                            "%s: the list of lists at address 0x%" PRIx64 " has entries of %u bytes, not 8", r->s->name,
                            address, size);
    PROPANE_TRY(objc_spend(r, 8 + (uint64_t)count * 8, "a list of lists"));
    PROPANE_TRY(space_at(r->s, address + 8, (uint64_t)count * 8, "a list of lists", &p, r->err));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t entry = space_u64(p + (size_t)i * 8), distance = entry >> 16;
        if (distance >> 47) distance |= UINT64_C(0xffff) << 48; /* 48 bits, signed */
        PROPANE_TRY(use(r, address + 8 + (uint64_t)i * 8 + distance, of_class, optional));
    }
    return PROPANE_OK;
}

/* Calls `use` for the list to which the pointer at `field` leads. If the pointer's lowest bit is set, it leads to a
 * list of lists instead, and `use` is called for each of them. A null pointer is allowed. */
static propane_status objc_lists_at(reader *r, uint64_t field, list_use *use, bool of_class, bool optional) {
    space_pointer p;
    PROPANE_TRY(objc_pointer(r, field, "a list", &p));
    if (!p.address) return PROPANE_OK;
    if (p.address & 1) return objc_list_of_lists(r, p.address - 1, use, of_class, optional);
    return use(r, p.address, of_class, optional);
}

static propane_status objc_protocol_list(reader *r, uint64_t list, bool of_class, bool optional) {
    const uint8_t *p;
    PROPANE_TRY(space_at(r->s, list, 8, "a list of protocols", &p, r->err));
    uint64_t count = space_u64(p);
    if (count > r->s->bytes / 8) return objc_spend(r, UINT64_MAX, "a list of protocols");
    PROPANE_TRY(objc_spend(r, 8 + count * 8, "a list of protocols"));
    PROPANE_TRY(space_at(r->s, list + 8, count * 8, "a list of protocols", &p, r->err));
    const char **names = objc_grown(r, r->protocols, r->protocol_count, (int)count, &r->protocol_room, sizeof *names);
    if (!names) return propane_fail_memory(r->err, count * sizeof *names);
    r->protocols = names;
    for (uint64_t i = 0; i < count; i++) {
        space_pointer to;
        PROPANE_TRY(objc_pointer(r, list + 8 + i * 8, "a protocol", &to));
        PROPANE_TRY(objc_pointed_text(r, to.address + 8, "a protocol's name", &r->protocols[r->protocol_count]));
        r->protocol_count++;
    }
    return PROPANE_OK;
}

/* ---- entries ------------------------------------------------------------------------------------------------------- */

/* Sets *out to the address of a class's constant data. The low bits of the pointer are flags. */
static propane_status objc_class_data(reader *r, uint64_t address, uint64_t *out) {
    const uint8_t *p;
    space_pointer data;
    PROPANE_TRY(space_at(r->s, address, CLASS_BYTES, "a class", &p, r->err));
    PROPANE_TRY(objc_pointer(r, address + 32, "a class's data", &data));
    *out = data.address & ~UINT64_C(7);
    return space_at(r->s, *out, CLASS_DATA_BYTES, "a class's data", &p, r->err);
}

static propane_status objc_class_name(reader *r, const space_pointer *to, const char **out) {
    static const char prefix[] = "_OBJC_CLASS_$_";
    *out = NULL;
    if (to->symbol) {
        size_t n = sizeof prefix - 1;
        *out = strncmp(to->symbol, prefix, n) == 0 ? to->symbol + n : to->symbol;
        const uint8_t *c = (const uint8_t *)*out;
        while (*c > 0x20 && *c < 0x7f) c++;
        if (*c)
            return propane_fail(r->err, PROPANE_ERR_INVALID,
                                "%s: a class is bound to a symbol that is not a class name", r->s->name);
    } else if (to->address) {
        uint64_t data;
        PROPANE_TRY(objc_class_data(r, to->address, &data));
        return objc_pointed_text(r, data + 24, "a class's name", out);
    }
    return PROPANE_OK;
}

static propane_status objc_read_class(reader *r, uint64_t address, macho_entry *e) {
    uint64_t data;
    space_pointer meta, super;
    PROPANE_TRY(objc_spend(r, CLASS_BYTES, "a class"));
    PROPANE_TRY(objc_class_data(r, address, &data));
    PROPANE_TRY(objc_pointed_text(r, data + 24, "a class's name", &e->name));
    PROPANE_TRY(objc_pointer(r, address, "a class's metaclass", &meta));
    PROPANE_TRY(objc_pointer(r, address + 8, "a class's superclass", &super));
    PROPANE_TRY(objc_class_name(r, &super, &e->super));
    if (meta.address) {
        uint64_t meta_data;
        PROPANE_TRY(objc_class_data(r, meta.address, &meta_data));
        PROPANE_TRY(objc_lists_at(r, meta_data + 32, objc_method_list, true, false));
    }
    PROPANE_TRY(objc_lists_at(r, data + 32, objc_method_list, false, false));
    return objc_lists_at(r, data + 40, objc_protocol_list, false, false);
}

static propane_status objc_read_category(reader *r, uint64_t address, macho_entry *e) {
    const uint8_t *p;
    space_pointer of;
    PROPANE_TRY(objc_spend(r, CATEGORY_BYTES, "a category"));
    PROPANE_TRY(space_at(r->s, address, CATEGORY_BYTES, "a category", &p, r->err));
    PROPANE_TRY(objc_pointed_text(r, address, "a category's name", &e->name));
    PROPANE_TRY(objc_pointer(r, address + 8, "a category's class", &of));
    PROPANE_TRY(objc_class_name(r, &of, &e->super));
    PROPANE_TRY(objc_lists_at(r, address + 24, objc_method_list, true, false));
    PROPANE_TRY(objc_lists_at(r, address + 16, objc_method_list, false, false));
    return objc_lists_at(r, address + 32, objc_protocol_list, false, false);
}

static propane_status objc_read_protocol(reader *r, uint64_t address, macho_entry *e) {
    const uint8_t *p;
    PROPANE_TRY(objc_spend(r, PROTOCOL_BYTES, "a protocol"));
    PROPANE_TRY(space_at(r->s, address, PROTOCOL_BYTES, "a protocol", &p, r->err));
    PROPANE_TRY(objc_pointed_text(r, address + 8, "a protocol's name", &e->name));
    PROPANE_TRY(objc_lists_at(r, address + 16, objc_protocol_list, false, false));
    PROPANE_TRY(objc_lists_at(r, address + 32, objc_method_list, true, false));
    PROPANE_TRY(objc_lists_at(r, address + 24, objc_method_list, false, false));
    PROPANE_TRY(objc_lists_at(r, address + 48, objc_method_list, true, true));
    return objc_lists_at(r, address + 40, objc_method_list, false, true);
}

typedef propane_status entry_read(reader *r, uint64_t address, macho_entry *e);

static const struct {
    const char *section;
    macho_kind kind;
    entry_read *read;
} tables[] = {{"__objc_classlist", MACHO_CLASS, objc_read_class},
              {"__objc_catlist", MACHO_CATEGORY, objc_read_category},
              {"__objc_catlist2", MACHO_CATEGORY, objc_read_category}, /* categories of Swift classes */
              {"__objc_protolist", MACHO_PROTOCOL, objc_read_protocol}};
enum { TABLES = sizeof tables / sizeof tables[0] };

static propane_status objc_read_section(reader *r, const image_section *section, int table, macho_entry *entries,
                                        int *count) {
    for (uint64_t i = 0; i < section->bytes / 8; i++) {
        space_pointer to;
        macho_entry *e = &entries[*count];
        PROPANE_TRY(objc_pointer(r, section->address + i * 8, tables[table].section, &to));
        if (!to.address) continue; /* weakly bound elsewhere */
        r->methods = NULL;
        r->protocols = NULL;
        r->method_count = r->method_room = r->protocol_count = r->protocol_room = 0;
        e->kind = tables[table].kind;
        PROPANE_TRY(tables[table].read(r, to.address, e));
        e->methods = r->methods;
        e->method_count = r->method_count;
        e->protocols = r->protocols;
        e->protocol_count = r->protocol_count;
        ++*count;
    }
    return PROPANE_OK;
}

propane_status objc_list(const space *s, const image *im, arena *a, macho_listing *out, propane_error *err) {
    reader r = {.s = s, .a = a, .budget = s->bytes, .text = s->bytes * TEXT_FACTOR, .err = err};
    uint64_t most = 0;
    const uint8_t *p;
    for (int t = 0; t < TABLES; t++)
        for (int i = 0; i < im->section_count; i++) {
            const image_section *section = &im->sections[i];
            if (strcmp(section->name, tables[t].section) != 0 || !section->bytes) continue;
            PROPANE_TRY(space_at(s, section->address, section->bytes, section->name, &p, err));
            PROPANE_TRY(objc_spend(&r, section->bytes, section->name));
            most += section->bytes / 8;
        }
    macho_entry *entries = ARENA_ARRAY(a, most + 1, macho_entry);
    if (!entries) return propane_fail_memory(err, most * sizeof *entries);
    for (int t = 0; t < TABLES; t++)
        for (int i = 0; i < im->section_count; i++)
            if (strcmp(im->sections[i].name, tables[t].section) == 0 && im->sections[i].bytes)
                PROPANE_TRY(objc_read_section(&r, &im->sections[i], t, entries, &out->count));
    out->entries = entries;
    return PROPANE_OK;
}
