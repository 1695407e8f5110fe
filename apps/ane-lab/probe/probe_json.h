/* SPDX-License-Identifier: MIT
 * Writing a question's answer: keys of an object, and lines of standard output that survive a crash.
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_JSON_H
#define APPS_ANE_LAB_PROBE_PROBE_JSON_H

#include "core/base/json.h"
#include "core/base/printf.h"

#define PROBE_REPORT_FORM "propane devices --probe" /* value of "report" in a report */

/* Sets "answer", or another key, from a format. */
void probe_say(json_t *out, const char *key, const char *format, ...) BASE_PRINTF(3, 4);
void probe_value(json_t *out, const char *key, double value);
/* Writes what is known so far, so that a crash loses only the rest. */
void probe_note(const json_t *so_far);
/* Does the same with a count. */
void probe_progress(int64_t count);

#endif
