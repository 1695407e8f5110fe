/* SPDX-License-Identifier: MIT
 * report.html in a run's folder: curves, configuration, samples, machine and how to repeat the run, in one page that
 * needs nothing else and follows the reader's light or dark scheme. Of several runs: their curves together, and what
 * differs.
 */
#ifndef REPORT_RUN_HTML_REPORT_H
#define REPORT_RUN_HTML_REPORT_H

#include "report/run/run_set.h"

#define RUN_REPORT "report.html"

/* Of runs that were read. */
PROPANE_CHECK propane_status report_print(const run_set *s, text *out, propane_error *err);

#endif
