/* SPDX-License-Identifier: MIT
 * Explains a probe's answers to the reader of a report, on any machine: failures and remedies, confirmed findings,
 * and the options of the ane device that follow (its `profile=FILE`).
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_EXPLAIN_H
#define APPS_ANE_LAB_PROBE_PROBE_EXPLAIN_H

#include "core/base/json.h"

/* Returns {"route", "options"}: the part of a uri after "ane:", and options in the form "sizes=any&folder=drop". */
json_t *explain_profile(const json_t *answers);
/* Reads a report and explains it in words; returns the exit code. */
int explain_report(const char *path);

#endif
