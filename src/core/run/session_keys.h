/* SPDX-License-Identifier: MIT
 * Text and dictionaries given for an input whose program takes an array of numbers. Private to src/core/run.
 */
#ifndef CORE_RUN_SESSION_KEYS_H
#define CORE_RUN_SESSION_KEYS_H

#include "core/run/session.h"

/* Puts numbers into the input of that name, each at the place of its key. values NULL: all are 1. An input of text takes
 * one key. */
PROPANE_CHECK propane_status session_put_keys(session *s, const char *name, const char *const *keys,
                                              const double *values, int64_t count, propane_error *err);
/* Puts what follows NAME= of --input: a text, a dictionary in JSON, or the name of a .json file with one. For any other
 * input, it is the name of a file with an array. */
PROPANE_CHECK propane_status session_put_words(session *s, const char *name, const char *words, propane_error *err);

#endif
