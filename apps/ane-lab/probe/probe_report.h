/* SPDX-License-Identifier: MIT
 * Runs the whole probe: selects the questions, prints the answers, and writes the report that a user sends. The report
 * is rewritten atomically after every answer, so that earlier answers survive a crash, a hang, Ctrl-C or a full disk.
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_REPORT_H
#define APPS_ANE_LAB_PROBE_PROBE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct probe_options {
    const char *uri;
    /* the report's path; NULL means probe.json in this user's cache, or standard output if there is no such place */
    const char *output;
    /* comma-separated ids of the only questions to ask, whose answers are printed as JSON. A report is then written
     * only if `output` names it. NULL asks all default questions */
    const char *only;
    bool all;      /* also questions that take minutes */
    int64_t limit; /* maximum seconds per question; 0 means the limit in the question's row */
} probe_options;

/* Returns the command's exit code. */
int probe_all(const probe_options *o);

#endif
