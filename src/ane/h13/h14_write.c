/* SPDX-License-Identifier: MIT
 * Converts tasks in the form of H13 to text of H14. Words of blocks that are alike follow the rows of later.def; this
 * file composes the words of DMA and kernels.
 */
#include <string.h>

#include "ane/h13/h14_parts.h"
#include "core/base/bytes.h"
#include "core/base/int_math.h"
#include "core/base/text.h"

/* An address, and the base register that it is relative to. */
typedef struct h14_address {
    uint32_t at;
    int bar, words; /* `words` is 2, or 1 if only the low half is written */
    uint32_t low;
} h14_address;

enum { H14_ADDRESSES = 6 };

typedef struct h14_writer {
    const engine_task *t; /* the current task */
    int index;
    bool last, neural, table;
    h14_registers r;
    int address_count;
    h14_address addresses[H14_ADDRESSES];
    text *out;
    propane_error *err;
} h14_writer;

static uint32_t h14_get(const h14_writer *w, uint32_t h13, int low, int bits) {
    return engine_get_bits(w->t, h13, low, bits);
}

static void h14_set(h14_writer *w, uint32_t address, uint32_t value) {
    w->r.value[address / 4] = value;
    w->r.given[address / 4] = true;
}

/* Sets a register, unless `value` is `absent`, which the register holds without a record. */
static void h14_set_unless(h14_writer *w, uint32_t address, uint32_t value, uint32_t absent) {
    if (value != absent) h14_set(w, address, value);
}

static uint32_t h14_tag(const h14_writer *w) { return (uint32_t)w->index << H14_TAG; }

static void h14_point(h14_writer *w, uint32_t at, int bar, uint32_t low, int words) {
    w->addresses[w->address_count++] = (h14_address){at, bar, words, low};
}

/* ---- blocks that are alike --------------------------------------------------------------------------------------------------- */

/* Adjusts words whose bits mean more on H14 than on H13, or something different. */
static uint32_t h14_like_change(const h14_writer *w, uint32_t address, uint32_t value) {
    enum { RUNTIME = 1 << 16, DMA_FORMAT = 3 << 6, ROWS_SIDE_BY_SIDE = 1 << 29, ALIASES = 3 << 4 };
    bool runtime = h14_get(w, 0xc800, 16, 1), fetches = h14_get(w, 0x4804, 0, 2) != 0;
    uint32_t aliases = w->neural && fetches && w->index ? ALIASES : 0; /* clear in all tasks but the first */
    int rows = h14_rows_turned(w->t);
    switch (address) {
    case H14_NE: return w->table ? value | RUNTIME : value;
    case H14_L2_SOURCE: return fetches ? value & ~aliases : value & ~(uint32_t)DMA_FORMAT;
    case H14_L2_RESULT: return w->neural || h14_get(w, 0x4830, 0, 2) ? value & ~aliases : value & ~(uint32_t)DMA_FORMAT;
    case H14_CONFIG: return rows > 1 || (w->neural && runtime) ? value | ROWS_SIDE_BY_SIDE : value;
    case H14_KERNEL_SHAPE: return rows > 1 ? h14_log2(rows) : value;
    case H14_GROUPS: return rows > 1 ? (value & 0xffff) | (uint32_t)rows << 16 : value;
    default: return value;
    }
}

static void h14_like_word(h14_writer *w, uint32_t address) {
    const later_move *moves;
    uint32_t value = 0;
    for (int count = h14_moves(address, &moves), i = 0; i < count; i++)
        value |= h14_get(w, moves[i].from, moves[i].from_low, moves[i].bits) << moves[i].low;
    value = h14_like_change(w, address, value);
    if (engine_later_is_written(ENGINE_H14, address, value)) h14_set(w, address, value);
}

static int64_t h14_groups(const h14_writer *w) { return h14_get(w, 0x24, 0, 13); }

/* Counts a result's rows, channels, depth and groups. A reduction leaves one pixel per plane. If channels and width are
 * exchanged, the width counts as channels. */
static void h14_result_counts(const h14_writer *w, int64_t counts[4]) {
    uint32_t mode = h14_get(w, 0x34, 4, 3);
    bool reduces = mode == 5 || mode == 6, turned = h14_get(w, 0x34, 28, 1), exchanged = h14_get(w, 0x30, 10, 1);
    counts[0] = reduces ? 1 : h14_get(w, 0x14, 16, 15);
    counts[1] = turned      ? h14_get(w, 0x14, 0, 15)
                : reduces   ? (exchanged ? 1 : h14_get(w, 0x10, 0, 17))
                : exchanged ? h14_get(w, 0x14, 0, 15)
                            : h14_get(w, 0x10, 0, 17);
    counts[2] = reduces ? 1 : engine_get(w->t, 0x18);
    counts[3] = h14_groups(w);
}

/* Drops the on-chip strides (channels, rows, depth, groups) of dimensions with one element, because no record writes
 * such strides. */
static void h14_on_chip(h14_writer *w, uint32_t address, const int64_t counts[4]) {
    const int order[4] = {1, 0, 2, 3};
    for (uint32_t i = 0; i < 4; i++)
        if (counts[order[i]] <= 1) w->r.given[address / 4 + 1 + i] = false;
}

/* Counts the rows, channels, depth and groups of a source on chip. Bits 0 to 3 of `flags` mark repetition in width,
 * height, depth and channels. If channels and width are exchanged, the width counts as channels. */
static void h14_source_counts(const h14_writer *w, uint32_t flags, bool exchanged, int64_t counts[4]) {
    int64_t channels = flags & 8 ? 1 : h14_get(w, 0xc, 0, 17), width = flags & 1 ? 1 : h14_get(w, 0, 0, 15);
    counts[0] = flags & 2 ? 1 : h14_get(w, 0, 16, 15);
    counts[1] = exchanged ? width : channels;
    counts[2] = flags & 4 ? 1 : engine_get(w->t, 4);
    counts[3] = h14_groups(w);
}

static void h14_on_chip_strides(h14_writer *w) {
    enum { PAIR = 4 };
    int64_t source[4], second[4], result[4];
    h14_source_counts(w, h14_get(w, 0x30, 0, 4), h14_get(w, 0x30, 8, 1), source);
    h14_source_counts(w, h14_get(w, 0x30, 4, 4), h14_get(w, 0x30, 9, 1), second);
    h14_result_counts(w, result);
    if (h14_get(w, 0x34, 4, 3) == PAIR) {
        second[0] = 2;
        if (h14_get(w, 0x30, 9, 1)) second[1] = 1; /* a pair is one pixel wide */
    }
    if (!h14_get(w, 0x4804, 0, 2)) h14_on_chip(w, H14_L2 + 8, source);
    if (!h14_get(w, 0x34, 1, 1)) h14_on_chip(w, H14_L2 + 0x1c, second);
    if (!h14_get(w, 0x4830, 0, 2)) h14_on_chip(w, H14_L2 + 0x34, result);
}

static void h14_like(h14_writer *w) {
    h14_block blocks[H14_BLOCKS];
    for (int count = h14_like_blocks(w->neural, blocks), b = 0; b < count; b++)
        for (int i = 0; i < blocks[b].words; i++) h14_like_word(w, blocks[b].base + 4u * (uint32_t)i);
    for (uint32_t address = H14_KERNEL_SHAPE; !w->neural && address <= H14_CONVOLUTION; address += 4)
        w->r.given[address / 4] = false;
    h14_on_chip_strides(w);
}

/* ---- DMA ------------------------------------------------------------------------------------------------------------------------ */

/* Writes a word whose fields are unknown: later.def pairs its whole H13 value with an H14 value. */
static propane_status h14_paired(h14_writer *w, uint32_t address, uint32_t h13, bool tagged) {
    uint32_t value = engine_get(w->t, h13), other;
    if (!engine_later_pair(ENGINE_H14, address, false, value, &other))
        return propane_fail(w->err, PROPANE_ERR_UNSUPPORTED,
                            "H14: the form of task %d, which has 0x%08x in register 0x%05x on H13, is unknown",
                            w->index, value, h13);
    h14_set(w, address, other | (tagged ? h14_tag(w) : 0));
    return PROPANE_OK;
}

/* Writes the strides of dimensions with more than one element: rows, planes, depth, groups. */
static void h14_strides(h14_writer *w, uint32_t address, uint32_t h13, const int64_t counts[4]) {
    for (uint32_t i = 0; i < 4; i++)
        if (counts[i] > 1) h14_set(w, address + 4 * i, engine_get(w->t, h13 + 4 * i));
}

static propane_status h14_sources(h14_writer *w) {
    const int64_t counts[4] = {h14_get(w, 0, 16, 15), h14_get(w, 0xc, 0, 17), engine_get(w->t, 4), h14_groups(w)};
    bool second = h14_get(w, 0x34, 1, 1);
    if (!h14_get(w, 0x13800, 0, 1)) {
        if (!second) return PROPANE_OK;
        return propane_fail(w->err, PROPANE_ERR_UNSUPPORTED,
                            "H14: the form of task %d, which fetches only its second source, is unknown", w->index);
    }
    PROPANE_TRY(h14_paired(w, H14_SOURCE, 0x13800, true));
    PROPANE_TRY(h14_paired(w, H14_SOURCE_EXT, 0x13800, false));
    h14_strides(w, H14_SOURCE_ROW, 0x1380c, counts);
    h14_set(w, H14_SOURCE_FORMAT, engine_get(w->t, 0x13838));
    h14_point(w, H14_SOURCE_BASE, (int)engine_head(w->t, 8, 0, 5), engine_get(w->t, 0x13808), 2);
    if (!second) return PROPANE_OK;
    PROPANE_TRY(h14_paired(w, H14_SOURCE2, 0x13804, true));
    PROPANE_TRY(h14_paired(w, H14_SOURCE2_EXT, 0x13804, false));
    h14_strides(w, H14_SOURCE2_ROW, 0x13820, counts);
    h14_set(w, H14_SOURCE2_FORMAT, engine_get(w->t, 0x13838));
    h14_point(w, H14_SOURCE2_BASE, (int)engine_head(w->t, 8, 6, 5), engine_get(w->t, 0x1381c), 2);
    return PROPANE_OK;
}

static propane_status h14_result(h14_writer *w) {
    int64_t counts[4];
    if (!h14_get(w, 0x17800, 0, 1)) return PROPANE_OK;
    h14_result_counts(w, counts);
    PROPANE_TRY(h14_paired(w, H14_RESULT, 0x17800, true));
    h14_strides(w, H14_RESULT_ROW, 0x17808, counts);
    h14_set(w, H14_RESULT_FORMAT, engine_get(w->t, 0x17818));
    h14_point(w, H14_RESULT_BASE, (int)engine_head(w->t, 8, 12, 5), engine_get(w->t, 0x17804), 2);
    return PROPANE_OK;
}

/* ---- kernels and tables ---------------------------------------------------------------------------------------------------- */

static void h14_table(h14_writer *w) {
    enum { STREAMS = 4, TABLE_STREAM = 3 };
    uint32_t off = H14_LANE_OFF | h14_tag(w), at = engine_get(w->t, 0x1f848);
    int bar = (int)engine_head(w->t, 9, 0, 5);
    for (uint32_t i = 0; i < ENGINE_LANES; i++) h14_set_unless(w, H14_LANE + 4 * i, off, H14_LANE_OFF);
    for (uint32_t i = 0; i < STREAMS; i++)
        h14_set_unless(w, H14_STREAM + 4 * i, off | (i == TABLE_STREAM), H14_LANE_OFF);
    h14_set(w, H14_TABLE_SIZE, engine_get(w->t, 0x1f888));
    h14_point(w, H14_TABLE_ADDRESS, bar, at, 2);
    h14_point(w, H14_TABLE_BASE, bar, at, 1);
}

/* Returns the word, without a tag, of a lane that fetches from constants, scratch memory or a surface. */
static uint32_t h14_lane_word(int bar) {
    return bar == ENGINE_BAR_CONSTANTS ? 0x21 : bar == ENGINE_BAR_SCRATCH ? 0xe41 : 0xe21;
}

static void h14_lanes(h14_writer *w) {
    int bar = (int)engine_head(w->t, 9, 0, 5);
    uint32_t first = engine_get(w->t, 0x1f848), all = 0;
    for (uint32_t i = 0; i < ENGINE_LANES; i++) {
        bool on = h14_get(w, 0x1f808 + 4 * i, 0, 1);
        uint32_t bytes = engine_get(w->t, 0x1f888 + 4 * i);
        h14_set_unless(w, H14_LANE + 4 * i, (on ? h14_lane_word(bar) : H14_LANE_OFF) | h14_tag(w), H14_LANE_OFF);
        h14_set_unless(w, H14_LANE_BASE + 4 * i, on ? engine_get(w->t, 0x1f848 + 4 * i) - first : 0, 0);
        h14_set_unless(w, H14_LANE_BYTES + 4 * i, bytes, H14_LANE_LEAST);
        if (on) all += bytes;
    }
    if (bar != ENGINE_BAR_CONSTANTS) h14_set(w, H14_RUNTIME_BYTES, all);
    h14_point(w, H14_KERNEL_BASE, bar, first, 2);
}

static void h14_kernel(h14_writer *w) {
    enum { USED = 0x240, LAST = 0x80 };
    uint32_t word = w->last ? LAST : 0;
    if (h14_get(w, 0x1f800, 6, 1)) {
        word |= USED | (uint32_t)(w->index + 1) << H14_TAG;
        if (w->table)
            h14_table(w);
        else
            h14_lanes(w);
    }
    h14_set_unless(w, H14_KERNEL, word, 0);
}

/* ---- records -------------------------------------------------------------------------------------------------------------------- */

static void h14_put(h14_writer *w, uint32_t word) {
    char bytes[4];
    bytes_put_u32((uint8_t *)bytes, word);
    text_append_n(w->out, bytes, sizeof bytes);
}

/* Writes one record that starts at word `at`, and returns the word after the record. A run of two or more words becomes
 * a record without a mask, unless only a masked record reaches the word `last`. */
static uint32_t h14_record(h14_writer *w, uint32_t at, uint32_t last) {
    enum { MASK = 16, RUN_MOST = 64 };
    uint32_t run = 1, mask = 0;
    while (run < RUN_MOST && at + run <= last && w->r.given[at + run]) run++;
    for (uint32_t i = 0; i < MASK && at + 1 + i <= last; i++)
        if (w->r.given[at + 1 + i]) mask |= 1u << i;
    bool dense = at + run > last || (run > 1 && at + MASK < last) || !mask;
    if (dense) {
        h14_put(w, (run - 1) << 15 | at);
        for (uint32_t i = 0; i < run; i++) h14_put(w, w->r.value[at + i]);
        return at + run;
    }
    h14_put(w, 1u << 31 | mask << 15 | at);
    for (uint32_t i = 0; i <= MASK; i++)
        if (!i || mask >> (i - 1) & 1) h14_put(w, w->r.value[at + i]);
    return at + MASK + 1;
}

static void h14_block_records(h14_writer *w, const char *name) {
    uint32_t base, words = (uint32_t)engine_later_block_of(ENGINE_H14, name, &base), last = base / 4 + words - 1;
    uint32_t at = base / 4;
    while (last >= at && !w->r.given[last]) last--;
    while (at <= last)
        if (w->r.given[at])
            at = h14_record(w, at, last);
        else
            at++;
}

static void h14_address_record(h14_writer *w, const h14_address *a) {
    h14_put(w, 1u << 29 | (uint32_t)a->bar << 23 | (uint32_t)(a->words - 1) << 15 | a->at / 4);
    h14_put(w, a->low);
    if (a->words > 1) h14_put(w, 0);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------------------------ */

static void h14_header(h14_writer *w, uint32_t live) {
    enum { EVENTS_FIRST = 8, EVENTS_LAST = 0x22, TRACE_LAST = 2 };
    bool scratch = w->t->header_words == ENGINE_HEADER_WORDS;
    uint32_t words[8] = {(uint32_t)w->index, engine_head(w->t, 1, 0, 16)};
    words[2] = (w->index ? 0 : EVENTS_FIRST) | (w->last ? EVENTS_LAST : 0);
    words[4] = w->t->header[4] & ~(uint32_t)TRACE_LAST;
    words[6] = live;
    words[7] = 1 | (uint32_t)scratch << 1 | engine_head(w->t, 8, 24, 4) << 16;
    for (int i = 0; i < 8; i++) h14_put(w, words[i]);
    if (scratch) h14_put(w, w->t->header[10]);
}

static void h14_fill(h14_writer *w) {
    enum { LINE = 64, FRAME = 16, FILL = 0xdead };
    size_t left = 0;
    for (int i = 0; i < w->address_count; i++) left += 4 * (1 + (size_t)w->addresses[i].words);
    while (round_up((int64_t)(w->out->length + left), FRAME) % LINE == 0) {
        h14_put(w, H14_FILL / 4);
        h14_put(w, FILL);
    }
}

static propane_status h14_task(h14_writer *w, uint32_t live) {
    static const char *const order[] = {"kernel", "common", "source", "l2", "pe", "ne", "result"};
    enum { SIZE_MOST = 0x7ff };
    size_t start = w->out->length;
    w->neural = h14_get(w, 0x38, 20, 1);
    w->table = h14_is_table(w->t);
    h14_like(w);
    h14_kernel(w);
    PROPANE_TRY(h14_sources(w));
    PROPANE_TRY(h14_result(w));
    h14_header(w, live);
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) h14_block_records(w, order[i]);
    h14_fill(w);
    for (int i = 0; i < w->address_count; i++) h14_address_record(w, &w->addresses[i]);
    if (w->out->failed) return propane_fail_memory(w->err, w->out->length);
    size_t words = (w->out->length - start) / 4;
    if (words > SIZE_MOST)
        return propane_fail(w->err, PROPANE_ERR_UNSUPPORTED, "H14: task %d has %zu words, more than a header can state",
                            w->index, words);
    bytes_put_u32((uint8_t *)w->out->data + start, (uint32_t)words << 16 | (uint32_t)w->index);
    return PROPANE_OK;
}

static propane_status h14_tasks(const engine_task *tasks, int count, const uint32_t *live, text *out,
                                propane_error *err) {
    static const char zeros[H14_PREFIX];
    for (int i = 0; i < count; i++) {
        size_t to = (size_t)round_up((int64_t)out->length, H14_PREFIX) + (i ? 0 : H14_PREFIX);
        text_append_n(out, zeros, to - out->length);
        h14_writer w = {.t = &tasks[i], .index = i, .last = i == count - 1, .out = out, .err = err};
        PROPANE_TRY(h14_task(&w, live[i]));
    }
    return PROPANE_OK;
}

propane_status engine_h14_write(const engine_task *tasks, int count, arena *a, const uint8_t **data, uint64_t *bytes,
                                propane_error *err) {
    text out = {0};
    if (count > H14_TASKS_MAX)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "H14: the tags of more than %d tasks are unknown; the program has %d", H14_TASKS_MAX,
                            count);
    uint32_t *live = ARENA_ARRAY(a, count, uint32_t);
    if (!live) return propane_fail_memory(err, (size_t)count * sizeof *live);
    engine_h14_live(tasks, count, live);
    propane_status status = h14_tasks(tasks, count, live, &out, err);
    if (!status) {
        *bytes = out.length;
        *data = arena_copy(a, out.data, out.length);
        if (!*data) status = propane_fail_memory(err, out.length);
    }
    text_deinit(&out);
    return status;
}
