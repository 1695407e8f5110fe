/* SPDX-License-Identifier: MIT
 * Condition variables whose waits end by clock_ns (core/base/clock.h), so that a system clock that is set neither
 * prolongs nor ends them.
 */
#ifndef CORE_BASE_CONDITION_H
#define CORE_BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* 0, or the system gives no condition variable. */
int condition_init(pthread_cond_t *condition);

/* Waits until it is signalled (false) or `deadline`, in clock_ns, has passed (true); the mutex is held before and
 * after. Wakes up without a reason, too. */
bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline);

#endif
