/* SPDX-License-Identifier: MIT
 * report.html in a run's folder: curves, configuration, samples, machine and how to repeat the run, in one page that needs
 * nothing else and follows the reader's light or dark scheme.
 */
#ifndef CLI_RUN_HTML_REPORT_H
#define CLI_RUN_HTML_REPORT_H

#include "cli/run/run_log.h"

#define RUN_REPORT "report.html"

typedef struct report_sample {
    const char *prompt, *text; /* UTF-8, terminated */
} report_sample;

/* `title` names the run. */
PROPANE_CHECK propane_status report_print(const run_history *h, const char *title, const report_sample *samples,
                                          int sample_count, text *out, propane_error *err);

#endif
