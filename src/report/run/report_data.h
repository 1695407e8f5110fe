/* SPDX-License-Identifier: MIT
 * Declares the data of a report's charts: curves, colours and values.
 */
#ifndef REPORT_RUN_REPORT_DATA_H
#define REPORT_RUN_REPORT_DATA_H

#include "report/run/run_set.h"

enum { REPORT_DATA_COLOURS = 8 }; /* number of colours for runs; further runs use them again */

/* Writes the charts of the page: one empty <figure> each, then <script id="data"> with
 *
 *   {"unit": "tokens", "charts": [{"title", "legend": whether the legend lists its curves,
 *      "curves": [{"name", "colour", "dots", "exact": not smoothed, "each": tokens per step, "x": steps, "t": seconds, "y": values}]}]}
 *
 * For a single run, training and validation are in one chart. For several runs, each run has a colour, and there is one
 * chart per kind of value. */
PROPANE_CHECK propane_status report_data_print(const run_set *s, text *out, propane_error *err);

#endif
