/* SPDX-License-Identifier: MIT
 * The losses of runs as curves on a terminal, with numbers on the axes. A single run has its training loss, and
 * validation in another colour. Each of several runs has a colour and a letter ('a' for the first).
 */
#ifndef REPORT_RUN_CURVE_PLOT_H
#define REPORT_RUN_CURVE_PLOT_H

#include "report/run/run_set.h"

typedef struct curve_plot {
    int width, rows; /* in total, without the line of steps */
    bool colour;
    bool validation; /* for several runs: their validation losses instead of their training losses */
    const char *end; /* end of each line */
} curve_plot;

/* Prints nothing if there is no loss yet, or no room. */
PROPANE_CHECK propane_status curve_plot_print(const run_set *s, const curve_plot *p, text *out, propane_error *err);
/* Returns 'a' to 'z', then '+'. */
char curve_plot_letter(int run);

#endif
