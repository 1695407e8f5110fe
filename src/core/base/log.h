/* SPDX-License-Identifier: MIT
 * What the library tells that is no error: to the program's callback, or to nobody.
 */
#ifndef CORE_BASE_LOG_H
#define CORE_BASE_LOG_H

#include "core/base/status.h"

void log_tell(const char *format, ...) BASE_PRINTF(1, 2);

#endif
