/* SPDX-License-Identifier: MIT
 * Converts text of H14 to tasks in the form of H13 for the interpreter. Refuses a bit that no row of later.def names,
 * and a DMA word without a known equivalent on H13.
 */
#include <string.h>

#include "ane/h13/h14_parts.h"
#include "core/base/int_math.h"

enum { H14_NO_BAR = -1, H14_HEADER_WORDS = 9 };

typedef struct h14_reader {
    engine_task *tasks; /* NULL to only count them */
    int count;          /* tasks begun so far */
    bool open;
    uint32_t offset;
    int header_words;
    uint32_t header[H14_HEADER_WORDS];
    h14_registers r;
    int bar[H14_WORDS]; /* base register of the record that writes the word */
    int record_bar;
    propane_status status;
    propane_error *err;
} h14_reader;

static uint32_t h14_value(const h14_reader *r, uint32_t address) {
    return r->r.given[address / 4] ? r->r.value[address / 4] : engine_later_unwritten(ENGINE_H14, address);
}

static bool h14_given(const h14_reader *r, uint32_t address) { return r->r.given[address / 4]; }

static propane_status h14_refuse(h14_reader *r, uint32_t address, const char *why) {
    return propane_fail(r->err, PROPANE_ERR_UNSUPPORTED, "task %d at 0x%x, register 0x%05x = 0x%08x: %s", r->count - 1,
                        r->offset, address, h14_value(r, address), why);
}

/* ---- blocks that are alike --------------------------------------------------------------------------------------- */

static void h14_unlike_word(h14_reader *r, uint32_t address, bool neural, engine_task *t) {
    const later_move *moves;
    uint32_t value = h14_value(r, address);
    if (address == H14_KERNEL_SHAPE && !neural) value = 0;
    if (address == H14_NE && h14_given(r, H14_TABLE_SIZE)) value &= ~(1u << 16);
    if (address == H14_CONFIG) value &= ~(1u << 29);
    for (int count = h14_moves(address, &moves), i = 0; i < count; i++) {
        const later_move *m = &moves[i];
        uint32_t mask = m->bits == 32 ? ~0u : ((1u << m->bits) - 1) << m->from_low;
        uint32_t part = engine_bits(value, m->low, m->bits) << m->from_low;
        engine_set(t, m->from, (engine_get(t, m->from) & ~mask) | part);
    }
}

static void h14_unlike(h14_reader *r, engine_task *t, bool neural) {
    h14_block blocks[H14_BLOCKS];
    for (int count = h14_like_blocks(neural, blocks), b = 0; b < count; b++)
        for (int i = 0; i < blocks[b].words; i++) {
            uint32_t address = blocks[b].base + 4u * (uint32_t)i;
            if (engine_later_is_written(ENGINE_H14, address, ~0u)) h14_unlike_word(r, address, neural, t);
        }
    if (h14_rows_turned(t) > 1) {
        engine_set(t, 0x24, (engine_get(t, 0x24) & 0xffff) | 1u << 16);
        engine_set(t, 0x1c, engine_get(t, 0x1c) & ~(7u << 10));
    }
    uint32_t mode = engine_get_bits(t, 0x34, 4, 3);
    engine_set(t, 0x08, mode == 3 || mode == 4 || mode == 6 ? 0x2a : 0x22);
}

/* ---- DMA ------------------------------------------------------------------------------------------------------------------------ */

static propane_status h14_unpaired(h14_reader *r, uint32_t address, uint32_t h13, engine_task *t) {
    enum { TAGS = 0xff0000 };
    uint32_t value;
    if (!engine_later_pair(ENGINE_H14, address, true, h14_value(r, address) & ~(uint32_t)TAGS, &value))
        return h14_refuse(r, address, "its H13 equivalent is unknown, because no program is known for both chips");
    engine_set(t, h13, value);
    return PROPANE_OK;
}

static void h14_unstride(h14_reader *r, uint32_t address, uint32_t h13, engine_task *t) {
    for (uint32_t i = 0; i < 4; i++) engine_set(t, h13 + 4 * i, h14_value(r, address + 4 * i));
}

/* Copies the offset of an address from the H14 register `address` to the H13 register `h13`, and sets *bar to its base
 * register. */
static propane_status h14_pointed(h14_reader *r, uint32_t address, uint32_t h13, engine_task *t, int *bar) {
    *bar = r->bar[address / 4];
    if (!h14_given(r, address) || *bar == H14_NO_BAR || h14_value(r, address + 4))
        return h14_refuse(r, address, "it must be an address with a base register, below 2^32");
    engine_set(t, h13, h14_value(r, address));
    return PROPANE_OK;
}

static uint32_t h14_bar(int bar, int low) { return ((uint32_t)bar | 0x20) << low; }

static propane_status h14_unsource(h14_reader *r, engine_task *t) {
    int bar;
    if (h14_given(r, H14_SOURCE)) {
        PROPANE_TRY(h14_unpaired(r, H14_SOURCE, 0x13800, t));
        PROPANE_TRY(h14_pointed(r, H14_SOURCE_BASE, 0x13808, t, &bar));
        h14_unstride(r, H14_SOURCE_ROW, 0x1380c, t);
        engine_set(t, 0x13838, h14_value(r, H14_SOURCE_FORMAT));
        t->header[8] |= h14_bar(bar, 0);
    }
    if (h14_given(r, H14_SOURCE2)) {
        PROPANE_TRY(h14_unpaired(r, H14_SOURCE2, 0x13804, t));
        PROPANE_TRY(h14_pointed(r, H14_SOURCE2_BASE, 0x1381c, t, &bar));
        h14_unstride(r, H14_SOURCE2_ROW, 0x13820, t);
        engine_set(t, 0x1383c, 0x2030);
        t->header[8] |= h14_bar(bar, 6);
    }
    return PROPANE_OK;
}

static propane_status h14_unresult(h14_reader *r, engine_task *t) {
    int bar;
    if (!h14_given(r, H14_RESULT)) return PROPANE_OK;
    PROPANE_TRY(h14_unpaired(r, H14_RESULT, 0x17800, t));
    PROPANE_TRY(h14_pointed(r, H14_RESULT_BASE, 0x17804, t, &bar));
    h14_unstride(r, H14_RESULT_ROW, 0x17808, t);
    engine_set(t, 0x17818, h14_value(r, H14_RESULT_FORMAT));
    t->header[8] |= h14_bar(bar, 12);
    return PROPANE_OK;
}

/* ---- kernels and tables ---------------------------------------------------------------------------------------------------- */

static propane_status h14_untable(h14_reader *r, engine_task *t, int *bar) {
    uint32_t lanes = 1u << engine_get_bits(t, 0x34, 19, 3);
    PROPANE_TRY(h14_pointed(r, H14_TABLE_ADDRESS, 0x1f848, t, bar));
    if (h14_value(r, H14_TABLE_BASE) != h14_value(r, H14_TABLE_ADDRESS))
        return h14_refuse(r, H14_TABLE_BASE, "the address differs from the table's");
    for (uint32_t i = 0; i < ENGINE_LANES && i < lanes; i++) {
        engine_set(t, 0x1f808 + 4 * i, 0x81);
        engine_set(t, 0x1f848 + 4 * i, h14_value(r, H14_TABLE_ADDRESS));
        engine_set(t, 0x1f888 + 4 * i, h14_value(r, H14_TABLE_SIZE));
    }
    return PROPANE_OK;
}

static propane_status h14_unlanes(h14_reader *r, engine_task *t, int *bar) {
    PROPANE_TRY(h14_pointed(r, H14_KERNEL_BASE, 0x1f848, t, bar));
    for (uint32_t i = 0; i < ENGINE_LANES; i++) {
        uint32_t word = h14_given(r, H14_LANE + 4 * i) ? h14_value(r, H14_LANE + 4 * i) : H14_LANE_OFF;
        uint32_t bytes = h14_given(r, H14_LANE_BYTES + 4 * i) ? h14_value(r, H14_LANE_BYTES + 4 * i) : H14_LANE_LEAST;
        engine_set(t, 0x1f888 + 4 * i, bytes);
        if (!(word & 1)) continue;
        engine_set(t, 0x1f808 + 4 * i, 0x81);
        engine_set(t, 0x1f848 + 4 * i, h14_value(r, H14_KERNEL_BASE) + h14_value(r, H14_LANE_BASE + 4 * i));
    }
    return PROPANE_OK;
}

static propane_status h14_unkernel(h14_reader *r, engine_task *t) {
    int bar;
    if (!(h14_value(r, H14_KERNEL) & 0x40)) return PROPANE_OK;
    if (h14_value(r, H14_KERNEL) & 0x20)
        return h14_refuse(r, H14_KERNEL, "the H14 layout of kernels stored without zeros is unknown");
    engine_set(t, 0x1f800, 0x40);
    PROPANE_TRY(h14_given(r, H14_TABLE_SIZE) ? h14_untable(r, t, &bar) : h14_unlanes(r, t, &bar));
    t->header[9] |= h14_bar(bar, 0);
    return PROPANE_OK;
}

/* ---- tasks ------------------------------------------------------------------------------------------------------------------------ */

static propane_status h14_known(h14_reader *r) {
    for (uint32_t i = 0; i < H14_WORDS; i++) {
        later_field fields[LATER_FIELDS];
        if (!r->r.given[i]) continue;
        int count = engine_later_fields(ENGINE_H14, false, 4 * i, fields);
        if (engine_later_unknown(r->r.value[i], fields, count)) return h14_refuse(r, 4 * i, "unknown bits");
    }
    return PROPANE_OK;
}

static void h14_unheader(const h14_reader *r, engine_task *t) {
    bool scratch = r->header[7] >> 1 & 1;
    t->offset = r->offset;
    t->header_words = ENGINE_HEADER_WORDS - !scratch;
    t->header[0] = r->header[0] & 0xffff;
    t->header[1] = r->header[1] & 0xffff;
    t->header[2] = r->header[2];
    t->header[4] = r->header[4];
    t->header[8] = engine_bits(r->header[7], 16, 3) << 24;
    t->header[10] = scratch ? r->header[8] : 0;
}

static propane_status h14_close(h14_reader *r) {
    bool neural = h14_value(r, H14_TASK_INFO) >> 20 & 1;
    if (!r->open || !r->tasks) return PROPANE_OK;
    engine_task *t = &r->tasks[r->count - 1];
    PROPANE_TRY(h14_known(r));
    engine_task_plain(t, neural);
    h14_unheader(r, t);
    h14_unlike(r, t, neural);
    PROPANE_TRY(h14_unsource(r, t));
    PROPANE_TRY(h14_unresult(r, t));
    PROPANE_TRY(h14_unkernel(r, t));
    for (int i = 0; i < ENGINE_REGISTERS; i++) t->written[i] = true;
    return PROPANE_OK;
}

static void h14_begin(h14_reader *r, const later_step *s) {
    r->open = true;
    r->offset = s->address;
    r->count++;
    r->header_words = 0;
    r->r = (h14_registers){{0}, {0}};
    for (int i = 0; i < H14_WORDS; i++) r->bar[i] = H14_NO_BAR;
}

static void h14_step(void *context, const later_step *s) {
    h14_reader *r = context;
    if (r->status) return;
    switch (s->part) {
    case LATER_TASK:
        r->status = h14_close(r);
        h14_begin(r, s);
        break;
    case LATER_HEADER:
        if (r->header_words < H14_HEADER_WORDS) r->header[r->header_words++] = s->value;
        break;
    case LATER_RECORD: r->record_bar = s->bar; break;
    case LATER_WORD:
        if (s->address >= H14_END || !engine_later_block(ENGINE_H14, s->address)) {
            if (r->tasks)
                r->status = propane_fail(r->err, PROPANE_ERR_UNSUPPORTED,
                                         "task %d at 0x%x: a record writes register 0x%05x, which no block has",
                                         r->count - 1, r->offset, s->address);
            break;
        }
        r->r.value[s->address / 4] = s->value;
        r->r.given[s->address / 4] = true;
        r->bar[s->address / 4] = s->bar >= 0 ? s->bar : r->record_bar;
        break;
    }
}

propane_status engine_h14_read(const uint8_t *data, uint64_t bytes, arena *a, engine_task **tasks, int *count,
                               propane_error *err) {
    const later_text from = {data, bytes, ENGINE_H14};
    h14_reader *r = ARENA_NEW(a, h14_reader);
    if (!r) return propane_fail_memory(err, sizeof *r);
    *r = (h14_reader){.err = err, .record_bar = H14_NO_BAR};
    PROPANE_TRY(engine_later_walk(&from, h14_step, r, err));
    *count = r->count;
    if (!*count) return propane_fail(err, PROPANE_ERR_INVALID, "the text has no task");
    if (!(*tasks = ARENA_ARRAY(a, *count, engine_task)))
        return propane_fail_memory(err, (size_t)*count * sizeof **tasks);
    *r = (h14_reader){.tasks = *tasks, .err = err, .record_bar = H14_NO_BAR};
    PROPANE_TRY(engine_later_walk(&from, h14_step, r, err));
    return r->status ? r->status : h14_close(r);
}
