/* SPDX-License-Identifier: MIT
 * The self-test of `propane devices --probe`: questions about an engine that public notes leave open, each answered by
 * small programs on the device at hand. A question runs in a process of its own, because some answers are a crash.
 */
#ifndef CLI_DEVICE_LAB_SELFTEST_H
#define CLI_DEVICE_LAB_SELFTEST_H

#include "base/json.h"
#include "cli/device_lab/testbench.h"

typedef struct probe_target {
    const char *uri;
    bool is_ane;
    bool refused; /* set where Apple's compiler said no: its service needs a pause then */
} probe_target;

typedef struct probe_question {
    const char *id;
    const char *text;
    bool ane_only;
    /* Fills "answer" and whatever backs it. A failure is an answer, too: its message. */
    propane_status (*ask)(probe_target *t, json_t *out, propane_error *err);
} probe_question;

extern const probe_question probe_numbers[], probe_forms[], probe_engine[], probe_host[]; /* end with id NULL */

/* "answer", or another key, by format. */
void probe_say(json_t *out, const char *key, const char *format, ...) BASE_PRINTF(3, 4);
void probe_value(json_t *out, const char *key, double value);
/* The uri with options of the ane driver's ("memory", "dialect=short"); another device's own uri as it is. */
const char *probe_uri(const probe_target *t, const char *route, const char *options, char out[200]);
/* Compiles, runs once and gives the first output; inputs NULL: patterns. */
PROPANE_CHECK propane_status probe_run(probe_target *t, const char *uri, const char *body, const float *const *inputs,
                                       float *output, propane_error *err);
/* A line that survives a crash of this process. */
void probe_progress(int64_t count);

/* Prints every name of Apple's that the ane driver uses. */
void probe_list_symbols(void);
/* Asks one question here and prints the answer as one line of JSON. */
int probe_ask(const char *uri, const char *id);
/* Asks one question in a process of its own that is ended after `seconds`; `out` is the answer in words. */
void probe_words(const char *uri, const char *id, int seconds, char out[1200]);
/* Asks all in processes of their own, prints what comes, writes the report. */
int probe_all(const char *uri, const char *path);

#endif
