/* SPDX-License-Identifier: MIT
 * Owns waits with a deadline. Linux uses the pthreads wait with the monotonic clock. macOS uses relative waits, because
 * its condition variables support no other clock than the time of day.
 */
#include "core/base/condition.h"

#include <errno.h>
#include <time.h>

#include "core/base/clock.h"

int condition_init(pthread_cond_t *condition) {
#ifdef __APPLE__
    return pthread_cond_init(condition, NULL);
#else
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) return -1;
    int failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (!failed) failed = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return failed;
#endif
}

bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline) {
#ifdef __APPLE__
    int64_t left = deadline - clock_ns();
    if (left <= 0) return true;
    struct timespec span = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    return pthread_cond_timedwait_relative_np(condition, mutex, &span) == ETIMEDOUT;
#else
    struct timespec when = {.tv_sec = (time_t)(deadline / 1000000000), .tv_nsec = (long)(deadline % 1000000000)};
    return pthread_cond_timedwait(condition, mutex, &when) == ETIMEDOUT;
#endif
}
