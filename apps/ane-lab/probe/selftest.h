/* SPDX-License-Identifier: MIT
 * Declares the self-test of `propane devices --probe`: questions about an engine that public notes leave open. Small
 * programs on the tested device answer each question. questions.def has one row per question. A question runs in a
 * separate process, because its programs may crash.
 */
#ifndef APPS_ANE_LAB_PROBE_SELFTEST_H
#define APPS_ANE_LAB_PROBE_SELFTEST_H

#include "apps/ane-lab/probe/probe_json.h"
#include "apps/ane-lab/probe/testbench.h"

typedef struct probe_target {
    const char *uri;
    bool is_ane;
    const char *detail; /* from the question's row */
    bool refused;       /* set if Apple's compiler refused a program, after which its service needs a pause */
} probe_target;

typedef enum probe_whom { PROBE_ANY, PROBE_ANE, PROBE_HOST } probe_whom;
typedef enum probe_when { PROBE_ALWAYS, PROBE_ASKED, PROBE_ASKED_27 } probe_when;

typedef struct probe_question {
    const char *id, *text;
    probe_whom whom;
    probe_when when;
    int seconds; /* time limit of the question's process */
    /* Sets "answer" and the evidence for it. If the function fails, the error's message is the answer. */
    propane_status (*ask)(probe_target *t, json_t *out, propane_error *err);
    const char *detail;
} probe_question;

#define QUESTION(id, text, whom, when, seconds, ask, detail)                                                           \
    propane_status ask(probe_target *t, json_t *out, propane_error *err);
#include "apps/ane-lab/probe/questions.def"
#undef QUESTION

extern const probe_question probe_questions[];
extern const int probe_question_count;
const probe_question *probe_find_question(const char *id); /* NULL if there is none */
probe_target probe_make_target(const char *uri);

/* Returns `out`, the ane device's uri with a route and options ("memory", "dialect=short"). The uri of another device
 * is unchanged. */
const char *probe_uri(const probe_target *t, const char *route, const char *options, char out[200]);
/* Compiles the program `body`, runs it once and stores its first output. If `inputs` is NULL, patterns are used. */
PROPANE_CHECK propane_status probe_run(probe_target *t, const char *uri, const char *body, const float *const *inputs,
                                       float *output, propane_error *err);

/* Prints every Apple name that the ane driver uses. */
void probe_list_symbols(void);
/* Asks one question in this process, which question_process.c has started for it, and prints the answer as one line of
 * JSON. Returns the command's exit code. */
int probe_ask_here(const char *uri, const char *id);
/* Asks one question in a separate process, which is killed after `seconds`. `out` receives the answer in words. */
void probe_words(const char *uri, const char *id, int seconds, char out[1200]);

#endif
