/* SPDX-License-Identifier: MIT
 * What trials have shown about this machine's engine, kept for later processes in one small file of the user's cache
 * (propane/engine.json). One idea: a trial may crash or hang, so it runs in a process of its own (`propane devices`),
 * and every other process believes its answer instead of trying. An answer holds for one system build, engine and
 * version of Propane; without one, callers do what is known to work everywhere.
 */
#ifndef ANE_DRIVER_REMEMBERED_H
#define ANE_DRIVER_REMEMBERED_H

#include "ane/driver/objc_runtime.h"

typedef enum ane_fact {
#define FACT(id, words) ANE_FACT_##id,
#include "ane/driver/remembered.def"
    ANE_FACT_COUNT
} ane_fact;

typedef struct ane_answer {
    char word[24];    /* "yes", "no", or what the fact's row says */
    char detail[400]; /* for people */
} ane_answer;

/* `route` is 0 (memory) or 1 (client). False: nothing is remembered here; `out` is empty then. */
bool ane_remembered(const ane_api *a, int route, ane_fact fact, ane_answer *out);
/* Whether the answer is "yes". */
bool ane_remembered_yes(const ane_api *a, int route, ane_fact fact);
/* A trial says "no" before it begins and the answer after it: what a crash leaves is then right. */
PROPANE_CHECK propane_status ane_remember(const ane_api *a, int route, ane_fact fact, const char *word,
                                          const char *detail, propane_error *err);
/* Removes the file; *there: it was there. */
PROPANE_CHECK propane_status ane_forget(bool *there, propane_error *err);
/* Why the file that is there is not used, in one sentence; "": it is used, or there is none. */
void ane_remembered_note(const ane_api *a, char note[400]);
/* A line for each answer: "memory: WORDS: yes". */
void ane_remembered_list(const ane_api *a, text *out);

#endif
