/* SPDX-License-Identifier: MIT
 * Reads and writes tasks of the H13 engine. A task consists of header words, and of runs of consecutive registers with
 * their values.
 *
 *   stream  = tasks, each at a multiple of 0x100 bytes of the text section, with zeros in the gaps
 *   task    = header (10 words, 11 with TDE) + records
 *   record  = (count - 1) << 26 | byte address, then `count` words for consecutive registers
 *
 * `written` distinguishes a register that no record writes from a register that a record sets to 0.
 */
#ifndef ANE_H13_TASK_H
#define ANE_H13_TASK_H

#include <stddef.h>

#include "ane/h13/registers.h"
#include "core/base/arena.h"

enum {
    ENGINE_H13 = 4,   /* Mach-O subtype of A14 and M1 */
    ENGINE_H14 = 5,   /* Mach-O subtype of A15 and M2 */
    ENGINE_BARS = 32, /* base registers */
    ENGINE_BAR_CONSTANTS = 1,
    ENGINE_BAR_SCRATCH = 3, /* base registers 2 and 3 address scratch memory */
    ENGINE_BAR_SURFACES = 4
};

enum { ENGINE_RECORDS = 24, ENGINE_TASK_ALIGN = 0x100, ENGINE_TASK_WORDS = 512 };

typedef struct engine_record {
    uint32_t address; /* byte address of the first register */
    int count;        /* 1..64 */
} engine_record;

typedef struct engine_task {
    uint32_t offset; /* bytes from the start of the text section */
    int header_words;
    uint32_t header[ENGINE_HEADER_WORDS];
    int record_count;
    engine_record records[ENGINE_RECORDS]; /* in the order of writing */
    uint32_t word[ENGINE_REGISTERS];       /* indexed by engine_index */
    bool written[ENGINE_REGISTERS];
} engine_task;

/* Return the value of a register (0 if it was never set), or of one of its fields. `address` must be the address of a
 * register in h13.def, not of a header word. */
uint32_t engine_get(const engine_task *t, uint32_t address);
uint32_t engine_get_bits(const engine_task *t, uint32_t address, int low, int bits);
void engine_set(engine_task *t, uint32_t address, uint32_t value); /* does not change records */
/* Returns `bits` bits of header word `word`, starting at bit `low`. */
uint32_t engine_head(const engine_task *t, int word, int low, int bits);

int engine_task_words(const engine_task *t); /* including header and record words */
/* Sets the registers that have the same value in all tasks of the neural (otherwise the planar) engine, and clears
 * everything else in the task. */
void engine_task_plain(engine_task *t, bool neural);
/* Adds a record and marks its registers as written. */
void engine_task_record(engine_task *t, uint32_t address, int count);

/* Reads a whole stream. The first task has `first_words` words; each task contains the size and offset of the next. On
 * success, *count > 0, and the arena owns *out. Every byte outside the tasks must be zero. */
PROPANE_CHECK propane_status engine_stream_read(const uint8_t *text, size_t bytes, int first_words, arena *a,
                                                engine_task **out, int *count, propane_error *err);
/* Writes each task at its offset, and zeros between tasks. `out` has room for engine_stream_bytes(tasks, count)
 * bytes. */
size_t engine_stream_bytes(const engine_task *tasks, int count);
void engine_stream_write(const engine_task *tasks, int count, uint8_t *out);

#endif
