/* SPDX-License-Identifier: MIT
 * A task of the H13 engine: header words, and runs of consecutive registers with their values.
 *
 *   stream  = tasks, each at a multiple of 0x100 bytes of the text section, with zeros in the gaps
 *   task    = header (10 words, 11 with TDE) + records
 *   record  = (count - 1) << 26 | byte address, then `count` words for consecutive registers
 *
 * `written` distinguishes a register that no record writes from one that is written with 0.
 */
#ifndef ANE_H13_TASK_H
#define ANE_H13_TASK_H

#include <stddef.h>

#include "ane/h13/registers.h"
#include "core/base/arena.h"

enum {
    ENGINE_H13 = 4,   /* generations as Mach-O subtypes: A14 and M1 */
    ENGINE_H14 = 5,   /* A15 and M2 */
    ENGINE_BARS = 32, /* base registers */
    ENGINE_BAR_CONSTANTS = 1,
    ENGINE_BAR_SCRATCH = 3, /* 2 and 3 are scratch memory */
    ENGINE_BAR_SURFACES = 4
};

enum { ENGINE_RECORDS = 24, ENGINE_TASK_ALIGN = 0x100, ENGINE_TASK_WORDS = 512 };

typedef struct engine_record {
    uint32_t address; /* byte address of the first register */
    int count;        /* 1..64 */
} engine_record;

typedef struct engine_task {
    uint32_t offset; /* in the text section, bytes */
    int header_words;
    uint32_t header[ENGINE_HEADER_WORDS];
    int record_count;
    engine_record records[ENGINE_RECORDS]; /* in the order of writing */
    uint32_t word[ENGINE_REGISTERS];       /* by engine_index */
    bool written[ENGINE_REGISTERS];
} engine_task;

/* Return the value of a register (0 if it is not written) or of one of its fields. `address` must be one of h13.def. */
uint32_t engine_get(const engine_task *t, uint32_t address);
uint32_t engine_get_bits(const engine_task *t, uint32_t address, int low, int bits);
void engine_set(engine_task *t, uint32_t address, uint32_t value); /* does not change records */
/* Returns a field of the header word `word`. */
uint32_t engine_head(const engine_task *t, int word, int low, int bits);

int engine_task_words(const engine_task *t); /* including header and record words */
/* Sets the words that every task of an engine has, whatever its operands, and clears the rest. */
void engine_task_plain(engine_task *t, bool neural);
/* Adds a record and marks its registers as written. */
void engine_task_record(engine_task *t, uint32_t address, int count);

/* Reads a whole stream. The first task has `first_words` words; the tasks contain the sizes and places of the
 * others. *count > 0 on success, and the arena owns the memory. Every byte outside the tasks must be zero. */
PROPANE_CHECK propane_status engine_stream_read(const uint8_t *text, size_t bytes, int first_words, arena *a,
                                                engine_task **out, int *count, propane_error *err);
/* Writes a stream's bytes at the tasks' offsets. `out` has engine_stream_bytes(...) bytes. */
size_t engine_stream_bytes(const engine_task *tasks, int count);
void engine_stream_write(const engine_task *tasks, int count, uint8_t *out);

#endif
