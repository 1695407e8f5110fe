/* SPDX-License-Identifier: MIT
 * Monotonic time, and a thread's time on a processor, in nanoseconds.
 */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ns(void);
int64_t clock_thread_ns(void); /* of a processor, that the calling thread has had */

#endif
