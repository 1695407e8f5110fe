/* SPDX-License-Identifier: MIT
 * Curves as inline SVG for a page: axes with round numbers, colours from the page's style (classes `k0` to `k7`,
 * `grid`, `axis`).
 */
#ifndef REPORT_RUN_SVG_H
#define REPORT_RUN_SVG_H

#include "core/base/text.h"

enum { SVG_COLOURS = 8 };

typedef struct svg_curve {
    const double *x, *y; /* points that are not finite are left out */
    int count, colour;
    bool dots; /* mark each point in addition to the line */
} svg_curve;

/* Writes nothing if no curve has a finite point. */
void svg_chart(text *out, const char *title, const char *x_name, const svg_curve *curves, int count);

#endif
