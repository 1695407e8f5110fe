/* SPDX-License-Identifier: MIT
 * Reads dyld shared caches: the system's libraries in one address space, stored in one or more files. Only for macho.c.
 */
#ifndef APPS_ANE_LAB_MACHO_CACHE_H
#define APPS_ANE_LAB_MACHO_CACHE_H

#include "apps/ane-lab/macho/space.h"
#include "core/base/file.h"

typedef struct cache_image {
    uint64_t address; /* address of the image's Mach-O header */
    const char *path;
} cache_image;

typedef struct cache {
    const char *arch;
    space space;
    cache_image *images;
    int image_count;
    file_map *parts; /* mappings of the further files */
    int part_count;
} cache;

bool cache_is(const uint8_t *data, uint64_t bytes);
/* Opens the cache whose main file is data[0..bytes). `path` is the main file's path, or NULL for data in memory. Memory
 * comes from the arena; cache_close unmaps the further files. */
PROPANE_CHECK propane_status cache_open(const uint8_t *data, uint64_t bytes, const char *path, const char *name,
                                        arena *a, cache *out, propane_error *err);
void cache_close(cache *c);

#endif
