/* SPDX-License-Identifier: MIT
 * Owns the one clock that Propane measures with: monotonic, so that a change of the time of day moves no figure.
 */
#include "core/base/clock.h"

#include <time.h>

int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
