/* SPDX-License-Identifier: MIT
 * Reads what the loader would fill in. Chained fixups give the pointer format of each segment and the names of the
 * imports. The older form is byte code, which is run to build the table of bound addresses.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ane-lab/macho/macho_image.h"

/* ---- chained ------------------------------------------------------------------------------------------------------- */

enum { CHAIN_HEADER_BYTES = 28, STARTS_BYTES = 22 };

static propane_status fixups_chain_imports(const uint8_t *blob, uint32_t bytes, arena *a, space *s,
                                           propane_error *err) {
    uint32_t at = space_u32(blob + 8), names = space_u32(blob + 12), count = space_u32(blob + 16);
    uint32_t format = space_u32(blob + 20), size = format == 1 ? 4 : format == 2 ? 8 : 16;
    if (format < 1 || format > 3 || space_u32(blob + 24) != 0)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: chained fixups: import format %u or symbol format %u is unknown; formats 1 to 3 and 0 can be read",
            s->name, format, space_u32(blob + 24));
    if (!space_fits(at, (uint64_t)count * size, bytes))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: chained fixups: %u imports do not fit into %u bytes",
                            s->name, count, bytes);
    const char **table = ARENA_ARRAY(a, count + 1, const char *);
    if (!table) return propane_fail_memory(err, count * sizeof *table);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *p = blob + at + i * size;
        uint64_t name = names + (uint64_t)(format == 3 ? space_u32(p + 4) : space_u32(p) >> 9);
        table[i] = space_text_in(blob, bytes, name);
        if (!table[i])
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: chained fixups: the name of import %u is outside the file", s->name, i);
    }
    s->imports = table;
    s->import_count = count;
    return PROPANE_OK;
}

static propane_status fixups_chain_coding(uint16_t format, uint64_t base, space_region *r, const char *name,
                                          propane_error *err) {
    static const struct {
        uint16_t format;
        space_coding coding;
        bool from_base;
    } known[] = {{1, SPACE_CHAIN_ARM64E, true}, /* only signed pointers use the base */
                 {2, SPACE_CHAIN_64, false},
                 {6, SPACE_CHAIN_OFFSET, true},
                 {9, SPACE_CHAIN_ARM64E9, true},
                 {12, SPACE_CHAIN_ARM64E24, true}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].format == format) {
            r->coding = known[i].coding;
            r->base = known[i].from_base ? base : 0;
            return PROPANE_OK;
        }
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: chained fixups: unknown pointer format %u; formats 1, 2, 6, 9 and 12 can be read", name,
                        format);
}

propane_status fixups_chained(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                              propane_error *err) {
    const image_range *range = &im->chains;
    if (!space_fits(range->offset, range->bytes, bytes) || range->bytes < CHAIN_HEADER_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: chained fixups: the %u bytes at offset %u are outside the file", s->name, range->bytes,
                            range->offset);
    const uint8_t *blob = data + range->offset;
    if (space_u32(blob) != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: chained fixups: unknown version %u; only version 0 can be read", s->name,
                            space_u32(blob));
    PROPANE_TRY(fixups_chain_imports(blob, range->bytes, a, s, err));
    uint32_t starts = space_u32(blob + 4);
    uint32_t count = space_fits(starts, 4, range->bytes) ? space_u32(blob + starts) : UINT32_MAX;
    if (count > (uint32_t)s->count || !space_fits(starts, 4 + 4 * (uint64_t)count, range->bytes))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: chained fixups for %u segments, but the file has %d",
                            s->name, count, s->count);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = space_u32(blob + starts + 4 + 4 * i);
        if (!at) continue; /* the segment has no fixups */
        if (!space_fits(starts + at, STARTS_BYTES, range->bytes))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: chained fixups: the chains of segment %u are outside the file", s->name, i);
        PROPANE_TRY(fixups_chain_coding(space_u16(blob + starts + at + 6), im->base, &s->regions[i], s->name, err));
    }
    return PROPANE_OK;
}

/* ---- byte code ----------------------------------------------------------------------------------------------------- */

typedef struct binder {
    const uint8_t *code;
    uint32_t bytes, at;
    bool overrun;
    const char *symbol;
    uint64_t address;
    const space *s;
    space_bind *binds;
    size_t count, room;
} binder;

static uint64_t fixups_uleb(binder *b) {
    uint64_t value = 0;
    for (int shift = 0; b->at < b->bytes; shift += 7) {
        uint8_t byte = b->code[b->at++];
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    b->overrun = true;
    return 0;
}

static propane_status fixups_bad_code(const binder *b, const char *what, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: binding code, byte %u: %s", b->s->name, b->at, what);
}

static propane_status fixups_bind_here(binder *b, uint64_t advance, propane_error *err) {
    if (!b->symbol) return fixups_bad_code(b, "a bind before a symbol is set", err);
    if (space_left(b->s, b->address) < 8) return fixups_bad_code(b, "a bind outside of the file", err);
    if (b->count == b->room) return fixups_bad_code(b, "more binds than the file has pointers", err);
    if (b->binds) b->binds[b->count] = (space_bind){b->address, b->symbol};
    b->count++;
    b->address += 8 + advance;
    return PROPANE_OK;
}

static propane_status fixups_set_symbol(binder *b, propane_error *err) {
    b->symbol = space_text_in(b->code, b->bytes, b->at);
    if (!b->symbol) return fixups_bad_code(b, "a symbol that does not end", err);
    b->at += (uint32_t)strlen(b->symbol) + 1;
    return PROPANE_OK;
}

static propane_status fixups_bind_times(binder *b, propane_error *err) {
    uint64_t times = fixups_uleb(b), skip = fixups_uleb(b);
    for (uint64_t i = 0; i < times && !b->overrun; i++) PROPANE_TRY(fixups_bind_here(b, skip, err));
    return PROPANE_OK;
}

static propane_status fixups_run(binder *b, propane_error *err) {
    while (b->at < b->bytes) {
        uint8_t op = b->code[b->at] & 0xf0, operand = b->code[b->at] & 0x0f;
        b->at++;
        switch (op) {
        case 0x00: return PROPANE_OK;
        case 0x10: /* library and type are not needed */
        case 0x30:
        case 0x50: break;
        case 0x20:
        case 0x60: fixups_uleb(b); break; /* library and addend */
        case 0x40: PROPANE_TRY(fixups_set_symbol(b, err)); break;
        case 0x70:
            if (operand >= b->s->count) return fixups_bad_code(b, "a segment that does not exist", err);
            b->address = b->s->regions[operand].address + fixups_uleb(b);
            break;
        case 0x80: b->address += fixups_uleb(b); break;
        case 0x90: PROPANE_TRY(fixups_bind_here(b, 0, err)); break;
        case 0xa0: PROPANE_TRY(fixups_bind_here(b, fixups_uleb(b), err)); break;
        case 0xb0: PROPANE_TRY(fixups_bind_here(b, operand * UINT64_C(8), err)); break;
        case 0xc0: PROPANE_TRY(fixups_bind_times(b, err)); break;
        default: return fixups_bad_code(b, "an unknown operation (threaded binds of early arm64e are not read)", err);
        }
        if (b->overrun) return fixups_bad_code(b, "a number that does not end", err);
    }
    return PROPANE_OK;
}

static int fixups_by_address(const void *a, const void *b) {
    const space_bind *x = a, *y = b;
    if (x->address != y->address) return x->address < y->address ? -1 : 1;
    return strcmp(x->symbol, y->symbol);
}

propane_status fixups_classic(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                              propane_error *err) {
    const image_range *range = &im->binds;
    if (!space_fits(range->offset, range->bytes, bytes))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: binding code: the %u bytes at offset %u are outside the file", s->name, range->bytes,
                            range->offset);
    binder b = {.code = data + range->offset, .bytes = range->bytes, .s = s, .room = (size_t)(s->bytes / 8)};
    for (int pass = 0; pass < 2; pass++) { /* the first pass counts, the second stores */
        if (pass) {
            b.binds = ARENA_ARRAY(a, b.count + 1, space_bind);
            if (!b.binds) return propane_fail_memory(err, b.count * sizeof *b.binds);
            b.room = b.count;
            b.count = b.at = 0;
            b.symbol = NULL;
            b.address = 0;
        }
        PROPANE_TRY(fixups_run(&b, err));
    }
    qsort(b.binds, b.count, sizeof *b.binds, fixups_by_address);
    s->binds = b.binds;
    s->bind_count = b.count;
    return PROPANE_OK;
}
