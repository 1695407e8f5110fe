/* SPDX-License-Identifier: MIT
 * Owns the messages for invalid arguments that all public calls share.
 */
#include "core/base/need.h"

#include <stdio.h>
#include <string.h>

propane_status need_pointers(propane_error *err, const char *call, const char *names, const void *const *pointers,
                             int count) {
    for (int i = 0; i < count; i++) {
        const int length = (int)strcspn(names, ",");
        if (!pointers[i])
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: %.*s must not be NULL", call, length, names);
        names += length;
        names += strspn(names, ", ");
    }
    return PROPANE_OK;
}

propane_status need_text(propane_error *err, const char *call, const char *name, const char *text) {
    if (*text) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s must not be empty", call, name);
}

propane_status need_list(propane_error *err, const char *call, const char *list, const char *count, const void *pointer,
                         int64_t length) {
    if (length < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is %lld; it must not be negative", call, count,
                            (long long)length);
    if (length && !pointer)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s must not be NULL if %s is %lld", call, list, count,
                            (long long)length);
    return PROPANE_OK;
}

propane_status need_names(propane_error *err, const char *call, const char *list, const char *count,
                          const char *const *names, int64_t length) {
    PROPANE_TRY(need_list(err, call, list, count, names, length));
    for (int64_t i = 0; i < length; i++)
        if (!names[i])
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s[%lld] must not be NULL", call, list, (long long)i);
    return PROPANE_OK;
}

propane_status need_word(propane_error *err, const char *call, const char *name, int value, int most) {
    if (value >= 0 && value <= most) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is %d; it must be from 0 to %d", call, name, value, most);
}

propane_status need_form(propane_error *err, const char *call, int form, unsigned forms) {
    static const char *const names[] = {[PROPANE_TEXT] = "text",
                                        [PROPANE_JSON] = "JSON",
                                        [PROPANE_MARKDOWN] = "Markdown",
                                        [PROPANE_SARIF] = "SARIF",
                                        [PROPANE_GITHUB] = "GitHub's annotations"};
    enum { FORMS = sizeof names / sizeof names[0] };
    char known[100] = "";
    if (form >= 0 && form < FORMS && (forms >> form & 1)) return PROPANE_OK;
    for (int i = 0; i < FORMS; i++) {
        const size_t used = strlen(known);
        if (forms >> i & 1) (void)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", names[i]);
    }
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: form is %s; it must be %s", call,
                        form >= 0 && form < FORMS ? names[form] : "not one of the values in the header", known);
}
