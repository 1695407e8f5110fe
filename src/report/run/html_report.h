/* SPDX-License-Identifier: MIT
 * Declares report.html, a page in a run's folder with curves, configuration, samples, machine, and the command to
 * repeat the run. The page loads no other files and follows the reader's light or dark scheme. For several runs, it
 * shows their curves in common charts, and their differences.
 */
#ifndef REPORT_RUN_HTML_REPORT_H
#define REPORT_RUN_HTML_REPORT_H

#include "report/run/run_set.h"

#define RUN_REPORT "report.html"

/* Appends the page about the runs, which must have been read. */
PROPANE_CHECK propane_status report_print(const run_set *s, text *out, propane_error *err);

#endif
