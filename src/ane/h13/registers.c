/* SPDX-License-Identifier: MIT
 * Owns the tables of h13.def, and the lookup of its rows by a register's address.
 */
#include "ane/h13/registers.h"

#include <stddef.h>

const engine_block engine_blocks[ENGINE_BLOCKS] = {
#define BLOCK(id, base, words, what) {#id, what, base, words},
#define FIELD(block, address, times, low, bits, name, role, mark, meaning)
#include "ane/h13/h13.def"
};

#define DOES  ENGINE_DOES, 0
#define HINT  ENGINE_HINT, 0
#define IS(v) ENGINE_IS, v
const engine_field engine_fields[] = {
#define BLOCK(id, base, words, what)
#define FIELD(block, address, times, low, bits, name, role, mark, meaning)                                             \
    {ENGINE_BLOCK_##block, address, times, low, bits, name, meaning, role, ENGINE_##mark},
#include "ane/h13/h13.def"
};
const int engine_field_count = sizeof engine_fields / sizeof engine_fields[0];

int engine_index(uint32_t address) {
    int before = 0;
    for (int b = ENGINE_BLOCK_header + 1; b < ENGINE_BLOCKS; b++) {
        uint32_t at = address - engine_blocks[b].base;
        if (address >= engine_blocks[b].base && at < 4u * (uint32_t)engine_blocks[b].words)
            return at % 4 ? -1 : before + (int)(at / 4);
        before += engine_blocks[b].words;
    }
    return -1;
}

uint32_t engine_address(int index) {
    int b = ENGINE_BLOCK_header + 1;
    for (; b < ENGINE_BLOCKS - 1 && index >= engine_blocks[b].words; b++) index -= engine_blocks[b].words;
    return engine_blocks[b].base + 4u * (uint32_t)index;
}

const engine_field *engine_field_next(bool header, uint32_t address, const engine_field *after) {
    for (const engine_field *f = after ? after + 1 : engine_fields; f < engine_fields + engine_field_count; f++)
        if ((f->block == ENGINE_BLOCK_header) == header && address >= f->address &&
            address - f->address < 4u * (uint32_t)f->times)
            return f;
    return NULL;
}

uint32_t engine_known_bits(bool header, uint32_t address) {
    uint32_t known = 0;
    for (const engine_field *f = NULL; (f = engine_field_next(header, address, f));)
        known |= (f->bits == 32 ? ~0u : (1u << f->bits) - 1) << f->low;
    return known;
}
