/* SPDX-License-Identifier: MIT
 * The probe as a whole: which questions are asked, what is printed, and the report that a user sends. The report is
 * written anew, whole or not at all, behind every answer, so that a crash, a hang, Ctrl-C or a full disk leaves the
 * answers before.
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_REPORT_H
#define APPS_ANE_LAB_PROBE_PROBE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct probe_options {
    const char *uri;
    const char *output; /* the report; NULL: probe.json in this user's cache, or printed where there is no such place */
    const char *only; /* ids, separated by commas: these are asked and printed as JSON, and there is a report only where
                            `output` names it; NULL: all that are asked by default */
    bool all;         /* also those that take minutes */
    int64_t limit;    /* seconds for a question at most; 0: its row's */
} probe_options;

/* The command's exit code. */
int probe_all(const probe_options *o);

#endif
