/* SPDX-License-Identifier: MIT
 * Owns what the writer and reader of H14's tasks share: the table of moves between registers of H13 and H14, and the
 * tests for tables and for rows side by side.
 */
#include <pthread.h>

#include "ane/h13/h14_parts.h"

typedef struct h14_moves_of {
    int count;
    later_move moves[LATER_FIELDS];
} h14_moves_of;

enum { H14_LIKE_WORDS = H14_SOURCE / 4 };
static h14_moves_of h14_table[H14_LIKE_WORDS];
static pthread_once_t h14_table_once = PTHREAD_ONCE_INIT;

static void h14_table_fill(void) {
    for (uint32_t i = 0; i < H14_LIKE_WORDS; i++)
        h14_table[i].count = engine_later_moves(ENGINE_H14, 4 * i, h14_table[i].moves);
}

int h14_moves(uint32_t address, const later_move **out) {
    pthread_once(&h14_table_once, h14_table_fill);
    *out = h14_table[address / 4].moves;
    return h14_table[address / 4].count;
}

int h14_like_blocks(bool neural, h14_block out[H14_BLOCKS]) {
    const char *const names[] = {"common", "l2", neural ? "ne" : "pe"};
    for (int i = 0; i < 3; i++) out[i].words = engine_later_block_of(ENGINE_H14, names[i], &out[i].base);
    return 3;
}

bool h14_is_table(const engine_task *t) {
    uint32_t mode = engine_get_bits(t, 0xc804, 0, 4);
    return engine_get_bits(t, 0x1f800, 6, 1) && engine_get_bits(t, 0xc804, 16, 2) == 2 && (mode == 8 || mode == 12);
}

int h14_rows_turned(const engine_task *t) {
    enum { PASS = 12, MOST = 8 };
    int rows = 1;
    bool turns = engine_get_bits(t, 0x38, 20, 1) && engine_get_bits(t, 0x34, 28, 1) && engine_get_bits(t, 0x24, 14, 1);
    if (!turns || engine_get_bits(t, 0xc804, 0, 4) != PASS) return 1;
    while (rows < MOST && 2 * rows * ENGINE_LANES <= (int)engine_get_bits(t, 0xc, 0, 17)) rows *= 2;
    return rows;
}

uint32_t h14_log2(int power) {
    uint32_t bits = 0;
    while (power >> bits > 1) bits++;
    return bits;
}
