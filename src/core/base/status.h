/* SPDX-License-Identifier: MIT
 * Status and error: how every layer reports what went wrong. The types are public (propane.h); these functions fill
 * them.
 */
#ifndef CORE_BASE_STATUS_H
#define CORE_BASE_STATUS_H

#include <stdarg.h>

#include "core/base/printf.h"
#include "propane.h"

/* Fills `err` (which may be NULL) and returns `status`, so that a failing function can end in `return
 * propane_fail(...)`. */
propane_status propane_fail(propane_error *err, propane_status status, const char *format, ...) BASE_PRINTF(3, 4);
propane_status propane_vfail(propane_error *err, propane_status status, const char *format, va_list args);
/* Puts the formatted prefix and ": " before the existing message, sets the status of `err` to `status` and returns
 * it. */
propane_status propane_fail_prefix(propane_error *err, propane_status status, const char *format, ...)
    BASE_PRINTF(3, 4);
propane_status propane_fail_memory(propane_error *err, size_t bytes);

#define PROPANE_TRY(expression)                                                                                        \
    do {                                                                                                               \
        propane_status try_status_ = (expression);                                                                     \
        if (try_status_ != PROPANE_OK) return try_status_;                                                             \
    } while (0)

#endif
