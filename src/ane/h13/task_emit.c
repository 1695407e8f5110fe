/* SPDX-License-Identifier: MIT
 * Owns the words of a task that follow from its operands, and the rules of the on-chip buffer. The rules were derived
 * from published programs of Apple's compiler (joshuaswarren/mil-hwx-compiler plugins/H13, research/h13-td-fields.md).
 */
#include "ane/h13/task_emit.h"

#include <string.h>

#include "core/base/array.h"
#include "core/base/int_math.h"

emit_tensor emit_surface(int bar, int64_t base, int64_t c, int64_t h, int64_t w) {
    int64_t row = round_up(2 * w, 64);
    return (emit_tensor){bar, base, c, h, w, row, row * h, row * h * c};
}

void emit_set(emitted *t, uint32_t address, int64_t value) { engine_set(&t->task, address, (uint32_t)value); }

void emit_or(emitted *t, uint32_t address, int64_t bits) {
    engine_set(&t->task, address, engine_get(&t->task, address) | (uint32_t)bits);
}

emitted *emit_task(emitter *e, bool neural) {
    static emitted nowhere;
    emitted *more = ARENA_MORE(e->arena, e->tasks, e->count, NULL);
    if (!more) {
        e->failed = true;
        return &nowhere;
    }
    e->tasks = more;
    emitted *t = &e->tasks[e->count++];
    *t = (emitted){.source = EMIT_NO_BAR, .source2 = EMIT_NO_BAR, .result = EMIT_NO_BAR, .kernel = EMIT_NO_BAR};
    engine_task_plain(&t->task, neural);
    return t;
}

void emit_add_patch(emitter *e, const engine_patch *p) {
    if (!p->constant) return;
    engine_patch *more = ARENA_MORE(e->arena, e->patches, e->patch_count, NULL);
    if (!more) {
        e->failed = true;
        return;
    }
    e->patches = more;
    e->patches[e->patch_count++] = *p;
}

void emit_out(emitted *t, int64_t c, int64_t h, int64_t w) {
    emit_set(t, 0x10, c);
    emit_set(t, 0x14, w | h << 16);
    emit_set(t, 0x28, h);
}

void emit_dims(emitted *t, int64_t c, int64_t h, int64_t w) {
    emit_set(t, 0x00, w | h << 16);
    emit_set(t, 0x0c, c);
    emit_out(t, c, h, w);
}

/* ---- operands ---------------------------------------------------------------------------------------------------------------- */

static void task_emit_strides(emitted *t, uint32_t address, const int64_t *values, int count) {
    for (int i = 0; i < count; i++) emit_set(t, address + 4u * (uint32_t)i, values[i]);
}

static void task_emit_l2_words(emitted *t, uint32_t address, const emit_l2 *at) {
    task_emit_strides(t, address, (const int64_t[]){at->base, at->channel, at->row, at->depth, at->group}, 5);
}

void emit_source(emitted *t, const emit_tensor *x, const emit_l2 *at, int type) {
    t->source = x->bar;
    t->source_given = true;
    t->bytes += x->c * x->h * round_up(2 * x->w, 64);
    if (x->h * x->w == 1) t->channel_visits += x->c;
    emit_set(t, 0x13800, 0x33881);
    task_emit_strides(t, 0x13808, (const int64_t[]){x->base, x->row, x->plane, x->total, x->total}, 5);
    emit_set(t, 0x13838, 0x01002031);
    emit_set(t, 0x4804, 0x500170 | type);
    task_emit_l2_words(t, 0x4808, at);
}

void emit_source2(emitted *t, const emit_tensor *y, const emit_l2 *at) {
    t->source2 = y->bar;
    t->bytes += y->c * y->h * round_up(2 * y->w, 64);
    if (y->h * y->w == 1) t->channel_visits += y->c;
    emit_set(t, 0x13804, 0x33880);
    task_emit_strides(t, 0x1381c, (const int64_t[]){y->base, y->row, y->plane, y->total, y->total}, 5);
    emit_set(t, 0x1383c, 0x2030);
    emit_set(t, 0x08, 0x2a);
    emit_or(t, 0x4804, 0x1000000);
    task_emit_l2_words(t, 0x481c, at);
}

void emit_source_l2(emitted *t, const emit_l2 *at, uint32_t config) {
    emit_set(t, 0x4804, config);
    task_emit_l2_words(t, 0x4808, at);
    emit_set(t, 0x4818, at->group);
}

void emit_source2_l2(emitted *t, const emit_l2 *at) {
    t->second_on_chip = true;
    emit_set(t, 0x08, 0x2a);
    task_emit_l2_words(t, 0x481c, at);
}

void emit_result_words(emitted *t, int bar, int64_t row, int64_t plane, int64_t total) {
    t->result = bar;
    t->result_given = true;
    task_emit_strides(t, 0x17808, (const int64_t[]){row, plane, total, total}, 4);
    emit_set(t, 0x17818, 0x01302031);
}

void emit_store(emitted *t, const emit_tensor *y, int64_t base, int interleave) {
    t->bytes += div_up(y->c, interleave) * y->h * round_up(2 * y->w * interleave, 64);
    emit_result_words(t, y->bar, y->row, y->plane, y->total);
    emit_set(t, 0x17800, 0x040000c1);
    emit_set(t, 0x17804, y->base);
    if (interleave > 1) emit_set(t, 0x17818, 0x00302031 | interleave << 24);
    emit_set(t, 0x4830, 0x50007a | interleave << 8);
    emit_set(t, 0x4834, base);
}

void emit_keep(emitted *t, const emit_l2 *at, uint32_t config) {
    emit_set(t, 0x4830, config);
    task_emit_l2_words(t, 0x4834, at);
}

void emit_lanes(emitted *t, int bar, int lanes, int64_t base, int64_t step, int64_t bytes) {
    t->kernel = bar;
    emit_set(t, 0x1f800, 0x40);
    for (int i = 0; i < ENGINE_LANES; i++) {
        bool on = i < lanes;
        emit_set(t, 0x1f808 + 4u * (uint32_t)i, on ? 0x81 : 0x80);
        emit_set(t, 0x1f848 + 4u * (uint32_t)i, on ? base + i * step : 0);
        emit_set(t, 0x1f888 + 4u * (uint32_t)i, on ? bytes : 0x40);
        if (on && step) t->bytes += bytes;
    }
}

void emit_active(emitted *t, int lanes) { emit_or(t, 0x34, emit_log2(lanes) << 19); }

/* ---- rules of the on-chip buffer ----------------------------------------------------------------------------------------------- */

int emit_log2(int64_t n) {
    int bits = 0;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

int64_t emit_channel(int64_t w, bool neural) { return min_i64(round_up(2 * w, 16), neural ? 0x100 : 0x400); }

/* The buffer's banks repeat every 0x400 bytes. */
int64_t emit_pad(int64_t row) { return row % 0x400 == 0 ? 0x20 : row % 0x200 == 0 || row == 0x10 ? 0x10 : 0; }

emit_l2 emit_planar_l2(int64_t base, int64_t c, int64_t w) {
    int64_t channel = emit_channel(w, false), raw = c * channel, pad = channel < 0x80 ? emit_pad(raw) : 0;
    return (emit_l2){base, channel, raw + pad, raw, raw};
}

uint32_t emit_patch(int64_t h, int64_t w, bool two_dma) {
    int a = emit_log2(w), b = emit_log2(h), most;
    a = a < 4 ? 4 : a > 9 ? 9 : a;
    most = (two_dma ? 8 : 9) - a;
    b = b > most ? most : b;
    return (uint32_t)(a | (b < 0 ? 0 : b) << 4);
}

/* Returns the code of the work unit (0 for 128x1 pixels, 1 for 64x2, ... 4 for 8x16) that covers the plane with the
 * fewest pixels. If several units do, returns the widest. */
uint32_t emit_shape(int64_t h, int64_t w) {
    uint32_t best = 0;
    int64_t least = INT64_MAX;
    for (uint32_t code = 0; code <= 4; code++) {
        int64_t covered = round_up(w, 128 >> code) * round_up(h, 1 << code);
        if (covered < least) least = covered, best = code;
    }
    return best;
}

int64_t emit_tile(int64_t h, int64_t row, int sources) {
    return min_i64(h, max_i64(0, ENGINE_BUFFER - row) / (sources * row));
}

int emit_lane_count(int64_t c) { return c >= 16 ? 16 : 1 << emit_log2(c); }
