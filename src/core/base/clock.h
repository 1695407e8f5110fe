/* SPDX-License-Identifier: MIT
 * Monotonic time and per-thread processor time, in nanoseconds.
 */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void);
int64_t clock_thread_ns(void); /* processor time that the calling thread has used */

#endif
