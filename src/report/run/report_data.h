/* SPDX-License-Identifier: MIT
 * The charts of a report, as data: curves, colours and values.
 */
#ifndef REPORT_RUN_REPORT_DATA_H
#define REPORT_RUN_REPORT_DATA_H

#include "report/run/run_set.h"

enum { REPORT_DATA_COLOURS = 8 }; /* of runs; then the first again */

/* Writes the charts of the page: one empty <figure> each, then <script id="data"> with
 *
 *   {"unit": "tokens", "charts": [{"title", "legend": whether its curves are in the legend,
 *      "curves": [{"name", "colour", "dots", "exact": not smoothed, "each": tokens per step, "x": steps, "t": seconds, "y": values}]}]}
 *
 * A single run has training and validation in one chart. Several runs have a colour each, and one chart per kind of
 * value. */
PROPANE_CHECK propane_status report_data_print(const run_set *s, text *out, propane_error *err);

#endif
