/* SPDX-License-Identifier: MIT
 * Condition variables whose deadlines are in clock_ns (core/base/clock.h), so that setting the system clock neither
 * prolongs nor ends a wait.
 */
#ifndef CORE_BASE_CONDITION_H
#define CORE_BASE_CONDITION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns 0, or an error number if the system cannot create the condition variable. */
int condition_init(pthread_cond_t *condition);

/* Waits until the condition is signalled (returns false) or until `deadline`, in clock_ns, has passed (returns true).
 * The mutex is held before and after. Spurious wakeups are possible. */
bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline);

#endif
