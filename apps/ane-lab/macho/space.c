/* SPDX-License-Identifier: MIT
 * Reads through addresses. A pointer is decoded in place. All pointers of a region are encoded in the same way, so the
 * chains that link them need not be walked.
 */
#include "apps/ane-lab/macho/space.h"

#include <inttypes.h>
#include <string.h>

/* Addresses have 47 bits; the bits above are tags and keys. */
static const uint64_t address_bits = 0x7fffffffffff;

static const space_region *space_find(const space *s, uint64_t address) {
    for (int i = 0; i < s->count; i++)
        if (address >= s->regions[i].address && address - s->regions[i].address < s->regions[i].bytes)
            return &s->regions[i];
    return NULL;
}

uint64_t space_left(const space *s, uint64_t address) {
    const space_region *r = space_find(s, address);
    return r ? r->bytes - (address - r->address) : 0;
}

propane_status space_at(const space *s, uint64_t address, uint64_t bytes, const char *what, const uint8_t **out,
                        propane_error *err) {
    const space_region *r = space_find(s, address);
    if (!r || bytes > r->bytes - (address - r->address))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %s: the %" PRIu64 " bytes at address 0x%" PRIx64 " are outside the file", s->name,
                            what, bytes, address);
    *out = r->data + (address - r->address);
    return PROPANE_OK;
}

static propane_status space_import_name(const space *s, uint64_t ordinal, const char *what, space_pointer *out,
                                        propane_error *err) {
    if (ordinal >= s->import_count)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is bound to import %" PRIu64 " of %u", s->name, what,
                            ordinal, s->import_count);
    *out = (space_pointer){.symbol = s->imports[ordinal]};
    return PROPANE_OK;
}

static const char *space_bound_symbol(const space *s, uint64_t address) {
    size_t low = 0, high = s->bind_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->binds[mid].address < address)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->bind_count && s->binds[low].address == address ? s->binds[low].symbol : NULL;
}

propane_status space_read_pointer(const space *s, uint64_t address, const char *what, space_pointer *out,
                                  propane_error *err) {
    const uint8_t *p;
    PROPANE_TRY(space_at(s, address, 8, what, &p, err));
    const space_region *r = space_find(s, address);
    uint64_t raw = space_u64(p), value = 0;
    bool top = raw >> 63, bind = r->coding >= SPACE_CHAIN_ARM64E && (raw >> 62 & 1);
    *out = (space_pointer){0};
    switch (r->coding) {
    case SPACE_PLAIN:
        out->symbol = space_bound_symbol(s, address);
        if (out->symbol) return PROPANE_OK;
        value = raw;
        break;
    case SPACE_CHAIN_64:
    case SPACE_CHAIN_OFFSET:
        if (top) return space_import_name(s, raw & 0xffffff, what, out, err);
        value = raw ? (raw & 0xfffffffff) + r->base : 0;
        break;
    case SPACE_CHAIN_ARM64E:
    case SPACE_CHAIN_ARM64E9:
    case SPACE_CHAIN_ARM64E24:
        if (bind)
            return space_import_name(s, raw & (r->coding == SPACE_CHAIN_ARM64E24 ? 0xffffff : 0xffff), what, out, err);
        if (!raw) break;
        value = top                               ? r->base + (raw & 0xffffffff)
                : r->coding == SPACE_CHAIN_ARM64E ? raw & 0x7ffffffffff
                                                  : r->base + (raw & 0x7ffffffffff);
        break;
    case SPACE_CACHE_2:
        value = raw & ~r->mask;
        if (value) value += r->base;
        break;
    case SPACE_CACHE_3: value = !raw ? 0 : top ? r->base + (raw & 0xffffffff) : raw & 0x7ffffffffff; break;
    case SPACE_CACHE_5: value = raw ? r->base + (raw & 0x3ffffffff) : 0; break;
    }
    out->address = value & address_bits;
    return PROPANE_OK;
}

/* Returns the number of bytes of the UTF-8 character at p, or 0 if the character is invalid or a control character.
 * `left` must be at least 1. */
static size_t space_character(const uint8_t *p, size_t left) {
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : 4;
    if (n == 1) return p[0] >= 0x20 && p[0] != 0x7f;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf4 && p[1] > 0x8f) || (p[0] == 0xc2 && p[1] < 0xa0);
    return overlong || beyond ? 0 : n;
}

propane_status space_read_text(const space *s, uint64_t address, const char *what, const char **out,
                               propane_error *err) {
    const uint8_t *p;
    PROPANE_TRY(space_at(s, address, 1, what, &p, err));
    uint64_t left = space_left(s, address), n;
    for (uint64_t i = 0; i < left; i += n) {
        if (!p[i]) {
            *out = (const char *)p;
            return PROPANE_OK;
        }
        n = space_character(p + i, left - i);
        if (!n)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: %s at address 0x%" PRIx64 " is not text: byte 0x%02x at %" PRIu64, s->name, what,
                                address, p[i], i);
    }
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s at address 0x%" PRIx64 " does not end within the file",
                        s->name, what, address);
}

const char *space_text_in(const uint8_t *data, uint64_t size, uint64_t offset) {
    if (offset >= size || !memchr(data + offset, 0, size - offset)) return NULL;
    return (const char *)data + offset;
}
