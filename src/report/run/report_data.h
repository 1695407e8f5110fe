/* SPDX-License-Identifier: MIT
 * The charts of a report, as data: which curves, in which colours, with which values.
 */
#ifndef REPORT_RUN_REPORT_DATA_H
#define REPORT_RUN_REPORT_DATA_H

#include "report/run/run_set.h"

/* Writes the charts of the page: one <figure> with a drawing each, then <script id="data"> with
 *
 *   {"unit": "tokens", "charts": [{"title", "legend": whether its curves stand in the legend,
 *      "curves": [{"name", "colour", "dots", "exact": not smoothed, "each": tokens a step, "x": steps, "t": seconds, "y": values}]}]}
 *
 * One run: training and validation in one chart. Several: a colour for each run, and a chart for each kind of value. */
PROPANE_CHECK propane_status report_data_print(const run_set *s, text *out, propane_error *err);

#endif
