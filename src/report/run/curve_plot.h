/* SPDX-License-Identifier: MIT
 * Declares the plot of runs' losses as curves on a terminal, with numbers on the axes. For a single run, the curves are
 * the training loss, and the validation loss in another colour. Each of several runs has one curve with a colour and a
 * letter ('a' for the first).
 */
#ifndef REPORT_RUN_CURVE_PLOT_H
#define REPORT_RUN_CURVE_PLOT_H

#include "report/run/run_set.h"

typedef struct curve_plot {
    int width, rows; /* size of the whole plot in characters; `rows` does not count the line of steps */
    bool colour;
    bool validation; /* for several runs: plots their validation losses instead of their training losses */
    const char *end; /* end of each line */
} curve_plot;

/* Appends the plot. Appends nothing if there is no loss yet, or if the size is too small. */
PROPANE_CHECK propane_status curve_plot_print(const run_set *s, const curve_plot *p, text *out, propane_error *err);
/* Returns the letter of a run: 'a' to 'z', or '+' for later runs. */
char curve_plot_letter(int run);

#endif
