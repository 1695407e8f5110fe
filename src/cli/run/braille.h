/* SPDX-License-Identifier: MIT
 * Curves on a terminal: each character cell is a braille pattern of 2 by 4 dots.
 */
#ifndef CLI_RUN_BRAILLE_H
#define CLI_RUN_BRAILLE_H

#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"

typedef struct braille {
    int columns, rows;   /* cells */
    unsigned char *dots; /* [rows][columns]: the pattern's bits */
    bool *marked;        /* cells of the second curve */
} braille;

PROPANE_CHECK propane_status braille_init(braille *b, int columns, int rows, propane_error *err);
void braille_deinit(braille *b);
/* Dots: x in 0 .. 2*columns-1, y in 0 .. 4*rows-1 from the bottom; what lies outside is left out. */
void braille_dot(braille *b, int x, int y, bool mark);
void braille_line(braille *b, int x0, int y0, int x1, int y1, bool mark);
/* One row of cells, 0 at the top, as UTF-8; marked cells in colour if `colour`. */
void braille_row(const braille *b, int row, bool colour, text *out);

#endif
