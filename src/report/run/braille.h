/* SPDX-License-Identifier: MIT
 * Declares the drawing of curves on a terminal. Each character cell is a braille pattern of 2 by 4 dots.
 */
#ifndef REPORT_RUN_BRAILLE_H
#define REPORT_RUN_BRAILLE_H

#include <stdbool.h>

#include "core/base/status.h"
#include "core/base/text.h"

enum { BRAILLE_INKS = 6 };

typedef struct braille {
    int columns, rows;   /* cells */
    unsigned char *dots; /* [rows][columns]: the bits of each cell's pattern */
    unsigned char *inks; /* [rows][columns]: the ink that was drawn last in the cell, or 0 */
    char *labels;        /* [rows][columns]: an ASCII character that replaces the dots, or 0 */
} braille;

PROPANE_CHECK propane_status braille_init(braille *b, int columns, int rows, propane_error *err);
void braille_deinit(braille *b);
/* Draws a dot with x in 0 .. 2*columns-1 and y in 0 .. 4*rows-1, counted from the bottom. Dots outside are ignored.
 * `ink` is 1 to BRAILLE_INKS. */
void braille_dot(braille *b, int x, int y, int ink);
void braille_line(braille *b, int x0, int y0, int x1, int y1, int ink);
/* Puts a letter into the cell of the dot (x, y), or into the nearest free cell below or above. */
void braille_label(braille *b, int x, int y, char label, int ink);
/* Returns the escape sequence that turns a colour on. */
const char *braille_colour(int ink);
/* Appends one row of cells as UTF-8, with colours if `colour` is set. Row 0 is at the top. */
void braille_row(const braille *b, int row, bool colour, text *out);

#endif
