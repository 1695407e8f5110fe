/* SPDX-License-Identifier: MIT
 * Writes a question's answer: keys of an object, and lines of standard output that survive a crash.
 */
#ifndef APPS_ANE_LAB_PROBE_PROBE_JSON_H
#define APPS_ANE_LAB_PROBE_PROBE_JSON_H

#include "core/base/json.h"
#include "core/base/printf.h"

#define PROBE_REPORT_FORM "propane devices --probe" /* value of "report" in a report */

/* Sets `key`, such as "answer", to formatted text. */
void probe_say(json_t *out, const char *key, const char *format, ...) BASE_PRINTF(3, 4);
void probe_value(json_t *out, const char *key, double value);
/* Prints the answer so far as one line, so that a crash loses only the rest. */
void probe_note(const json_t *so_far);
/* Prints a count as such a line. */
void probe_progress(int64_t count);

#endif
