/* SPDX-License-Identifier: MIT
 * Remembers for later processes what trials have shown about this machine's engine, in one small file of the user's
 * cache (propane/engine.json). A trial may crash or hang, so it runs in a separate process (`propane devices`), and
 * every other process relies on the trial's answer. An answer is valid for one system build, engine and version of
 * Propane. Without an answer, callers use the method that is known to work everywhere.
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

/* Looks up an answer; `route` is 0 (memory) or 1 (client). Returns false and clears *out if no answer is remembered. */
bool ane_remembered(const ane_api *a, int route, ane_fact fact, ane_answer *out);
/* Returns true if the remembered answer is "yes". */
bool ane_remembered_yes(const ane_api *a, int route, ane_fact fact);
/* Stores an answer. A trial stores "no" before it begins and its result afterwards, so that "no" remains after a
 * crash. */
PROPANE_CHECK propane_status ane_remember(const ane_api *a, int route, ane_fact fact, const char *word,
                                          const char *detail, propane_error *err);
/* Removes the file. Sets *there to true if the file existed. */
PROPANE_CHECK propane_status ane_forget(bool *there, propane_error *err);
/* Writes one sentence that explains why an existing file is not used, or "" if the file is used or does not exist. */
void ane_remembered_note(const ane_api *a, char note[400]);
/* Prints one line per answer, such as "memory: WORDS: yes". */
void ane_remembered_list(const ane_api *a, text *out);

#endif
