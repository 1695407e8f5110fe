/* SPDX-License-Identifier: MIT
 * Owns the dots. U+2800 plus eight bits: 1 2 4 64 down the left column, 8 16 32 128 down the right one.
 */
#include "cli/run/braille.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

propane_status braille_init(braille *b, int columns, int rows, propane_error *err) {
    *b = (braille){.columns = columns > 1 ? columns : 1, .rows = rows > 1 ? rows : 1};
    size_t cells = (size_t)b->columns * (size_t)b->rows;
    b->dots = mem_array(cells, 1);
    b->marked = mem_array(cells, sizeof *b->marked);
    if (b->dots && b->marked) return PROPANE_OK;
    braille_deinit(b);
    return propane_fail_memory(err, cells);
}

void braille_deinit(braille *b) {
    mem_free(b->dots);
    mem_free(b->marked);
    *b = (braille){0};
}

void braille_dot(braille *b, int x, int y, bool mark) {
    static const unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x < 0 || y < 0 || x >= 2 * b->columns || y >= 4 * b->rows) return;
    int row = b->rows - 1 - y / 4, cell = row * b->columns + x / 2;
    b->dots[cell] |= bits[3 - y % 4][x % 2];
    b->marked[cell] |= mark;
}

void braille_line(braille *b, int x0, int y0, int x1, int y1, bool mark) {
    int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= steps; i++) {
        double at = steps ? (double)i / steps : 0;
        braille_dot(b, x0 + (int)(at * (x1 - x0) + (x1 > x0 ? 0.5 : -0.5)),
                    y0 + (int)(at * (y1 - y0) + (y1 > y0 ? 0.5 : -0.5)), mark);
    }
}

void braille_row(const braille *b, int row, bool colour, text *out) {
    bool on = false;
    for (int c = 0; c < b->columns; c++) {
        int cell = row * b->columns + c, pattern = b->dots[cell];
        if (colour && b->marked[cell] != on) text_append(out, on ? "\033[36m" : "\033[33m");
        on = b->marked[cell];
        if (pattern == 0) {
            text_append(out, " ");
            continue;
        }
        const char bytes[3] = {(char)0xE2, (char)(0xA0 | pattern >> 6), (char)(0x80 | (pattern & 63))};
        text_append_n(out, bytes, 3);
    }
}
