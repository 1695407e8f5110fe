/* SPDX-License-Identifier: MIT
 * The losses of runs as curves on a terminal, with numbers at the axes. One run: training, and validation in another
 * colour. Several: a colour and a letter for each ('a' the first one).
 */
#ifndef REPORT_RUN_CURVE_PLOT_H
#define REPORT_RUN_CURVE_PLOT_H

#include "report/run/run_set.h"

typedef struct curve_plot {
    int width, rows; /* of all, without the line of steps */
    bool colour;
    bool validation; /* of several runs: their validation losses instead of their training losses */
    const char *end; /* of each line */
} curve_plot;

/* Nothing where there is no loss yet, or no room. */
PROPANE_CHECK propane_status curve_plot_print(const run_set *s, const curve_plot *p, text *out, propane_error *err);
/* 'a' to 'z', then '+'. */
char curve_plot_letter(int run);

#endif
