/* SPDX-License-Identifier: MIT
 * What the attempts of tests/hard/test_calls_*.c share: calls of include/propane.h in order, each only if all before it
 * went well, with their results as text. tests/cli/cases/hard.t compares the header with what is called here.
 */
#ifndef TESTS_HARD_CALLS_H
#define TESTS_HARD_CALLS_H

#include "propane.h"
#include "support/failing.h"

#define STEP(call)                                                                                                     \
    do {                                                                                                               \
        if (!status) status = (call);                                                                                  \
    } while (0)
/* Only if all went well so far. */
#define TELL(...)                                                                                                      \
    do {                                                                                                               \
        if (!status) text_printf(result, __VA_ARGS__);                                                                 \
    } while (0)

/* Appends a text that a call gave, and frees it; NULL: nothing. */
void calls_take(text *result, char *given);
/* The end of an attempt: its result is a text, too, and may have found no memory. */
propane_status calls_end(propane_status status, const text *result, propane_error *err);

/* A fresh folder with what the attempts read: text, m.mil (two operations with weights), state.mil, and with `model`
 * also the run r of a tiny model; the current folder from then on, since messages and files name their paths. */
void calls_enter(bool model);
/* Appends the names and checksums of what is in folder `dir` but those that begin with a dot; temporary files stay out
 * of a success by the harness' comparison. */
void calls_tell_folder(text *result, const char *dir);

typedef struct calls_row {
    const char *name;
    failing_attempt attempt;
} calls_row;
/* Every row at its points; what is written there is not there before each attempt (folder "out"). */
void calls_try(const calls_row *rows, int count);

#endif
