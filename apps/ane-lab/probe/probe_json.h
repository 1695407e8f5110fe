/* SPDX-License-Identifier: MIT
 * How a question's answer is written: keys of an object, and lines of standard output that a crash does not take back.
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_JSON_H
#define APPS_ANE_LAB_PROBE_PROBE_JSON_H

#include "core/base/json.h"
#include "core/base/printf.h"

#define PROBE_REPORT_FORM "propane devices --probe" /* what a report's "report" is */

/* "answer", or another key, by format. */
void probe_say(json_t *out, const char *key, const char *format, ...) BASE_PRINTF(3, 4);
void probe_value(json_t *out, const char *key, double value);
/* Writes what is known by now: a crash takes the rest, not this. */
void probe_note(const json_t *so_far);
/* The same of a count. */
void probe_progress(int64_t count);

#endif
