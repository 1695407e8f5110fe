/* SPDX-License-Identifier: MIT
 * Tasks of H14 to H19: frames, records, and the rows of later.def about registers.
 *
 *   stream  = tasks, each at a multiple of 16 bytes; frames of 16 bytes whose first word has no size are skipped
 *   task    = header (8 words, from H16 on 9; one more if its last word has both low bits set) + records
 *   record  = dense:   count - 1 at bit 15 (6 bits), word index at bit 0 (15 bits), then the words
 *             scatter: bit 31, a mask at bit 15 (16 bits), word index at bit 0: that word, then those of the mask
 *   A dense record with bit 29 is an address: bits 23 to 27 are the base register.
 */
#ifndef ANE_H13_LATER_H
#define ANE_H13_LATER_H

#include "ane/h13/task.h"
#include "core/base/text.h"

typedef enum later_part { LATER_TASK, LATER_HEADER, LATER_RECORD, LATER_WORD } later_part;

/* The start of a task (`value` is its length in words, `address` its offset), a header word, a record (`value` is its header word),
 * or a register's value. */
typedef struct later_step {
    later_part part;
    uint32_t address, value;
    int bar; /* LATER_RECORD: base register, or -1 */
} later_step;
typedef void (*later_visit)(void *context, const later_step *step);

/* The text of a program of generation `subtype`. */
typedef struct later_text {
    const uint8_t *data;
    uint64_t bytes;
    uint32_t subtype;
} later_text;
/* Calls `visit` for everything in the text. Errors name the task and word. A task is visited only if all its sizes
 * are right. */
PROPANE_CHECK propane_status engine_later_walk(const later_text *t, later_visit visit, void *context,
                                               propane_error *err);

typedef struct later_field {
    const char *name;
    int low, bits, index; /* index: position among registers that are alike, or -1 */
    engine_mark mark;
} later_field;
/* Lists the fields of a register or header word (address 4 * word), at most LATER_FIELDS. */
enum { LATER_FIELDS = 24 };
int engine_later_fields(uint32_t subtype, bool header, uint32_t address, later_field out[LATER_FIELDS]);
/* Returns the bits of a word that belong to none of its fields. */
uint32_t engine_later_unknown(uint32_t value, const later_field *fields, int count);
/* Returns NULL if no block of that generation has the register. */
const char *engine_later_block(uint32_t subtype, uint32_t address);

/* Returns the number of words of a block, and its first register in *base; 0 if the generation has no such block. */
int engine_later_block_of(uint32_t subtype, const char *name, uint32_t *base);
/* Returns the value of a register that no record of a task writes. */
uint32_t engine_later_unwritten(uint32_t subtype, uint32_t address);
/* Returns whether programs of Apple's compiler write the register in a record if it holds `value`. */
bool engine_later_is_written(uint32_t subtype, uint32_t address, uint32_t value);
/* Returns the word that corresponds to `value` of H13; with `reverse` the other way round. Returns false if no
 * program shows it. */
bool engine_later_pair(uint32_t subtype, uint32_t address, bool reverse, uint32_t value, uint32_t *out);
/* The `bits` bits of the register from bit `low` up correspond to those of H13's register `from` from bit `from_low`
 * up. */
typedef struct later_move {
    int low, bits;
    uint32_t from;
    int from_low;
} later_move;
int engine_later_moves(uint32_t subtype, uint32_t address, later_move out[LATER_FIELDS]);

/* Prints each task in one line; `words` adds every word by field. Unknown bits and unreadable text are printed as
 * such. */
void engine_later_describe(const later_text *t, bool words, text *out);
/* Returns how many words of four bytes differ, including those that only one side has. */
int engine_words_that_differ(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes);
/* Prints the fields that differ, task by task, and returns the number of different words. If the programs
 * are of two generations, only words are counted; the generation counts as one. */
int engine_later_difference(const later_text *a, const later_text *b, text *out);

#endif
