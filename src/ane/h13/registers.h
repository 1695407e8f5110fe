/* SPDX-License-Identifier: MIT
 * Declares the registers of an H13 task as data (the rows of h13.def), and converts a register's address to an index.
 *
 * A task writes seven blocks of registers, 140 words in all, and `engine_index` returns a register's position among
 * them. Unless noted, an address is the address of a register in a block; header words have separate addresses.
 */
#ifndef ANE_H13_REGISTERS_H
#define ANE_H13_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    ENGINE_REGISTERS = 140,
    ENGINE_HEADER_WORDS = 11,
    ENGINE_LANES = 16,
    ENGINE_BUFFER = 0x200000 /* bytes on chip */
};

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
    uint32_t address; /* of the first of `times` registers with the same layout */
    int times, low, bits;
    const char *name, *meaning; /* meaning may be empty */
    engine_role role;
    uint32_t value; /* the only value in known programs, for ENGINE_IS */
    engine_mark mark;
} engine_field;

extern const engine_block engine_blocks[ENGINE_BLOCKS];
extern const engine_field engine_fields[];
extern const int engine_field_count;

/* Returns a register's position among the 140, in the order of h13.def's blocks; -1 if there is no such register. */
int engine_index(uint32_t address);
uint32_t engine_address(int index);
/* Iterates over the fields of a register in the order of their bits. Returns the field after `after`, or the first if
 * `after` is NULL; returns NULL at the end. With `header`, `address` is 4 * the index of a header word. */
const engine_field *engine_field_next(bool header, uint32_t address, const engine_field *after);
/* Returns a mask of the register's bits that belong to a field. */
uint32_t engine_known_bits(bool header, uint32_t address);

static inline uint32_t engine_bits(uint32_t word, int low, int bits) {
    return bits == 32 ? word : word >> low & ((1u << bits) - 1);
}

#endif
