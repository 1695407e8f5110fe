/* SPDX-License-Identifier: MIT
 * Monotonic time in nanoseconds.
 */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void);

#endif
