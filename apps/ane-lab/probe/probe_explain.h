/* SPDX-License-Identifier: MIT
 * Explains a probe's answers to the reader of a report: failures and their remedies, facts that hold, and recommended
 * options of the ane device, which `profile=FILE` applies. No engine is needed for this.
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_EXPLAIN_H
#define APPS_ANE_LAB_PROBE_PROBE_EXPLAIN_H

#include "core/base/json.h"

/* Returns an object with "route" (the part of a uri after "ane:"), "options" (such as "sizes=any&folder=drop") and
 * "build" (of the system that was probed). */
json_t *explain_profile(const json_t *answers);
/* Reads a report and prints what it means. Returns the command's exit code. */
int explain_report(const char *path);

#endif
