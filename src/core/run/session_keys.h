/* SPDX-License-Identifier: MIT
 * Accepts text and dictionaries for inputs for which the program needs an array of numbers. Private to src/core/run.
 */
#ifndef CORE_RUN_SESSION_KEYS_H
#define CORE_RUN_SESSION_KEYS_H

#include "core/run/session.h"

/* Puts numbers into the input of that name, each at the place of its key, and 0 elsewhere. An input of text needs
 * exactly one key, whose number is 1, and `values` NULL. A dictionary needs `values`. */
PROPANE_CHECK propane_status session_put_keys(session *s, const char *name, const char *const *keys,
                                              const double *values, int64_t count, propane_error *err);
/* Sets an input from what follows NAME= of --input: a text, a dictionary in JSON, or the path of a .json file with one.
 * For inputs of other kinds, `words` is the path of an .npy file. */
PROPANE_CHECK propane_status session_put_words(session *s, const char *name, const char *words, propane_error *err);

#endif
