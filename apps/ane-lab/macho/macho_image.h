/* SPDX-License-Identifier: MIT
 * Reads load commands: the segments, sections and fixups in a Mach-O header. Only for the readers of single files and
 * of caches.
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

typedef struct image_range { /* a range of the file */
    uint32_t offset, bytes;
} image_range;

typedef struct image {
    uint32_t cpu, subtype, type;
    int segment_count, section_count;
    image_segment *segments;
    image_section *sections;
    image_range binds, chains; /* `bytes` is 0 if there are none */
    uint64_t base;             /* the address of the header */
} image;

/* Parses header and commands at data[0..bytes), which need not be the whole file. `name` is for messages. */
PROPANE_CHECK propane_status image_parse(const uint8_t *data, uint64_t bytes, const char *name, arena *a, image *out,
                                         propane_error *err);
/* Returns "arm64e", "x86_64", ..., or NULL if the architecture is not supported. */
const char *image_arch(uint32_t cpu, uint32_t subtype);

/* Builds the address space of a single image, including fixups (in fixups.c). */
PROPANE_CHECK propane_status image_space(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                                         propane_error *err);
PROPANE_CHECK propane_status fixups_chained(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                                            propane_error *err);
PROPANE_CHECK propane_status fixups_classic(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                                            propane_error *err);

#endif
