/* SPDX-License-Identifier: MIT
 * What a probe's answers mean, for the reader of a report on any machine: what failed and what to do, what holds, and which
 * options of the ane device follow (its `profile=FILE`).
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_EXPLAIN_H
#define APPS_ANE_LAB_PROBE_PROBE_EXPLAIN_H

#include "core/base/json.h"

/* {"route", "options"}: the part of a uri behind "ane:"; options in the form "sizes=any&folder=drop". */
json_t *explain_profile(const json_t *answers);
/* Reads a report and prints it in words; the exit code. */
int explain_report(const char *path);

#endif
