/* SPDX-License-Identifier: MIT
 * Reads Mach-O headers of 64-bit little-endian images. The errors for other images, and for unlinked objects, name
 * their kind.
 */
#include "apps/ane-lab/macho/macho_image.h"

#include <inttypes.h>
#include <string.h>

enum {
    MAGIC_64 = (int)0xfeedfacf,
    HEADER_BYTES = 32,
    SEGMENT_BYTES = 72,
    SECTION_BYTES = 80,
    TYPE_OBJECT = 1,
    COMMAND_SEGMENT_64 = 0x19,
    COMMAND_DYLD_INFO = 0x22,
    COMMAND_CHAINED_FIXUPS = 0x34,
    COMMAND_REQUIRED = (int)0x80000000, /* a flag: the loader must support the command */
    CPU_X86_64 = 0x01000007,
    CPU_ARM64 = 0x0100000c
};

const char *image_arch(uint32_t cpu, uint32_t subtype) {
    subtype &= 0xffffff; /* the bits above are capabilities */
    if (cpu == CPU_ARM64) return subtype == 2 ? "arm64e" : "arm64";
    if (cpu == CPU_X86_64) return subtype == 8 ? "x86_64h" : "x86_64";
    return NULL;
}

static propane_status macho_image_parse_segment(const uint8_t *command, uint32_t size, int index, const char *name,
                                                image *im, propane_error *err) {
    uint32_t sections = size >= SEGMENT_BYTES ? space_u32(command + 64) : 0;
    if (size < SEGMENT_BYTES || sections > (size - SEGMENT_BYTES) / SECTION_BYTES)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: load command %d: a segment of %u bytes cannot hold %u sections", name, index, size,
                            sections);
    im->segments[im->segment_count++] = (image_segment){space_u64(command + 24), space_u64(command + 32),
                                                        space_u64(command + 40), space_u64(command + 48)};
    for (uint32_t i = 0; i < sections; i++) {
        const uint8_t *s = command + SEGMENT_BYTES + i * SECTION_BYTES;
        image_section *to = &im->sections[im->section_count++];
        memcpy(to->name, s, 16);
        to->address = space_u64(s + 32);
        to->bytes = space_u64(s + 40);
    }
    return PROPANE_OK;
}

static propane_status macho_image_parse_command(const uint8_t *command, uint32_t size, int index, const char *name,
                                                image *im, propane_error *err) {
    uint32_t kind = space_u32(command) & ~(uint32_t)COMMAND_REQUIRED;
    if (kind == COMMAND_SEGMENT_64) return macho_image_parse_segment(command, size, index, name, im, err);
    if ((kind == COMMAND_DYLD_INFO && size < 24) || (kind == COMMAND_CHAINED_FIXUPS && size < 16))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: load command %d (0x%x) has only %u bytes", name, index, kind,
                            size);
    if (kind == COMMAND_DYLD_INFO) im->binds = (image_range){space_u32(command + 16), space_u32(command + 20)};
    if (kind == COMMAND_CHAINED_FIXUPS) im->chains = (image_range){space_u32(command + 8), space_u32(command + 12)};
    return PROPANE_OK;
}

propane_status image_parse(const uint8_t *data, uint64_t bytes, const char *name, arena *a, image *out,
                           propane_error *err) {
    *out = (image){0};
    uint32_t magic = bytes >= 4 ? space_u32(data) : 0;
    if (magic == 0xfeedface || magic == 0xcefaedfe || magic == 0xcffaedfe)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: a Mach-O file for a 32-bit or big-endian processor; only 64-bit little-endian files can be read",
            name);
    if (magic != (uint32_t)MAGIC_64)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: neither a Mach-O file nor a dyld shared cache", name);
    uint32_t count = bytes >= HEADER_BYTES ? space_u32(data + 16) : 0;
    uint32_t room = bytes >= HEADER_BYTES ? space_u32(data + 20) : 0;
    if (bytes < HEADER_BYTES || room > bytes - HEADER_BYTES || count > room / 8)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %u load commands of %u bytes do not fit into the file of %" PRIu64 " bytes", name,
                            count, room, bytes);
    out->cpu = space_u32(data + 4);
    out->subtype = space_u32(data + 8);
    out->type = space_u32(data + 12);
    if (out->type == TYPE_OBJECT)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: an object file, whose addresses are not known yet; link it first", name);
    out->segments = ARENA_ARRAY(a, count + 1, image_segment);
    out->sections = ARENA_ARRAY(a, room / SECTION_BYTES + 1, image_section);
    if (!out->segments || !out->sections) return propane_fail_memory(err, room);
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *command = data + HEADER_BYTES + at;
        uint32_t size = room - at >= 8 ? space_u32(command + 4) : 0;
        if (size < 8 || size > room - at)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: load command %u needs %u bytes, but %u are left", name,
                                i, size, room - at);
        PROPANE_TRY(macho_image_parse_command(command, size, (int)i, name, out, err));
        at += size;
    }
    for (int i = 0; i < out->segment_count; i++)
        if (out->segments[i].offset == 0 && out->segments[i].file_bytes) out->base = out->segments[i].address;
    return PROPANE_OK;
}

propane_status image_space(const uint8_t *data, uint64_t bytes, const image *im, arena *a, space *s,
                           propane_error *err) {
    s->regions = ARENA_ARRAY(a, im->segment_count + 1, space_region);
    if (!s->regions) return propane_fail_memory(err, sizeof(space_region));
    for (int i = 0; i < im->segment_count; i++) {
        const image_segment *from = &im->segments[i];
        if (!space_fits(from->offset, from->file_bytes, bytes) || from->address > UINT64_MAX - from->bytes)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: segment %d: %" PRIu64 " bytes at offset %" PRIu64
                                " are outside the file of %" PRIu64 " bytes",
                                s->name, i, from->file_bytes, from->offset, bytes);
        uint64_t have = from->file_bytes < from->bytes ? from->file_bytes : from->bytes;
        s->regions[s->count++] = (space_region){from->address, have, data + from->offset, SPACE_PLAIN, 0, 0};
        s->bytes += have;
    }
    if (s->bytes > bytes * 2) /* segments do not overlap in the file, but two of them may contain the header */
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: its segments overlap", s->name);
    if (im->chains.bytes) return fixups_chained(data, bytes, im, a, s, err);
    return im->binds.bytes ? fixups_classic(data, bytes, im, a, s, err) : PROPANE_OK;
}
