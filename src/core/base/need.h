/* SPDX-License-Identifier: MIT
 * What every public call refuses alike, before it does anything: a pointer that is NULL, a count that is negative, a
 * list that is NULL although it has a length, a word of an enumeration that the header does not have. The sentence
 * names the call and the argument as the header does. Stands first in a public call that returns a status; the others
 * give 0, NULL or false. tests/api/calls has a row for each call.
 */
#ifndef CORE_BASE_NEED_H
#define CORE_BASE_NEED_H

#include "core/base/status.h"

/* `names`: "module, out", of as many pointers. */
PROPANE_CHECK propane_status need_pointers(propane_error *err, const char *call, const char *names,
                                           const void *const *pointers, int count);
PROPANE_CHECK propane_status need_text(propane_error *err, const char *call, const char *name, const char *text);
PROPANE_CHECK propane_status need_list(propane_error *err, const char *call, const char *list, const char *count,
                                       const void *pointer, int64_t length);
/* A list of texts, none of them NULL. */
PROPANE_CHECK propane_status need_names(propane_error *err, const char *call, const char *list, const char *count,
                                        const char *const *names, int64_t length);
PROPANE_CHECK propane_status need_word(propane_error *err, const char *call, const char *name, int value, int most);
PROPANE_CHECK propane_status need_form(propane_error *err, const char *call, int form, unsigned forms);

/* With the names of the definition, or with the header's where they differ. */
#define NEED_AS(err, names, ...)                                                                                       \
    PROPANE_TRY(need_pointers(err, __func__, names, (const void *const[]){__VA_ARGS__},                                \
                              (int)(sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))))
#define NEED(err, ...) NEED_AS(err, #__VA_ARGS__, __VA_ARGS__)
/* Of one that is not NULL: it is not empty, either. */
#define NEED_TEXT(err, text) PROPANE_TRY(need_text(err, __func__, #text, text))
/* A list may be NULL where it has no elements. */
#define NEED_LIST(err, list, count)  PROPANE_TRY(need_list(err, __func__, #list, #count, list, count))
#define NEED_NAMES(err, list, count) PROPANE_TRY(need_names(err, __func__, #list, #count, list, count))
/* The forms that a call prints: (NEED_FORM(err, form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON). */
#define NEED_FORM(err, form, forms) PROPANE_TRY(need_form(err, __func__, (int)(form), forms))
/* An enumeration from 0 to `most`. */
#define NEED_WORD(err, value, most) PROPANE_TRY(need_word(err, __func__, #value, (int)(value), (int)(most)))

#endif
