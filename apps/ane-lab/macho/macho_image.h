/* SPDX-License-Identifier: MIT
 * Load commands: what a Mach-O header says of segments, sections, fixups. Shared by single files and caches; not for
 * others.
 */
#ifndef APPS_ANE_LAB_MACHO_MACHO_IMAGE_H
#define APPS_ANE_LAB_MACHO_MACHO_IMAGE_H

#include "apps/ane-lab/macho/space.h"

typedef struct image_segment {
    uint64_t address, bytes, offset, file_bytes;
} image_segment;

typedef struct image_section {
    char name[17];
    uint64_t address, bytes;
} image_section;

typedef struct image_range { /* of the file */
    uint32_t offset, bytes;
} image_range;

typedef struct image {
    uint32_t cpu, subtype, type;
    int segment_count, section_count;
    image_segment *segments;
    image_section *sections;
    image_range binds, chains; /* bytes 0: none */
    uint64_t base;             /* the address of the header itself */
} image;

/* Reads header and commands at data[0..bytes), which need not be the whole file. `name` is for messages. */
PROPANE_CHECK propane_status image_parse(const uint8_t *data, uint64_t bytes, const char *name, arena *a, image *out,
                                         propane_error *err);
/* "arm64e", "x86_64", ...; NULL: not one that is read here. */
const char *image_arch(uint32_t cpu, uint32_t subtype);

/* The space of one single image, fixups included (fixups.c does these). */
PROPANE_CHECK propane_status image_space(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                                         propane_error *err);
PROPANE_CHECK propane_status fixups_chained(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                                            propane_error *err);
PROPANE_CHECK propane_status fixups_classic(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                                            propane_error *err);

#endif
