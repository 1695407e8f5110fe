/* SPDX-License-Identifier: MIT
 * Appends constants, tables and kernels to the constant section in the form that tasks need, and records the origin of
 * kernels.
 */
#include <string.h>

#include "ane/h13/kernel.h"
#include "ane/h13/lower_parts.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

int64_t lower_table(emitter *e, const engine_table *table, int lanes) {
    static const char zeros[ENGINE_TABLE_BYTES];
    char bytes[ENGINE_TABLE_BYTES];
    for (int i = 0; i < ENGINE_TABLE_HALVES; i++) {
        bytes[2 * i] = (char)(table->half[i] & 0xff);
        bytes[2 * i + 1] = (char)(table->half[i] >> 8);
    }
    for (size_t at = 0; at + sizeof bytes <= e->constants.length; at += 64)
        if (memcmp(e->constants.data + at, bytes, sizeof bytes) == 0) return (int64_t)at;
    int64_t at = lower_constants(e, bytes, sizeof bytes);
    /* on H14 all lanes read the same table */
    for (int i = 1; i < lanes && e->subtype != ENGINE_H14; i++) text_append_n(&e->constants, zeros, sizeof zeros);
    return at;
}

/* Records the origin of a plane of `rows` lines. Each line has one element for each of `size` neighbouring outputs. */
static void lower_remember_plane(emitter *e, const lower_origin *o, int64_t first, int64_t rows, int size, int64_t at) {
    emit_add_patch(e, &(engine_patch){.constant = o->name,
                                      .elements = o->elements,
                                      .start = o->start + first * o->row,
                                      .at = at,
                                      .count = {1, rows, size},
                                      .from = {0, o->column, o->row},
                                      .to = {0, 2 * size, 2}});
}

/* Records the origin of a kernel's weights and bias. `at` is the offset of lane 0 among the constants. */
static void lower_remember(emitter *e, const engine_kernel *k, const lower_origin *weight, const lower_origin *bias,
                           int64_t at, const int64_t bytes[ENGINE_LANES]) {
    if (!weight->name && !bias->name) return;
    engine_plane *planes = mem_array(ENGINE_PLANES, sizeof *planes);
    if (!planes) {
        e->failed = true;
        return;
    }
    if (k->sparse) emit_add_patch(e, &(engine_patch){.constant = weight->name, .elements = ENGINE_PATCH_NEVER});
    for (int lane = 0; lane < k->lanes; at += bytes[lane++]) {
        int64_t to = at + (k->table ? ENGINE_TABLE_BYTES : 0), begin;
        int count = engine_kernel_planes(k, lane, planes);
        for (int i = 0; i < count && !k->sparse; i++) {
            begin = to;
            if (k->bias) {
                lower_remember_plane(e, bias, planes[i].first, 1, planes[i].size, to);
                to += 2 * (int64_t)planes[i].size;
            }
            lower_remember_plane(e, weight, planes[i].first, k->inputs * k->taps, planes[i].size, to);
            to += 2 * k->inputs * k->taps * planes[i].size;
            if (k->groups > 1) to = begin + round_up(to - begin, 64);
        }
    }
    if (k->sparse) emit_add_patch(e, &(engine_patch){.constant = bias->name, .elements = ENGINE_PATCH_NEVER});
    mem_free(planes);
}

propane_status lower_kernel_lanes(emitter *e, emitted *t, const engine_kernel *k, const lower_kernel *from,
                                  propane_error *err) {
    int64_t bytes[ENGINE_LANES] = {0}, at = lower_constants(e, NULL, 0);
    PROPANE_TRY(engine_kernel_pack(k, from->weight, from->bias, from->table ? from->table->half : NULL, &e->constants,
                                   bytes, err));
    lower_remember(e, k, &from->weight_from, &from->bias_from, at, bytes);
    emit_lanes(t, ENGINE_BAR_CONSTANTS, k->lanes, 0, 0, 0);
    for (int i = 0; i < k->lanes; i++) {
        emit_set(t, 0x1f848 + 4u * (uint32_t)i, at);
        emit_set(t, 0x1f888 + 4u * (uint32_t)i, bytes[i]);
        at += bytes[i];
        t->bytes += bytes[i];
    }
    return PROPANE_OK;
}

int64_t lower_constants(emitter *e, const void *data, size_t bytes) {
    static const char zeros[64];
    if (e->constants.length % 64) text_append_n(&e->constants, zeros, 64 - e->constants.length % 64);
    int64_t at = (int64_t)e->constants.length;
    text_append_n(&e->constants, data, bytes);
    return at;
}
