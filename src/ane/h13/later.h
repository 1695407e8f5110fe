/* SPDX-License-Identifier: MIT
 * Tasks of H14 to H19: frames, records, and what the rows of later.def say of registers.
 *
 *   stream  = tasks, each at a multiple of 16 bytes; frames of 16 bytes whose first word has no size are skipped
 *   task    = header (8 words, from H16 on 9; one more where its last word has both low bits set) + records
 *   record  = dense:   count - 1 at bit 15 (6 bits), word index at bit 0 (15 bits), then the words
 *             scatter: bit 31, a mask at bit 15 (16 bits), word index at bit 0: its word, then those of the mask after it
 *   A dense record with bit 29 gives an address: bits 23 to 27 are the base register.
 */
#ifndef ANE_H13_LATER_H
#define ANE_H13_LATER_H

#include "ane/h13/task.h"
#include "core/base/text.h"

typedef enum later_part { LATER_TASK, LATER_HEADER, LATER_RECORD, LATER_WORD } later_part;

/* A task begins (`value` its words, `address` its offset), a header word, a record (`value` its header word), or a
 * register's value. */
typedef struct later_step {
    later_part part;
    uint32_t address, value;
    int bar; /* LATER_RECORD: base register, -1 none */
} later_step;
typedef void (*later_visit)(void *context, const later_step *step);

/* The text of a program of generation `subtype`. */
typedef struct later_text {
    const uint8_t *data;
    uint64_t bytes;
    uint32_t subtype;
} later_text;
/* Calls `visit` for everything in the text. Errors name the task and word; a task is looked at only when all its sizes are
 * right. */
PROPANE_CHECK propane_status engine_later_walk(const later_text *t, later_visit visit, void *context,
                                               propane_error *err);

typedef struct later_field {
    const char *name;
    int low, bits, index; /* index: of registers that are alike; -1: one alone */
    engine_mark mark;
} later_field;
/* The fields of a register or header word (address 4 * word), at most LATER_FIELDS. */
enum { LATER_FIELDS = 24 };
int engine_later_fields(uint32_t subtype, bool header, uint32_t address, later_field out[LATER_FIELDS]);
/* The bits of a word that none of its fields is of. */
uint32_t engine_later_unknown(uint32_t value, const later_field *fields, int count);
/* NULL: no block of that generation has the register. */
const char *engine_later_block(uint32_t subtype, uint32_t address);

/* Words of a block, and its first register in *base; 0: that generation has no such block. */
int engine_later_block_of(uint32_t subtype, const char *name, uint32_t *base);
/* What the register holds that no record of a task writes. */
uint32_t engine_later_unwritten(uint32_t subtype, uint32_t address);
/* Whether Apple's compiler has a record write the register where it holds `value`. */
bool engine_later_is_written(uint32_t subtype, uint32_t address, uint32_t value);
/* The word that stands here where H13 has `value`; with `reverse` the other way round. false: no program shows it. */
bool engine_later_pair(uint32_t subtype, uint32_t address, bool reverse, uint32_t value, uint32_t *out);
/* `bits` bits from `low` on of the register are those from `from_low` on of H13's register `from`. */
typedef struct later_move {
    int low, bits;
    uint32_t from;
    int from_low;
} later_move;
int engine_later_moves(uint32_t subtype, uint32_t address, later_move out[LATER_FIELDS]);

/* Each task in a line; with `words`, every word by field, unknown bits as unknown. What cannot be read is said. */
void engine_later_describe(const later_text *t, bool words, text *out);

#endif
