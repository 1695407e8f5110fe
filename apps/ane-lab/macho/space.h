/* SPDX-License-Identifier: MIT
 * Reads an address space as the loader would lay it out: regions of addresses with their bytes in the file. Each region
 * has an encoding of pointers: plain, as links of a chain of fixups, or packed by a shared cache. Every read is checked
 * against the regions.
 */
#ifndef APPS_ANE_LAB_MACHO_SPACE_H
#define APPS_ANE_LAB_MACHO_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"

typedef enum space_coding {
    SPACE_PLAIN,         /* the address itself; values bound to symbols are in a table */
    SPACE_CHAIN_64,      /* chained, 36 bits of address */
    SPACE_CHAIN_OFFSET,  /* chained, 36 bits from the image's start */
    SPACE_CHAIN_ARM64E,  /* chained, 43 bits of address, signed pointers with 32 bits from the start, 16-bit ordinals */
    SPACE_CHAIN_ARM64E9, /* like ARM64E, but all addresses count from the start */
    SPACE_CHAIN_ARM64E24, /* like ARM64E9, with 24-bit ordinals */
    SPACE_CACHE_2,        /* a mask selects the bits of the address */
    SPACE_CACHE_3,        /* 43 bits of address; signed pointers have 32 bits from the cache's start */
    SPACE_CACHE_5         /* 34 bits from the cache's start */
} space_coding;

typedef struct space_region {
    uint64_t address, bytes; /* bytes in the file; a zero-filled rest is not included */
    const uint8_t *data;
    space_coding coding;
    uint64_t base, mask; /* `base` is added to offsets; `mask` has the bits of SPACE_CACHE_2 that are not address */
} space_region;

typedef struct space_bind {
    uint64_t address;
    const char *symbol;
} space_bind;

typedef struct space {
    const char *name; /* name of the file, for messages */
    space_region *regions;
    int count;
    const char *const *imports; /* for chained binds, by ordinal */
    uint32_t import_count;
    const space_bind *binds; /* for SPACE_PLAIN, sorted by address */
    size_t bind_count;
    uint64_t selector_base; /* base of the selectors in a shared cache's method lists; 0 if there is none */
    uint64_t bytes;         /* total of all regions, which bounds the number of items in them */
} space;

typedef struct space_pointer {
    uint64_t address;
    const char *symbol; /* the symbol to which the pointer is bound (`address` is then 0), or NULL */
} space_pointer;

static inline uint16_t space_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t space_u32(const uint8_t *p) { return space_u16(p) | (uint32_t)space_u16(p + 2) << 16; }
static inline uint64_t space_u64(const uint8_t *p) { return space_u32(p) | (uint64_t)space_u32(p + 4) << 32; }

/* Sets *out to the `bytes` bytes at an address. `what` describes the data in the error: "NAME: WHAT: the N bytes at
 * address 0x... are outside the file". */
PROPANE_CHECK propane_status space_at(const space *s, uint64_t address, uint64_t bytes, const char *what,
                                      const uint8_t **out, propane_error *err);
/* Returns how many bytes a region has from the address on, or 0 if no region contains the address. */
uint64_t space_left(const space *s, uint64_t address);
PROPANE_CHECK propane_status space_read_pointer(const space *s, uint64_t address, const char *what, space_pointer *out,
                                                propane_error *err);
/* Sets *out to a terminated string of printable UTF-8 in the file. */
PROPANE_CHECK propane_status space_read_text(const space *s, uint64_t address, const char *what, const char **out,
                                             propane_error *err);

/* Returns whether [offset, offset + bytes) is within `size`. */
static inline bool space_fits(uint64_t offset, uint64_t bytes, uint64_t size) {
    return offset <= size && bytes <= size - offset;
}
/* Returns a terminated string at data[offset], or NULL if it does not end within `size`. */
const char *space_text_in(const uint8_t *data, uint64_t size, uint64_t offset);

#endif
