/* SPDX-License-Identifier: MIT
 * Finds the parts of the on-chip buffer that are in use during each task of a program. Reads tasks in the form of H13.
 */
#include "ane/h13/h14.h"

#include "core/base/int_math.h"

typedef struct live_range {
    int64_t from, to; /* bytes [from, to); empty if there is no value */
} live_range;

/* Returns the range of a value with these dimensions. The five registers starting at `address` hold its base and
 * strides. */
static live_range live_of(const engine_task *t, uint32_t address, int64_t c, int64_t h, int64_t w) {
    int64_t base = engine_get(t, address), channel = engine_get(t, address + 4), row = engine_get(t, address + 8);
    int64_t depth = engine_get(t, 0x4) ? (int64_t)engine_get(t, 0x4) - 1 : 0;
    int64_t groups = max_i64(1, engine_get_bits(t, 0x24, 0, 13)) - 1;
    int64_t last =
        (c - 1) * channel + (h - 1) * row + depth * engine_get(t, address + 12) + groups * engine_get(t, address + 16);
    return (live_range){base, base + last + 2 * w};
}

static live_range live_result(const engine_task *t) {
    bool turned = engine_get_bits(t, 0x34, 28, 1), exchanged = engine_get_bits(t, 0x30, 10, 1);
    uint32_t mode = engine_get_bits(t, 0x34, 4, 3);
    int64_t c = engine_get_bits(t, 0x10, 0, 17), h = engine_get_bits(t, 0x14, 16, 15), w = engine_get(t, 0x14) & 0x7fff;
    if (engine_get_bits(t, 0x4830, 0, 2)) return (live_range){0, 0};
    if (mode == 5 || mode == 6) h = w = 1;
    if (turned || exchanged) {
        int64_t channels = c;
        c = w, w = channels;
    }
    return live_of(t, 0x4834, c, h, w);
}

static live_range live_kept_source(const engine_task *t) {
    if (engine_get_bits(t, 0x4804, 0, 2) != 1) return (live_range){0, 0};
    return live_of(t, 0x4808, engine_get_bits(t, 0xc, 0, 17), engine_get_bits(t, 0, 16, 15), engine_get(t, 0) & 0x7fff);
}

/* Returns whether the task reads a source on chip that begins in the range. */
static bool live_reads(const engine_task *t, live_range r) {
    uint32_t mode = engine_get_bits(t, 0x34, 4, 3);
    int64_t first = engine_get(t, 0x4808), second = engine_get(t, 0x481c);
    bool two = mode == 4 || (mode == 3 && !engine_get_bits(t, 0x34, 1, 1)) || mode == 6;
    return (!engine_get_bits(t, 0x4804, 0, 2) && first >= r.from && first < r.to) ||
           (two && second >= r.from && second < r.to);
}

static bool live_overwrites(const engine_task *t, live_range r) {
    live_range y = live_result(t), x = live_kept_source(t);
    return (y.from <= r.from && y.to > r.from) || (x.from <= r.from && x.to > r.from);
}

static void live_mark(const engine_task *tasks, int count, int from, live_range r, uint32_t *live) {
    enum { UNIT = 0x10000, UNITS = 24 };
    int last = from;
    if (r.to <= r.from) return;
    for (int i = from + 1; i < count; i++) {
        if (live_reads(&tasks[i], r)) last = i;
        if (live_overwrites(&tasks[i], r)) break;
    }
    for (int i = from; i <= last && last > from; i++)
        for (int64_t unit = r.from / UNIT; unit <= (r.to - 1) / UNIT && unit < UNITS; unit++) live[i] |= 1u << unit;
}

void engine_h14_live(const engine_task *tasks, int count, uint32_t *live) {
    for (int i = 0; i < count; i++) live[i] = 0;
    for (int i = 0; i < count; i++) {
        live_mark(tasks, count, i, live_result(&tasks[i]), live);
        live_mark(tasks, count, i, live_kept_source(&tasks[i]), live);
    }
    live[count - 1] = 0;
}
