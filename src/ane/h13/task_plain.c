/* SPDX-License-Identifier: MIT
 * Owns the words that all tasks of one engine have in common, derived from published programs of Apple's compiler
 * (joshuaswarren/mil-hwx-compiler plugins/H13, research/h13-td-fields.md).
 */
#include "ane/h13/task.h"

/* Registers that every task has: address and value. */
static const uint32_t plain_common[][2] = {{0x00004, 1},          {0x00008, 0x22},   {0x00018, 1},
                                           {0x0001c, 0x5000a021}, {0x00020, 0x2041}, {0x00024, 0x10001},
                                           {0x13800, 0x8880},     {0x13804, 0x8880}, {0x13838, 0x01000000},
                                           {0x13840, 0x100},      {0x17800, 0xc0},   {0x17818, 0x01000000}};
static const uint32_t plain_planar[][2] = {{0x08804, 0x3c000000}, {0x08808, 0x3c000000}, {0x0880c, 0x3f800000},
                                           {0x0c800, 0x80},       {0x0c804, 0x100000},   {0x00034, 0x21}};
static const uint32_t plain_neural[][2] = {
    {0x00034, 1}, {0x00038, 0x100000}, {0x0c800, 0x82}, {0x0c804, 0x101c00}, {0x0c810, 0x3c00}};

static void task_plain_words(engine_task *t, const uint32_t (*words)[2], size_t count) {
    for (size_t i = 0; i < count; i++) engine_set(t, words[i][0], words[i][1]);
}

void engine_task_plain(engine_task *t, bool neural) {
    *t = (engine_task){0};
    task_plain_words(t, plain_common, sizeof plain_common / sizeof plain_common[0]);
    if (neural)
        task_plain_words(t, plain_neural, sizeof plain_neural / sizeof plain_neural[0]);
    else
        task_plain_words(t, plain_planar, sizeof plain_planar / sizeof plain_planar[0]);
    for (uint32_t i = 0; i < ENGINE_LANES; i++) engine_set(t, 0x1f808 + 4 * i, 0x80);
    for (uint32_t i = 0; i < 4; i++) engine_set(t, 0x1f8c8 + 4 * i, 0x80), engine_set(t, 0x1f8e8 + 4 * i, 0x40);
}
