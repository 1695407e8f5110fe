/* SPDX-License-Identifier: MIT
 * Reads the frames of H14 and later, and looks up the rows of later.def.
 */
#include "ane/h13/later.h"

#include <string.h>

#include "core/base/bytes.h"
#include "core/base/int_math.h"

enum { LATER_FRAME = 16, LATER_H16 = 7 };

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

typedef struct later_block {
    uint32_t from, to, base;
    int words;
    const char *name; /* NULL for LIKE */
    uint32_t like;
} later_block;

/* Each include below sees one kind of row; the other kinds are defined as empty. */
#define UNWRITTEN(g, address, value)
#define NEVER(g, address)
#define ALWAYS(g, address)
#define PAIR(g, address, h13, value, other)
static const later_block later_blocks[] = {
#define BLOCK(from, to, base, words, name) {from, to, base, words, name, 0},
#define LIKE(from, to, base, words, like)  {from, to, base, words, NULL, like},
#define FIELD(from, to, head, address, times, low, bits, name, mark)
#include "ane/h13/later.def"
};

typedef struct later_row {
    uint32_t from, to;
    bool head;
    uint32_t address;
    int times, low, bits;
    const char *name;
    engine_mark mark;
} later_row;

#define UNWRITTEN(g, address, value)
#define NEVER(g, address)
#define ALWAYS(g, address)
#define PAIR(g, address, h13, value, other)
static const later_row later_rows[] = {
#define BLOCK(from, to, base, words, name)
#define LIKE(from, to, base, words, like)
#define FIELD(from, to, head, address, times, low, bits, name, mark)                                                   \
    {from, to, head, address, times, low, bits, name, ENGINE_##mark},
#include "ane/h13/later.def"
};

typedef enum later_fact_kind { LATER_UNWRITTEN, LATER_NEVER, LATER_ALWAYS } later_fact_kind;
typedef struct later_fact {
    later_fact_kind kind;
    uint32_t subtype, address, value;
} later_fact;

#define BLOCK(from, to, base, words, name)
#define LIKE(from, to, base, words, like)
#define FIELD(from, to, head, address, times, low, bits, name, mark)
#define PAIR(g, address, h13, value, other)
static const later_fact later_facts[] = {
#define UNWRITTEN(g, address, value) {LATER_UNWRITTEN, g, address, value},
#define NEVER(g, address)            {LATER_NEVER, g, address, 0},
#define ALWAYS(g, address)           {LATER_ALWAYS, g, address, 0},
#include "ane/h13/later.def"
};

typedef struct later_pair {
    uint32_t subtype, address, like, value, other;
} later_pair;

#define BLOCK(from, to, base, words, name)
#define LIKE(from, to, base, words, like)
#define FIELD(from, to, head, address, times, low, bits, name, mark)
#define UNWRITTEN(g, address, value)
#define NEVER(g, address)
#define ALWAYS(g, address)
static const later_pair later_pairs[] = {
#define PAIR(g, address, h13, value, other) {g, address, h13, value, other},
#include "ane/h13/later.def"
};

static const later_fact *later_fact_of(uint32_t subtype, uint32_t address, later_fact_kind kind) {
    for (size_t i = 0; i < sizeof later_facts / sizeof later_facts[0]; i++) {
        const later_fact *f = &later_facts[i];
        if (f->kind == kind && f->subtype == subtype && f->address == address) return f;
    }
    return NULL;
}

uint32_t engine_later_unwritten(uint32_t subtype, uint32_t address) {
    const later_fact *f = later_fact_of(subtype, address, LATER_UNWRITTEN);
    return f ? f->value : 0;
}

bool engine_later_is_written(uint32_t subtype, uint32_t address, uint32_t value) {
    if (later_fact_of(subtype, address, LATER_NEVER)) return false;
    return later_fact_of(subtype, address, LATER_ALWAYS) || value != engine_later_unwritten(subtype, address);
}

bool engine_later_pair(uint32_t subtype, uint32_t address, bool reverse, uint32_t value, uint32_t *out) {
    for (size_t i = 0; i < sizeof later_pairs / sizeof later_pairs[0]; i++) {
        const later_pair *p = &later_pairs[i];
        if (p->subtype != subtype || p->address != address || value != (reverse ? p->other : p->value)) continue;
        *out = reverse ? p->value : p->other;
        return true;
    }
    return false;
}

static const later_block *later_find(uint32_t subtype, uint32_t address, bool like) {
    for (size_t i = 0; i < sizeof later_blocks / sizeof later_blocks[0]; i++) {
        const later_block *b = &later_blocks[i];
        if (subtype >= b->from && subtype <= b->to && !b->name == like && address >= b->base &&
            address - b->base < 4u * (uint32_t)b->words)
            return b;
    }
    return NULL;
}

const char *engine_later_block(uint32_t subtype, uint32_t address) {
    const later_block *b = later_find(subtype, address, false);
    return b ? b->name : NULL;
}

int engine_later_fields(uint32_t subtype, bool header, uint32_t address, later_field out[LATER_FIELDS]) {
    int count = 0;
    const later_block *like = header ? NULL : later_find(subtype, address, true);
    for (size_t i = 0; i < sizeof later_rows / sizeof later_rows[0] && count < LATER_FIELDS; i++) {
        const later_row *r = &later_rows[i];
        uint32_t at = address - r->address;
        if (r->head != header || subtype < r->from || subtype > r->to || address < r->address ||
            at >= 4u * (uint32_t)r->times)
            continue;
        out[count++] = (later_field){r->name, r->low, r->bits, r->times > 1 ? (int)(at / 4) : -1, r->mark};
    }
    const engine_field *f = NULL;
    while (like && count < LATER_FIELDS && (f = engine_field_next(false, like->like + (address - like->base), f)))
        out[count++] = (later_field){f->name, f->low, f->bits, -1, f->mark == ENGINE_V ? ENGINE_I : f->mark};
    return count;
}

/* Returns the field of h13.def with this block and name, or NULL if there is none. */
static const engine_field *later_namesake(const char *block, const char *name) {
    for (int i = 0; i < engine_field_count; i++)
        if (strcmp(engine_fields[i].name, name) == 0 && strcmp(engine_blocks[engine_fields[i].block].name, block) == 0)
            return &engine_fields[i];
    return NULL;
}

int engine_later_moves(uint32_t subtype, uint32_t address, later_move out[LATER_FIELDS]) {
    int count = 0;
    const later_block *block = later_find(subtype, address, false), *like = later_find(subtype, address, true);
    if (!block) return 0;
    if (like) out[count++] = (later_move){0, 32, like->like + (address - like->base), 0};
    for (size_t i = 0; i < sizeof later_rows / sizeof later_rows[0] && count < LATER_FIELDS; i++) {
        const later_row *r = &later_rows[i];
        uint32_t at = address - r->address;
        if (r->head || subtype < r->from || subtype > r->to || address < r->address || at >= 4u * (uint32_t)r->times)
            continue;
        const engine_field *f = later_namesake(block->name, r->name);
        if (f && at < 4u * (uint32_t)f->times)
            out[count++] = (later_move){r->low, f->bits < r->bits ? f->bits : r->bits, f->address + at, f->low};
    }
    return count;
}

int engine_later_block_of(uint32_t subtype, const char *name, uint32_t *base) {
    for (size_t i = 0; i < sizeof later_blocks / sizeof later_blocks[0]; i++) {
        const later_block *b = &later_blocks[i];
        if (!b->name || subtype < b->from || subtype > b->to || strcmp(b->name, name) != 0) continue;
        *base = b->base;
        return b->words;
    }
    return 0;
}

uint32_t engine_later_unknown(uint32_t value, const later_field *fields, int count) {
    for (int i = 0; i < count; i++)
        value &= ~((fields[i].bits == 32 ? ~0u : (1u << fields[i].bits) - 1) << fields[i].low);
    return value;
}

/* ---- frames ---------------------------------------------------------------------------------------------------------------- */

typedef struct later_task {
    const uint8_t *data;
    uint32_t subtype, offset;
    int words, header;
} later_task;

static uint32_t later_word(const later_task *t, int i) { return bytes_u32(t->data + 4 * (size_t)i); }

static int later_mask_count(uint32_t mask) {
    int count = 0;
    for (; mask; mask &= mask - 1) count++;
    return count;
}

/* Returns the number of words after a record's first word. */
static int later_record_words(uint32_t head) {
    return head >> 31 ? 1 + later_mask_count(head >> 15 & 0xffff) : (int)(head >> 15 & 0x3f) + 1;
}

static propane_status later_open(const later_text *from, uint32_t offset, later_task *t, propane_error *err) {
    uint64_t left = from->bytes - offset;
    *t = (later_task){from->data + offset, from->subtype, offset, 0, from->subtype >= LATER_H16 ? 9 : 8};
    t->words = (int)(later_word(t, 0) >> 16 & 0x7ff);
    if (t->words == 0) return PROPANE_OK;
    if (t->words <= t->header || 4 * (uint64_t)t->words > left)
        return propane_fail(err, PROPANE_ERR_INVALID, "task at 0x%x: it has %d words, but only %llu are left", offset,
                            t->words, (unsigned long long)(left / 4));
    if ((later_word(t, t->header - 1) & 3) == 3) t->header++;
    for (int at = t->header, next; at < t->words; at = next) {
        next = at + 1 + later_record_words(later_word(t, at));
        if (next > t->words)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "task at 0x%x, word %d: a record of %d words, but the task has room for %d", offset, at,
                                next - at - 1, t->words - at - 1);
    }
    return PROPANE_OK;
}

static void later_visit_record(const later_task *t, int at, later_visit visit, void *context) {
    uint32_t head = later_word(t, at), address = 4 * (head & 0x7fff), mask = head >> 15 & 0xffff;
    bool scatter = head >> 31, address_record = !scatter && head >> 29 & 1;
    later_step step = {LATER_RECORD, address, head, address_record ? (int)(head >> 23 & 31) : -1};
    visit(context, &step);
    int word = at + 1;
    step = (later_step){LATER_WORD, address, later_word(t, word++), -1};
    visit(context, &step);
    for (uint32_t i = 0; i < (scatter ? 16u : (head >> 15 & 0x3f)); i++) {
        if (scatter && !(mask >> i & 1)) continue;
        step = (later_step){LATER_WORD, address + 4 * (i + 1), later_word(t, word++), -1};
        visit(context, &step);
    }
}

propane_status engine_later_walk(const later_text *from, later_visit visit, void *context, propane_error *err) {
    uint32_t offset = 0;
    while (from->bytes >= LATER_FRAME && offset <= from->bytes - LATER_FRAME) {
        later_task t;
        PROPANE_TRY(later_open(from, offset, &t, err));
        if (t.words == 0) {
            offset += LATER_FRAME;
            continue;
        }
        visit(context, &(later_step){LATER_TASK, offset, (uint32_t)t.words, -1});
        for (int i = 0; i < t.header; i++)
            visit(context, &(later_step){LATER_HEADER, 4 * (uint32_t)i, later_word(&t, i), -1});
        for (int at = t.header; at < t.words; at += 1 + later_record_words(later_word(&t, at)))
            later_visit_record(&t, at, visit, context);
        offset += (uint32_t)round_up(4 * t.words, LATER_FRAME);
    }
    return PROPANE_OK;
}
