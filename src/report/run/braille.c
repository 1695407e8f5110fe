/* SPDX-License-Identifier: MIT
 * Owns the cells and their dots. A cell's character is U+2800 plus one bit per dot: 1, 2, 4 and 64 from top to bottom
 * in the left column, and 8, 16, 32 and 128 in the right one.
 */
#include "report/run/braille.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

propane_status braille_init(braille *b, int columns, int rows, propane_error *err) {
    *b = (braille){.columns = columns > 1 ? columns : 1, .rows = rows > 1 ? rows : 1};
    size_t cells = (size_t)b->columns * (size_t)b->rows;
    b->dots = mem_array(cells, 1);
    b->inks = mem_array(cells, 1);
    b->labels = mem_array(cells, 1);
    if (b->dots && b->inks && b->labels) return PROPANE_OK;
    braille_deinit(b);
    return propane_fail_memory(err, cells);
}

void braille_deinit(braille *b) {
    mem_free(b->dots);
    mem_free(b->inks);
    mem_free(b->labels);
    *b = (braille){0};
}

void braille_dot(braille *b, int x, int y, int ink) {
    static const unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    if (x < 0 || y < 0 || x >= 2 * b->columns || y >= 4 * b->rows) return;
    int row = b->rows - 1 - y / 4, cell = row * b->columns + x / 2;
    b->dots[cell] |= bits[3 - y % 4][x % 2];
    b->inks[cell] = (unsigned char)ink;
}

void braille_line(braille *b, int x0, int y0, int x1, int y1, int ink) {
    int steps = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= steps; i++) {
        double at = steps ? (double)i / steps : 0;
        braille_dot(b, x0 + (int)(at * (x1 - x0) + (x1 > x0 ? 0.5 : -0.5)),
                    y0 + (int)(at * (y1 - y0) + (y1 > y0 ? 0.5 : -0.5)), ink);
    }
}

void braille_label(braille *b, int x, int y, char label, int ink) {
    if (x < 0 || y < 0 || x >= 2 * b->columns || y >= 4 * b->rows) return;
    const int row = b->rows - 1 - y / 4;
    for (int away = 0; away < 2 * b->rows; away++) {
        const int at = row + (away % 2 ? (away + 1) / 2 : -away / 2);
        if (at < 0 || at >= b->rows || b->labels[at * b->columns + x / 2]) continue;
        b->labels[at * b->columns + x / 2] = label;
        b->inks[at * b->columns + x / 2] = (unsigned char)ink;
        return;
    }
}

const char *braille_colour(int ink) {
    static const char *const colours[BRAILLE_INKS] = {"\033[36m", "\033[33m", "\033[32m",
                                                      "\033[35m", "\033[31m", "\033[34m"};
    return ink > 0 ? colours[(ink - 1) % BRAILLE_INKS] : "\033[0m";
}

void braille_row(const braille *b, int row, bool colour, text *out) {
    int on = 0;
    for (int c = 0; c < b->columns; c++) {
        const int cell = row * b->columns + c, pattern = b->dots[cell];
        if (pattern == 0 && !b->labels[cell]) {
            text_append(out, " ");
            continue;
        }
        if (colour && b->inks[cell] != on) text_append(out, braille_colour(b->inks[cell]));
        on = b->inks[cell];
        const char bytes[3] = {(char)0xE2, (char)(0xA0 | pattern >> 6), (char)(0x80 | (pattern & 63))};
        text_append_n(out, b->labels[cell] ? &b->labels[cell] : bytes, b->labels[cell] ? 1 : 3);
    }
    if (colour && on) text_append(out, "\033[0m");
}
