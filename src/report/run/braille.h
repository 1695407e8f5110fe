/* SPDX-License-Identifier: MIT
 * Curves on a terminal: each character cell is a braille pattern of 2 by 4 dots.
 */
#ifndef REPORT_RUN_BRAILLE_H
#define REPORT_RUN_BRAILLE_H

#include <stdbool.h>

#include "core/base/status.h"
#include "core/base/text.h"

enum { BRAILLE_INKS = 6 };

typedef struct braille {
    int columns, rows;   /* cells */
    unsigned char *dots; /* [rows][columns]: the pattern's bits */
    unsigned char *inks; /* cells: the curve that was drawn last there, 0: none */
    char *labels;        /* cells: an ASCII character instead of dots, 0: none */
} braille;

PROPANE_CHECK propane_status braille_init(braille *b, int columns, int rows, propane_error *err);
void braille_deinit(braille *b);
/* Dots: x in 0 .. 2*columns-1, y in 0 .. 4*rows-1 from the bottom; what lies outside is left out. */
/* `ink`: 1 to BRAILLE_INKS. */
void braille_dot(braille *b, int x, int y, int ink);
void braille_line(braille *b, int x0, int y0, int x1, int y1, int ink);
/* A letter in the cell of that dot, or in the next free one below or above. */
void braille_label(braille *b, int x, int y, char label, int ink);
/* The sequence that turns a colour on. */
const char *braille_colour(int ink);
/* One row of cells, 0 at the top, as UTF-8; in colours if `colour`. */
void braille_row(const braille *b, int row, bool colour, text *out);

#endif
