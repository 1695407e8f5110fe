/* SPDX-License-Identifier: MIT
 * Loaded before a command (LD_PRELOAD). The system clock jumps at every reading, ten years ahead and ten years back in
 * turn, like a clock that is set by hand or over a network. The monotonic clock is not changed.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t jump_by(void) {
    static atomic_uint looks;
    const time_t years = (time_t)315576000;
    return atomic_fetch_add(&looks, 1) % 2 ? years : -years;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    const int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += jump_by();
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
