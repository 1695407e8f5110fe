/* SPDX-License-Identifier: MIT
 * Owns the clocks that Propane measures with. They are monotonic, so setting the time of day affects no measurement.
 */
#include "core/base/clock.h"

#include <time.h>

static int64_t clock_read(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_ns(void) { return clock_read(CLOCK_MONOTONIC); }
int64_t clock_thread_ns(void) { return clock_read(CLOCK_THREAD_CPUTIME_ID); }
