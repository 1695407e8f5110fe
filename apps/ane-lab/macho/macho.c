/* SPDX-License-Identifier: MIT
 * Owns opened files. Distinguishes thin files, fat files and caches, and passes each image to the readers of its parts.
 */
#include "apps/ane-lab/macho/macho.h"

#include <inttypes.h>
#include <string.h>

#include "apps/ane-lab/macho/cache.h"
#include "apps/ane-lab/macho/objc.h"
#include "core/base/file.h"
#include "core/base/memory.h"

typedef struct slice {
    const uint8_t *data;
    uint64_t bytes;
    const char *arch;
} slice;

struct macho_file {
    const char *name;
    arena *a;
    file_map map; /* empty if the bytes belong to the caller */
    bool is_cache;
    cache cache;
    slice *slices;
    int slice_count;
};

enum { FAT_BYTES = 8, SLICES_MOST = 64 };

static uint32_t macho_big_u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static uint64_t macho_big_u64(const uint8_t *p) { return (uint64_t)macho_big_u32(p) << 32 | macho_big_u32(p + 4); }

static propane_status macho_open_fat(macho_file *f, const uint8_t *data, uint64_t bytes, bool wide,
                                     propane_error *err) {
    uint32_t count = macho_big_u32(data + 4), row = wide ? 32 : 20;
    if (count > SLICES_MOST || !space_fits(FAT_BYTES, (uint64_t)count * row, bytes))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: a fat file of %" PRIu64 " bytes cannot have %u architectures", f->name, bytes, count);
    f->slices = ARENA_ARRAY(f->a, count + 1, slice);
    if (!f->slices) return propane_fail_memory(err, count * sizeof *f->slices);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *p = data + FAT_BYTES + i * row;
        uint64_t offset = wide ? macho_big_u64(p + 8) : macho_big_u32(p + 8),
                 size = wide ? macho_big_u64(p + 16) : macho_big_u32(p + 12);
        const char *arch = image_arch(macho_big_u32(p), macho_big_u32(p + 4));
        if (!space_fits(offset, size, bytes))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: architecture %u: %" PRIu64 " bytes at offset %" PRIu64
                                " are outside the file of %" PRIu64 " bytes",
                                f->name, i, size, offset, bytes);
        if (arch) f->slices[f->slice_count++] = (slice){data + offset, size, arch};
    }
    if (!f->slice_count)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: a fat file without arm64 or x86_64", f->name);
    return PROPANE_OK;
}

static propane_status macho_open_thin(macho_file *f, const uint8_t *data, uint64_t bytes, propane_error *err) {
    image im;
    PROPANE_TRY(image_parse(data, bytes, f->name, f->a, &im, err));
    const char *arch = image_arch(im.cpu, im.subtype);
    if (!arch)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: a Mach-O file for CPU type 0x%x; only arm64 and x86_64 can be read", f->name, im.cpu);
    f->slices = ARENA_NEW(f->a, slice);
    if (!f->slices) return propane_fail_memory(err, sizeof *f->slices);
    f->slices[f->slice_count++] = (slice){data, bytes, arch};
    return PROPANE_OK;
}

static propane_status macho_open_bytes(macho_file *f, const uint8_t *data, uint64_t bytes, const char *path,
                                       propane_error *err) {
    f->is_cache = cache_is(data, bytes);
    if (f->is_cache) return cache_open(data, bytes, path, f->name, f->a, &f->cache, err);
    uint32_t magic = bytes >= FAT_BYTES ? macho_big_u32(data) : 0;
    if (magic == 0xcafebabe || magic == 0xcafebabf) return macho_open_fat(f, data, bytes, magic == 0xcafebabf, err);
    return macho_open_thin(f, data, bytes, err);
}

static propane_status macho_create(const char *name, macho_file **out, propane_error *err) {
    macho_file *f = mem_alloc(sizeof *f);
    if (f) f->a = arena_create();
    if (f && f->a) f->name = arena_string(f->a, name);
    if (!f || !f->name) {
        macho_close(f);
        return propane_fail_memory(err, sizeof *f);
    }
    *out = f;
    return PROPANE_OK;
}

propane_status macho_open_data(const void *data, size_t bytes, const char *name, macho_file **out, propane_error *err) {
    *out = NULL;
    macho_file *f;
    PROPANE_TRY(macho_create(name, &f, err));
    propane_status status = macho_open_bytes(f, data, bytes, NULL, err);
    if (status != PROPANE_OK)
        macho_close(f);
    else
        *out = f;
    return status;
}

propane_status macho_open(const char *path, macho_file **out, propane_error *err) {
    *out = NULL;
    macho_file *f;
    PROPANE_TRY(macho_create(path, &f, err));
    propane_status status = file_map_open(path, &f->map, err);
    if (status == PROPANE_OK) status = macho_open_bytes(f, f->map.data, f->map.bytes, path, err);
    if (status != PROPANE_OK)
        macho_close(f);
    else
        *out = f;
    return status;
}

void macho_close(macho_file *f) {
    if (!f) return;
    cache_close(&f->cache);
    if (f->map.data) file_map_close(&f->map);
    arena_free(f->a);
    mem_free(f);
}

bool macho_is_cache(const macho_file *f) { return f->is_cache; }
int macho_image_count(const macho_file *f) { return f->is_cache ? f->cache.image_count : f->slice_count; }

const char *macho_image_name(const macho_file *f, int index) {
    return f->is_cache ? f->cache.images[index].path : f->slices[index].arch;
}

int macho_image_find(const macho_file *f, const char *name) {
    for (int i = 0; i < macho_image_count(f); i++) {
        const char *full = macho_image_name(f, i), *last = strrchr(full, '/');
        if (strcmp(full, name) == 0 || (last && strcmp(last + 1, name) == 0)) return i;
    }
    return -1;
}

static propane_status macho_list_cached(const macho_file *f, const cache_image *from, arena *a, macho_listing *out,
                                        propane_error *err) {
    const uint8_t *header;
    image im;
    PROPANE_TRY(space_at(&f->cache.space, from->address, 32, from->path, &header, err));
    PROPANE_TRY(image_parse(header, space_left(&f->cache.space, from->address), from->path, a, &im, err));
    *out = (macho_listing){.image = from->path, .arch = f->cache.arch};
    return objc_list(&f->cache.space, &im, a, out, err);
}

propane_status macho_list(const macho_file *f, int index, arena *a, macho_listing *out, propane_error *err) {
    *out = (macho_listing){0};
    if (index < 0 || index >= macho_image_count(f))
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no image %d", f->name, index);
    if (f->is_cache) return macho_list_cached(f, &f->cache.images[index], a, out, err);
    const slice *part = &f->slices[index];
    image im;
    space s = {.name = f->name};
    PROPANE_TRY(image_parse(part->data, part->bytes, f->name, a, &im, err));
    PROPANE_TRY(image_space(part->data, part->bytes, &im, a, &s, err));
    *out = (macho_listing){.image = f->name, .arch = part->arch};
    return objc_list(&s, &im, a, out, err);
}
