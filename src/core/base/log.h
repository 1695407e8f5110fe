/* SPDX-License-Identifier: MIT
 * Notes from the library that are not errors. They go to the program's callback, if it has set one.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include "core/base/status.h"

void log_print(const char *format, ...) BASE_PRINTF(1, 2);

#endif
