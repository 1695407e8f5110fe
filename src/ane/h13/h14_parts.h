/* SPDX-License-Identifier: MIT
 * Declares what the writer and reader of H14's tasks share. Private to ane/h13/h14*.c.
 */
#ifndef ANE_H13_H14_PARTS_H
#define ANE_H13_H14_PARTS_H

#include "ane/h13/h14.h"
#include "ane/h13/later.h"

enum {
    H14_COMMON = 0x0000,
    H14_KERNEL_SHAPE = 0x001c, /* OCGSize */
    H14_CONVOLUTION = 0x0020,
    H14_GROUPS = 0x0028,
    H14_CONFIG = 0x0038,
    H14_TASK_INFO = 0x003c,
    H14_L2 = 0x0500,
    H14_L2_SOURCE = 0x0504,
    H14_L2_RESULT = 0x0530,
    H14_PE = 0x0900,
    H14_NE = 0x0d00,
    H14_SOURCE = 0x1100,
    H14_SOURCE2 = 0x1104,
    H14_SOURCE_EXT = 0x1108,
    H14_SOURCE2_EXT = 0x110c,
    H14_SOURCE_BASE = 0x1110,
    H14_SOURCE_ROW = 0x1118,
    H14_SOURCE2_BASE = 0x1128,
    H14_SOURCE2_ROW = 0x1130,
    H14_SOURCE_FORMAT = 0x1150,
    H14_SOURCE2_FORMAT = 0x1154,
    H14_RESULT = 0x1500,
    H14_RESULT_BASE = 0x1508,
    H14_RESULT_ROW = 0x1510,
    H14_RESULT_FORMAT = 0x1520,
    H14_FILL = 0x1524,
    H14_KERNEL = 0x1900,
    H14_KERNEL_BASE = 0x1908,
    H14_RUNTIME_BYTES = 0x1914,
    H14_LANE = 0x1918,
    H14_LANE_BASE = 0x1958,
    H14_LANE_BYTES = 0x1998,
    H14_STREAM = 0x19d8,
    H14_TABLE_BASE = 0x19f4,
    H14_TABLE_ADDRESS = 0x1a00,
    H14_TABLE_SIZE = 0x1a14,
    H14_END = 0x1a18,
    H14_WORDS = H14_END / 4,
    H14_LANE_OFF = 0x20,
    H14_LANE_LEAST = 0x40, /* bytes of a lane without a record */
    H14_TAG = 16           /* the lowest bit of a tag */
};

/* A task's registers during writing or reading. */
typedef struct h14_registers {
    uint32_t value[H14_WORDS];
    bool given[H14_WORDS]; /* whether a record writes the register */
} h14_registers;

/* A block with the same words as on H13, at other addresses; `base` and `words` are the values for H14. */
typedef struct h14_block {
    uint32_t base;
    int words;
} h14_block;
enum { H14_BLOCKS = 4 };
/* Lists those blocks of a neural or planar task: common, l2, and ne or pe. Returns their number. */
int h14_like_blocks(bool neural, h14_block out[H14_BLOCKS]);
/* Sets *out to the moves of a register in those blocks, and returns their number. The table of moves is filled once per
 * process from engine_later_moves. */
int h14_moves(uint32_t address, const later_move **out);

/* Returns whether the task only passes values through an activation's table, without a kernel. */
bool h14_is_table(const engine_task *t);
/* Returns how many channels a lane processes side by side in a neural copy that exchanges channels and width, or 1 for
 * other tasks. H13 has no field for that number. */
int h14_rows_turned(const engine_task *t);
uint32_t h14_log2(int power); /* `power` must be a power of two */

#endif
