/* SPDX-License-Identifier: MIT
 * Reads shared caches: header, mappings with their slide information (which defines how pointers are packed), the
 * further files, the list of images, and the base of the method lists' selectors. The header grew over the years. It
 * ends where the list of mappings begins, and a field exists if it ends before that.
 */
#include "apps/ane-lab/macho/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/ane-lab/macho/macho_image.h"

enum {
    AT_MAPPINGS = 0x10, /* offset and count of the plain mappings */
    AT_OLD_IMAGES = 0x18,
    AT_SLIDE_MAPPINGS = 0x138, /* offset and count of the mappings with slide information */
    AT_PARTS = 0x188,
    AT_IMAGES = 0x1c0,
    AT_SUBTYPE = 0x1c8, /* headers with this field list the names of their further files */
    AT_OBJC = 0x1d0,
    MAPPING_BYTES = 32,
    SLIDE_MAPPING_BYTES = 56,
    IMAGE_BYTES = 32,
    PARTS_MOST = 512
};

bool cache_is(const uint8_t *data, uint64_t bytes) { return bytes >= 16 && memcmp(data, "dyld_v1", 7) == 0; }

static const char *cache_arch_of(const uint8_t *data) {
    static const char *const known[] = {"arm64e", "x86_64h", "x86_64", "arm64"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (size_t at = 7; at < 16; at++)
            if (data[at] != ' ') {
                size_t n = strlen(known[i]);
                if (16 - at > n && memcmp(data + at, known[i], n) == 0 && !data[at + n]) return known[i];
                break;
            }
    return NULL;
}

/* ---- one file ------------------------------------------------------------------------------------------------------ */

typedef struct part {
    const uint8_t *data;
    uint64_t bytes, header; /* `header` is the offset of the header's end */
    const char *name;
} part;

static propane_status cache_broken(const part *p, const char *what, propane_error *err) {
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: shared cache: %s outside the file", p->name, what);
}

static propane_status cache_part_init(const uint8_t *data, uint64_t bytes, const char *name, part *out,
                                      propane_error *err) {
    *out = (part){data, bytes, 0, name};
    if (bytes < AT_OLD_IMAGES + 8 || !cache_is(data, bytes)) return cache_broken(out, "its header is", err);
    if (!cache_arch_of(data))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: a shared cache for '%.9s'; only arm64, arm64e and x86_64 can be read", name, data + 7);
    out->header = space_u32(data + AT_MAPPINGS);
    if (out->header > bytes) return cache_broken(out, "its mappings are", err);
    return PROPANE_OK;
}

static bool cache_has(const part *p, uint64_t end_of_field) { return p->header >= end_of_field; }

/* Reads how the pointers of a mapping are packed. */
static propane_status cache_slide_coding(const part *p, uint64_t at, uint64_t bytes, space_region *r,
                                         propane_error *err) {
    if (!bytes) return PROPANE_OK;
    if (bytes < 40 || !space_fits(at, bytes, p->bytes)) return cache_broken(p, "a mapping's slide information is", err);
    const uint8_t *info = p->data + at;
    switch (space_u32(info)) {
    case 2:
        r->coding = SPACE_CACHE_2;
        r->mask = space_u64(info + 24);
        r->base = space_u64(info + 32);
        return PROPANE_OK;
    case 3:
    case 5:
        r->coding = space_u32(info) == 3 ? SPACE_CACHE_3 : SPACE_CACHE_5;
        r->base = space_u64(info + 16);
        return PROPANE_OK;
    default:
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: unknown slide info version %u; versions 2, 3 and 5 can be read", p->name,
                            space_u32(info));
    }
}

static propane_status cache_add_mapping(const part *p, const uint8_t *m, bool slides, space *s, propane_error *err) {
    space_region *r = &s->regions[s->count];
    *r = (space_region){.address = space_u64(m), .bytes = space_u64(m + 8), .coding = SPACE_PLAIN};
    uint64_t offset = space_u64(m + 16);
    if (!space_fits(offset, r->bytes, p->bytes) || r->address > UINT64_MAX - r->bytes)
        return cache_broken(p, "a mapping is", err);
    r->data = p->data + offset;
    s->count++;
    s->bytes += r->bytes;
    return slides ? cache_slide_coding(p, space_u64(m + 24), space_u64(m + 32), r, err) : PROPANE_OK;
}

static propane_status cache_add_mappings(const part *p, arena *a, space *s, propane_error *err) {
    bool slides = cache_has(p, AT_SLIDE_MAPPINGS + 8) && space_u32(p->data + AT_SLIDE_MAPPINGS + 4);
    uint32_t field = slides ? AT_SLIDE_MAPPINGS : AT_MAPPINGS, size = slides ? SLIDE_MAPPING_BYTES : MAPPING_BYTES;
    uint64_t at = space_u32(p->data + field), count = space_u32(p->data + field + 4);
    if (!space_fits(at, count * size, p->bytes)) return cache_broken(p, "its mappings are", err);
    space_region *more = ARENA_ARRAY(a, (uint64_t)s->count + count + 1, space_region);
    if (!more) return propane_fail_memory(err, count * sizeof *more);
    if (s->count) memcpy(more, s->regions, (size_t)s->count * sizeof *more);
    s->regions = more;
    uint64_t before = s->bytes;
    for (uint64_t i = 0; i < count; i++) PROPANE_TRY(cache_add_mapping(p, p->data + at + i * size, slides, s, err));
    if (s->bytes - before > p->bytes)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: shared cache: its mappings overlap", p->name);
    return PROPANE_OK;
}

/* ---- the other files ----------------------------------------------------------------------------------------------- */

static propane_status cache_open_part(cache *c, const char *path, arena *a, propane_error *err) {
    file_map *map = &c->parts[c->part_count];
    part p;
    PROPANE_TRY(file_map_open(path, map, err));
    c->part_count++;
    PROPANE_TRY(cache_part_init(map->data, map->bytes, path, &p, err));
    return cache_add_mappings(&p, a, &c->space, err);
}

static propane_status cache_open_parts(const part *p, const char *path, arena *a, cache *c, propane_error *err) {
    if (!cache_has(p, AT_PARTS + 8)) return PROPANE_OK;
    bool named = cache_has(p, AT_SUBTYPE + 4);
    uint64_t at = space_u32(p->data + AT_PARTS), count = space_u32(p->data + AT_PARTS + 4), size = named ? 56 : 24;
    if (!count) return PROPANE_OK;
    if (!space_fits(at, count * size, p->bytes) || count > PARTS_MOST)
        return cache_broken(p, "the list of its further files is", err);
    if (!path)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: a shared cache split into several files must be opened by its path", p->name);
    c->parts = ARENA_ARRAY(a, count, file_map);
    if (!c->parts) return propane_fail_memory(err, count * sizeof *c->parts);
    for (uint64_t i = 0; i < count; i++) {
        const char *suffix = (const char *)p->data + at + i * size + 24;
        if (named && (!memchr(suffix, 0, 32) || suffix[0] != '.' || strchr(suffix, '/')))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: shared cache: the name of subcache file %" PRIu64 " is invalid", p->name, i);
        char *other = named ? arena_printf(a, "%s%s", path, suffix) : arena_printf(a, "%s.%" PRIu64, path, i + 1);
        if (!other) return propane_fail_memory(err, strlen(path) + 32);
        PROPANE_TRY(cache_open_part(c, other, a, err));
    }
    return PROPANE_OK;
}

/* ---- images and selectors ------------------------------------------------------------------------------------------ */

static propane_status cache_read_images(const part *p, arena *a, cache *c, propane_error *err) {
    uint32_t field = cache_has(p, AT_IMAGES + 8) && space_u32(p->data + AT_IMAGES + 4) ? AT_IMAGES : AT_OLD_IMAGES;
    uint64_t at = space_u32(p->data + field), count = space_u32(p->data + field + 4);
    if (!space_fits(at, count * IMAGE_BYTES, p->bytes)) return cache_broken(p, "its list of images is", err);
    c->images = ARENA_ARRAY(a, count + 1, cache_image);
    if (!c->images) return propane_fail_memory(err, count * sizeof *c->images);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *row = p->data + at + i * IMAGE_BYTES;
        const char *path = space_text_in(p->data, p->bytes, space_u32(row + 24));
        if (!path || strlen(path) > 4096) return cache_broken(p, "an image's path is", err);
        c->images[c->image_count++] = (cache_image){space_u64(row), path};
    }
    return PROPANE_OK;
}

/* Finds the selectors' base in a cache from before macOS 13. A section of the Objective-C library stores the base
 * relative to that section. */
static propane_status cache_selectors_from_library(cache *c, arena *a, propane_error *err) {
    for (int i = 0; i < c->image_count; i++) {
        if (strcmp(c->images[i].path, "/usr/lib/libobjc.A.dylib") != 0) continue;
        const uint8_t *header, *table;
        image im;
        PROPANE_TRY(space_at(&c->space, c->images[i].address, 32, "the Objective-C library", &header, err));
        PROPANE_TRY(image_parse(header, space_left(&c->space, c->images[i].address), c->images[i].path, a, &im, err));
        for (int k = 0; k < im.section_count; k++) {
            const image_section *section = &im.sections[k];
            if (strcmp(section->name, "__objc_opt_ro") != 0 || section->bytes < 48) continue;
            PROPANE_TRY(space_at(&c->space, section->address, 48, "the Objective-C tables", &table, err));
            if (space_u32(table) >= 16) c->space.selector_base = section->address + space_u64(table + 40);
        }
    }
    return PROPANE_OK;
}

static propane_status cache_read_selector_base(const part *p, arena *a, cache *c, propane_error *err) {
    uint64_t start = c->space.count ? c->space.regions[0].address : 0;
    if (!cache_has(p, AT_OBJC + 8) || !space_u64(p->data + AT_OBJC)) return cache_selectors_from_library(c, a, err);
    const uint8_t *table;
    PROPANE_TRY(space_at(&c->space, start + space_u64(p->data + AT_OBJC), 56, "the Objective-C tables", &table, err));
    c->space.selector_base = start + space_u64(table + 48);
    return PROPANE_OK;
}

propane_status cache_open(const uint8_t *data, uint64_t bytes, const char *path, const char *name, arena *a, cache *out,
                          propane_error *err) {
    part p;
    *out = (cache){.space.name = name};
    PROPANE_TRY(cache_part_init(data, bytes, name, &p, err));
    out->arch = cache_arch_of(data);
    PROPANE_TRY(cache_add_mappings(&p, a, &out->space, err));
    PROPANE_TRY(cache_open_parts(&p, path, a, out, err));
    PROPANE_TRY(cache_read_images(&p, a, out, err));
    return cache_read_selector_base(&p, a, out, err);
}

void cache_close(cache *c) {
    for (int i = 0; i < c->part_count; i++) file_map_close(&c->parts[i]);
    c->part_count = 0;
}
