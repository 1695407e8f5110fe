/* SPDX-License-Identifier: MIT
 * dyld shared caches: the system's libraries in one address space over several files. Only for macho.c.
 */
#ifndef APPS_ANE_LAB_MACHO_CACHE_H
#define APPS_ANE_LAB_MACHO_CACHE_H

#include "apps/ane-lab/macho/space.h"
#include "core/base/file.h"

typedef struct cache_image {
    uint64_t address; /* address of its Mach-O header */
    const char *path;
} cache_image;

typedef struct cache {
    const char *arch;
    space space;
    cache_image *images;
    int image_count;
    file_map *parts; /* the further files, mapped */
    int part_count;
} cache;

bool cache_is(const uint8_t *data, uint64_t bytes);
/* `path` is that of the main file, or NULL for data in memory. Memory comes from the arena; cache_close unmaps the
 * further files. */
PROPANE_CHECK propane_status cache_open(const uint8_t *data, uint64_t bytes, const char *path, const char *name,
                                        arena *a, cache *out, propane_error *err);
void cache_close(cache *c);

#endif
