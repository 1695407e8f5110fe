/* SPDX-License-Identifier: MIT
 * Helpers for the attempts of tests/hard/test_calls_*.c: calls of include/propane.h in order, each only if all before
 * it succeeded, with their results as text. tests/cli/cases/hard.t compares the header with the calls made here.
 */
#ifndef TESTS_HARD_CALLS_H
#define TESTS_HARD_CALLS_H

#include "propane.h"
#include "support/failing.h"

#define STEP(call)                                                                                                     \
    do {                                                                                                               \
        if (!status) status = (call);                                                                                  \
    } while (0)
/* Appends to the result if all calls so far succeeded. */
#define TELL(...)                                                                                                      \
    do {                                                                                                               \
        if (!status) text_printf(result, __VA_ARGS__);                                                                 \
    } while (0)

/* Appends a text that a call returned, and frees it; does nothing for NULL. */
void calls_take(text *result, char *given);
/* Ends an attempt and returns its status; fails if the result, itself a text, ran out of memory. */
propane_status calls_end(propane_status status, const text *result, propane_error *err);

/* Creates and enters a new folder with the attempts' input: text, m.mil (two operations with weights), state.mil,
 * and with `model` also the run r of a tiny model. It stays the current folder, because messages and files contain
 * paths. */
void calls_enter(bool model);
/* Appends the checksums and names of all files in folder `dir`, sorted. calls_try checks that no temporary file is
 * left. */
void calls_print_folder(text *result, const char *dir);

typedef struct calls_row {
    const char *name;
    failing_attempt attempt;
} calls_row;
/* Tries every row at its points. The output folder "out" is emptied before each attempt. */
void calls_try(const calls_row *rows, int count);

#endif
