/* SPDX-License-Identifier: MIT
 * Curves as inline SVG for a page: axes with round numbers, up to two curves, colours from the page's style (classes
 * `curve`, `second`, `grid`, `axis`).
 */
#ifndef CLI_RUN_SVG_H
#define CLI_RUN_SVG_H

#include "base/text.h"

typedef struct svg_curve {
    const char *name;
    const double *x, *y; /* not finite: left out */
    int count;
    bool dots; /* a mark at each point beside the line */
} svg_curve;

/* Nothing is written where no curve has a finite point. */
void svg_chart(text *out, const char *title, const char *x_name, const svg_curve *curves, int count);

#endif
