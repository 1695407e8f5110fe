/* SPDX-License-Identifier: MIT
 * The registers of an H13 task as data: the rows of h13.def, and how a register's address becomes an index.
 *
 * A task writes seven blocks of registers, 140 words in all. `engine_index` gives a register's place in that count;
 * everything here that takes an address takes one of the register blocks (header words have addresses of their own).
 */
#ifndef ANE_H13_REGISTERS_H
#define ANE_H13_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

enum { ENGINE_REGISTERS = 140, ENGINE_HEADER_WORDS = 11, ENGINE_LANES = 16 };

typedef enum engine_role { ENGINE_DOES, ENGINE_HINT, ENGINE_IS } engine_role;
typedef enum engine_mark { ENGINE_V, ENGINE_S, ENGINE_I, ENGINE_U } engine_mark;

typedef enum engine_block_id {
#define BLOCK(id, base, words, what) ENGINE_BLOCK_##id,
#define FIELD(block, address, times, low, bits, name, role, mark, meaning)
#include "ane/h13/h13.def"
    ENGINE_BLOCKS
} engine_block_id;

typedef struct engine_block {
    const char *name, *meaning;
    uint32_t base;
    int words;
} engine_block;

typedef struct engine_field {
    engine_block_id block;
    uint32_t address; /* of the first of `times` registers that are alike */
    int times, low, bits;
    const char *name, *meaning; /* meaning may be empty */
    engine_role role;
    uint32_t value; /* ENGINE_IS */
    engine_mark mark;
} engine_field;

extern const engine_block engine_blocks[ENGINE_BLOCKS];
extern const engine_field engine_fields[];
extern const int engine_field_count;

/* Place of a register among the 140, in the order of h13.def's blocks; -1: no such register. */
int engine_index(uint32_t address);
uint32_t engine_address(int index);
/* Fields of the register (of a header word: block header, address 4 * word) in the order of their bits: the next one
 * behind `after` (NULL: the first); NULL: no more. */
const engine_field *engine_field_next(bool header, uint32_t address, const engine_field *after);
/* Bits of a register that some row names. */
uint32_t engine_known_bits(bool header, uint32_t address);

static inline uint32_t engine_bits(uint32_t word, int low, int bits) {
    return bits == 32 ? word : word >> low & ((1u << bits) - 1);
}

#endif
