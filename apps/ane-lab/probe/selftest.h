/* SPDX-License-Identifier: MIT
 * The self-test of `propane devices --probe`: questions about an engine that public notes leave open, each answered by
 * small programs on the device at hand. questions.def has a row for each; a question runs in a process of its own,
 * because some answers are a crash.
 */
#ifndef APPS_ANE_LAB_PROBE_SELFTEST_H
#define APPS_ANE_LAB_PROBE_SELFTEST_H

#include "apps/ane-lab/probe/probe_json.h"
#include "apps/ane-lab/probe/testbench.h"

typedef struct probe_target {
    const char *uri;
    bool is_ane;
    const char *detail; /* the row's */
    bool refused;       /* set where Apple's compiler said no: its service needs a pause then */
} probe_target;

typedef enum probe_whom { PROBE_ANY, PROBE_ANE, PROBE_HOST } probe_whom;
typedef enum probe_when { PROBE_ALWAYS, PROBE_ASKED, PROBE_ASKED_27 } probe_when;

typedef struct probe_question {
    const char *id, *text;
    probe_whom whom;
    probe_when when;
    int seconds; /* its process's time limit */
    /* Fills "answer" and whatever backs it. A failure is an answer, too: its message. */
    propane_status (*ask)(probe_target *t, json_t *out, propane_error *err);
    const char *detail;
} probe_question;

#define QUESTION(id, text, whom, when, seconds, ask, detail)                                                           \
    propane_status ask(probe_target *t, json_t *out, propane_error *err);
#include "apps/ane-lab/probe/questions.def"
#undef QUESTION

extern const probe_question probe_questions[];
extern const int probe_question_count;
const probe_question *probe_find_question(const char *id); /* NULL: there is none */
probe_target probe_make_target(const char *uri);

/* The uri with options of the ane driver's ("memory", "dialect=short"); another device's own uri as it is. */
const char *probe_uri(const probe_target *t, const char *route, const char *options, char out[200]);
/* Compiles, runs once and gives the first output; inputs NULL: patterns. */
PROPANE_CHECK propane_status probe_run(probe_target *t, const char *uri, const char *body, const float *const *inputs,
                                       float *output, propane_error *err);

/* Prints every name of Apple's that the ane driver uses. */
void probe_list_symbols(void);
/* Asks one question in this process, which probe_report.c has started for it, and prints the answer as one line of
 * JSON. */
int probe_ask_here(const char *uri, const char *id);
/* Asks one question in a process of its own that is ended after `seconds`; `out` is the answer in words. */
void probe_words(const char *uri, const char *id, int seconds, char out[1200]);

#endif
