/* SPDX-License-Identifier: MIT
 * Reads and writes .anec, the container of the Linux driver's tools: a packed header of 1,704 bytes, and the payload
 * (text, then constants at the next multiple of 0x40) at offset 0x1000 or 0x800. The reader takes the offset at which
 * it recognises a first task. Such a task has number 0, and its first record writes the kernel DMA or, on H14 only,
 * possibly the dimensions. Layout: eiln/ane libane/ane.h, eiln/anecc.
 */
#include <string.h>

#include "ane/h13/anec.h"
#include "ane/h13/object.h"
#include "core/base/bytes.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

static bool anec_task_at(const uint8_t *data, size_t bytes, size_t at) {
    if (bytes < 64 || at > bytes - 64) return false;
    uint32_t first = bytes_u32(data + at), scratch = engine_bits(bytes_u32(data + at + 24), 24, 1);
    uint32_t record = bytes_u32(data + at + 40 + 4 * scratch);
    return (first & 0xfc00ffff) == 0 && (record == 0x4401f800 || record == 0xf401f800);
}

/* Recognises text of H14: a frame of zeros, then a task whose first record writes the kernel DMA or the dimensions. */
static bool anec_h14_at(const uint8_t *data, size_t bytes, size_t at) {
    enum { KERNEL = 0x640, DIMENSIONS = 19, FRAME = 16 };
    if (bytes < 80 || at > bytes - 80) return false;
    for (int i = 0; i < FRAME; i++)
        if (data[at + (size_t)i]) return false;
    uint32_t first = bytes_u32(data + at + FRAME), last = bytes_u32(data + at + FRAME + 28);
    uint32_t record = bytes_u32(data + at + FRAME + 32 + 4 * ((last & 3) == 3)) & 0x7fff;
    return (first & 0xf800ffff) == 0 && first >> 16 > 8 && (last & 0xfff8fffd) == 1 &&
           (record == KERNEL || record < DIMENSIONS);
}

static size_t anec_payload(const uint8_t *data, size_t bytes) {
    static const size_t offsets[] = {ANEC_PAYLOAD, ANEC_PAYLOAD_OLD};
    for (int i = 0; i < 2; i++)
        if (anec_task_at(data, bytes, offsets[i]) || anec_h14_at(data, bytes, offsets[i])) return offsets[i];
    return 0;
}

bool engine_anec_is(const uint8_t *data, size_t bytes) { return bytes >= ANEC_HEADER && anec_payload(data, bytes); }

static propane_status anec_surfaces(const uint8_t *data, engine_object *o, uint32_t sources, uint32_t results,
                                    propane_error *err) {
    if (!(o->surfaces = ARENA_ARRAY(o->arena, ENGINE_BARS, engine_surface)))
        return propane_fail_memory(err, ENGINE_BARS * sizeof *o->surfaces);
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++) {
        const uint8_t *at = data + ANEC_NCHW + 48 * bar;
        uint64_t dims[6];
        for (int i = 0; i < 6; i++) dims[i] = bytes_u64(at + 8 * i);
        if (!bytes_u32(data + ANEC_TILES + 4 * bar)) continue;
        engine_surface *s = &o->surfaces[o->surface_count++];
        uint64_t most = (uint64_t)bytes_u32(data + ANEC_TILES + 4 * bar) * ENGINE_PAGE;
        for (int i = 0; i < 4; i++)
            if (dims[i] == 0 || dims[i] > UINT32_MAX)
                return propane_fail(err, PROPANE_ERR_INVALID, "%s: base register %d: invalid dimension %llu", o->source,
                                    bar, (unsigned long long)dims[i]);
        if (dims[4] > most || dims[5] > most || dims[1] > most || dims[1] * dims[4] > most)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: base register %d: %llu planes of %llu bytes do not fit into a buffer of %llu",
                                o->source, bar, (unsigned long long)dims[1], (unsigned long long)dims[4],
                                (unsigned long long)most);
        s->bar = bar, s->n = (int64_t)dims[0], s->c = (int64_t)dims[1], s->h = (int64_t)dims[2],
        s->w = (int64_t)dims[3];
        s->plane = dims[4], s->row = dims[5], s->bytes = s->batch = dims[1] * dims[4];
        s->name = arena_printf(o->arena, "bar%d", bar);
        if (!s->name) return propane_fail_memory(err, 8);
    }
    if ((uint64_t)sources + results != (uint64_t)o->surface_count)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %u sources and %u results, but %d buffers starting at base register 4", o->source,
                            sources, results, o->surface_count);
    return PROPANE_OK;
}

propane_status engine_anec_parse(const uint8_t *data, size_t bytes, engine_object *o, propane_error *err) {
    size_t payload = anec_payload(data, bytes);
    uint64_t size = bytes_u64(data), text = bytes_u64(data + 16), constants = bytes_u64(data + 24);
    uint32_t first = bytes_u32(data + 8);
    o->anec = true;
    o->subtype = anec_h14_at(data, bytes, payload) ? ENGINE_H14 : ENGINE_H13;
    if (size > bytes - payload || text > size || constants > size - text)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: a payload of %llu bytes with %llu of tasks and %llu of constants, but the file holds %zu", o->source,
            (unsigned long long)size, (unsigned long long)text, (unsigned long long)constants, bytes - payload);
    if (first % 4 || first / 4 > ENGINE_TASK_WORDS || text < 40)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the first task claims %u bytes of the %llu bytes of tasks",
                            o->source, first, (unsigned long long)text);
    o->first_words = (int)(first / 4);
    o->text_bytes = text;
    o->constant_bytes = constants;
    o->text = arena_copy(o->arena, data + payload, (size_t)text);
    uint64_t at = (text + 0x3f) & ~(uint64_t)0x3f;
    if (constants && (at > size || constants > size - at))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: %llu bytes of constants at 0x%llx are outside the payload of 0x%llx bytes", o->source,
                            (unsigned long long)constants, (unsigned long long)at, (unsigned long long)size);
    o->constants = arena_copy(o->arena, data + payload + (constants ? at : 0), (size_t)constants);
    if (!o->text || !o->constants) return propane_fail_memory(err, (size_t)size);
    for (int bar = 2; bar < ENGINE_BAR_SURFACES; bar++)
        o->scratch_bytes += (uint64_t)bytes_u32(data + ANEC_TILES + 4 * bar) * ENGINE_PAGE;
    PROPANE_TRY(anec_surfaces(data, o, bytes_u32(data + 32), bytes_u32(data + 36), err));
    return PROPANE_OK;
}

propane_status engine_anec_write(const engine_object *o, uint8_t **out, size_t *bytes, propane_error *err) {
    uint64_t constants = engine_object_constants_at(o), total = constants + o->constant_bytes;
    uint32_t sources = 0, results = 0;
    *bytes = ANEC_PAYLOAD + (size_t)total;
    uint8_t *data = *out = mem_alloc(*bytes);
    if (!data) return propane_fail_memory(err, *bytes);
    bytes_put_u64(data + ANEC_SIZE, total);
    bytes_put_u32(data + ANEC_FIRST, 4 * (uint32_t)o->first_words);
    bytes_put_u32(data + ANEC_COUNT, (uint32_t)o->task_count);
    bytes_put_u64(data + ANEC_TEXT, o->text_bytes);
    bytes_put_u64(data + ANEC_CONSTANTS, o->constant_bytes);
    bytes_put_u32(data + ANEC_TILES, (uint32_t)div_up((int64_t)total, ENGINE_PAGE));
    bytes_put_u32(data + ANEC_TILES + 4 * ENGINE_BAR_SCRATCH, (uint32_t)div_up((int64_t)o->scratch_bytes, ENGINE_PAGE));
    for (int i = 0; i < o->surface_count; i++) {
        const engine_surface *s = &o->surfaces[i];
        const uint64_t nchw[6] = {(uint64_t)s->n, (uint64_t)s->c, (uint64_t)s->h, (uint64_t)s->w, s->plane, s->row};
        bytes_put_u32(data + ANEC_TILES + 4 * s->bar,
                      (uint32_t)div_up((int64_t)((uint64_t)s->n * s->bytes), ENGINE_PAGE));
        for (int d = 0; d < 6; d++) bytes_put_u64(data + ANEC_NCHW + 48 * s->bar + 8 * d, nchw[d]);
        sources += !s->output;
        results += s->output;
    }
    bytes_put_u32(data + ANEC_SOURCES, sources);
    bytes_put_u32(data + ANEC_RESULTS, results);
    memcpy(data + ANEC_PAYLOAD, o->text, (size_t)o->text_bytes);
    memcpy(data + ANEC_PAYLOAD + constants, o->constants, (size_t)o->constant_bytes);
    return PROPANE_OK;
}
