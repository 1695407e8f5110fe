/* SPDX-License-Identifier: MIT
 * Reads tasks of H14 to H19: frames, records, and the rows of later.def about registers.
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

/* A part of the text. LATER_TASK is the start of a task: `address` is its offset, and `value` its length in words.
 * LATER_HEADER is a header word, whose `address` is 4 * its index. LATER_RECORD is a record, whose `value` is its first
 * word. LATER_WORD is the word that a record writes to register `address`. */
typedef struct later_step {
    later_part part;
    uint32_t address, value;
    int bar; /* base register of an address record; -1 for any other part */
} later_step;
typedef void (*later_visit)(void *context, const later_step *step);

/* The text of a program of generation `subtype`. */
typedef struct later_text {
    const uint8_t *data;
    uint64_t bytes;
    uint32_t subtype;
} later_text;
/* Calls `visit` for every part of the text. A task is visited only if all its sizes are valid. Errors name the task and
 * the word. */
PROPANE_CHECK propane_status engine_later_walk(const later_text *t, later_visit visit, void *context,
                                               propane_error *err);

typedef struct later_field {
    const char *name;
    int low, bits, index; /* `index` is the position among registers with the same layout, or -1 */
    engine_mark mark;
} later_field;
/* Lists the fields of a register or header word (address 4 * word), at most LATER_FIELDS, and returns their number. */
enum { LATER_FIELDS = 24 };
int engine_later_fields(uint32_t subtype, bool header, uint32_t address, later_field out[LATER_FIELDS]);
/* Returns the bits of `value` that belong to none of the fields. */
uint32_t engine_later_unknown(uint32_t value, const later_field *fields, int count);
/* Returns the name of the block that has the register, or NULL if no block of the generation has it. */
const char *engine_later_block(uint32_t subtype, uint32_t address);

/* Sets *base to the first register of a block and returns the block's number of words. Returns 0 if the generation has
 * no such block. */
int engine_later_block_of(uint32_t subtype, const char *name, uint32_t *base);
/* Returns the value that a register has if no record of a task writes it. */
uint32_t engine_later_unwritten(uint32_t subtype, uint32_t address);
/* Returns whether Apple's compiler writes the register in a record if the register holds `value`. */
bool engine_later_is_written(uint32_t subtype, uint32_t address, uint32_t value);
/* Sets *out to the value of register `address` that corresponds to `value` on H13. With `reverse`, converts from
 * register `address` to H13. Returns false if no program shows the pair. */
bool engine_later_pair(uint32_t subtype, uint32_t address, bool reverse, uint32_t value, uint32_t *out);
/* `bits` bits of a register, starting at bit `low`, correspond to as many bits of H13's register `from`, starting at
 * bit `from_low`. engine_later_moves lists the moves of a register and returns their number. */
typedef struct later_move {
    int low, bits;
    uint32_t from;
    int from_low;
} later_move;
int engine_later_moves(uint32_t subtype, uint32_t address, later_move out[LATER_FIELDS]);

/* Prints one line per task; `words` adds every word by field. Marks unknown bits, and prints an error where the text
 * cannot be read. */
void engine_later_describe(const later_text *t, bool words, text *out);
/* Returns how many four-byte words differ, including words that only one side has. */
int engine_words_that_differ(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes);
/* Prints the fields that differ, task by task, and returns the number of words that differ. If the programs are of
 * different generations, prints no fields, and counts the generation as one more word. */
int engine_later_difference(const later_text *a, const later_text *b, text *out);

#endif
