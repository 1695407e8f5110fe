/* SPDX-License-Identifier: MIT
 * Checks of arguments that all public calls share: NULL pointers, negative counts, a NULL list with a length, and
 * values that an enumeration does not define. The message names the call and the argument as the header does. These
 * checks come first in every public call that returns a status; other calls return 0, NULL or false. tests/api/calls
 * has a row for each call.
 */
#ifndef CORE_BASE_NEED_H
#define CORE_BASE_NEED_H

#include "core/base/status.h"

/* `names` lists the names of the pointers, as in "module, out". */
PROPANE_CHECK propane_status need_pointers(propane_error *err, const char *call, const char *names,
                                           const void *const *pointers, int count);
PROPANE_CHECK propane_status need_text(propane_error *err, const char *call, const char *name, const char *text);
PROPANE_CHECK propane_status need_list(propane_error *err, const char *call, const char *list, const char *count,
                                       const void *pointer, int64_t length);
/* Checks a list of texts, none of which may be NULL. */
PROPANE_CHECK propane_status need_names(propane_error *err, const char *call, const char *list, const char *count,
                                        const char *const *names, int64_t length);
PROPANE_CHECK propane_status need_word(propane_error *err, const char *call, const char *name, int value, int most);
PROPANE_CHECK propane_status need_form(propane_error *err, const char *call, int form, unsigned forms);

/* Checks that pointers are not NULL. NEED reports the argument names of the definition; NEED_AS is given the header's
 * names, for calls in which they differ. */
#define NEED_AS(err, names, ...)                                                                                       \
    PROPANE_TRY(need_pointers(err, __func__, names, (const void *const[]){__VA_ARGS__},                                \
                              (int)(sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))))
#define NEED(err, ...) NEED_AS(err, #__VA_ARGS__, __VA_ARGS__)
/* Checks that a text is neither NULL nor empty. */
#define NEED_TEXT(err, text) PROPANE_TRY(need_text(err, __func__, #text, text))
/* Check a list, which may be NULL only if it has no elements. */
#define NEED_LIST(err, list, count)  PROPANE_TRY(need_list(err, __func__, #list, #count, list, count))
#define NEED_NAMES(err, list, count) PROPANE_TRY(need_names(err, __func__, #list, #count, list, count))
/* `forms` is a mask of the forms that the call can print, such as 1 << PROPANE_TEXT | 1 << PROPANE_JSON. */
#define NEED_FORM(err, form, forms) PROPANE_TRY(need_form(err, __func__, (int)(form), forms))
/* Checks a value of an enumeration from 0 to `most`. */
#define NEED_WORD(err, value, most) PROPANE_TRY(need_word(err, __func__, #value, (int)(value), (int)(most)))

#endif
