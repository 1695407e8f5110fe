/* SPDX-License-Identifier: MIT
 * Passes notes that are not errors to the program's callback, if the program has set one.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include "core/base/status.h"

void log_print(const char *format, ...) BASE_PRINTF(1, 2);

#endif
