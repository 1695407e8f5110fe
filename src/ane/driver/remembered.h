/* SPDX-License-Identifier: MIT
 * What trials have shown about this machine's engine, kept for later processes in one small file of the user's cache
 * (propane/engine.json). A trial may crash or hang, so it runs in a separate process (`propane devices`), and every
 * other process relies on its answer instead of trying. An answer is valid for one system build, engine and version of
 * Propane. Without one, callers use the method that is known to work everywhere.
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
    char word[24];    /* "yes", "no", or a word from the fact's row */
    char detail[400]; /* for people */
} ane_answer;

/* Looks up an answer; `route` is 0 (memory) or 1 (client). Returns false and an empty `out` if nothing is
 * remembered. */
bool ane_remembered(const ane_api *a, int route, ane_fact fact, ane_answer *out);
/* Returns true if the answer is "yes". */
bool ane_remembered_yes(const ane_api *a, int route, ane_fact fact);
/* A trial stores "no" before it begins and the answer after it, so that a crash leaves the right answer. */
PROPANE_CHECK propane_status ane_remember(const ane_api *a, int route, ane_fact fact, const char *word,
                                          const char *detail, propane_error *err);
/* Removes the file. *there is true if it existed. */
PROPANE_CHECK propane_status ane_forget(bool *there, propane_error *err);
/* Explains in one sentence why an existing file is not used. Writes "" if it is used or does not exist. */
void ane_remembered_note(const ane_api *a, char note[400]);
/* Prints one line per answer: "memory: WORDS: yes". */
void ane_remembered_list(const ane_api *a, text *out);

#endif
