/* SPDX-License-Identifier: MIT
 * Whether this process is a fork of the one in which something was made: its threads are not there, and nobody gives
 * back the mutexes that they held. What owns threads keeps the generation in which it started them, and begins anew in
 * another.
 */
#ifndef CORE_BASE_FORK_H
#define CORE_BASE_FORK_H

#include <pthread.h>

/* 0 in the process that asks first; one more in each child of it. Costs one load. */
int fork_generation(void);

/* A mutex that is held for as long as work takes: in a child it is free, even if a thread held it in the parent. */
typedef struct fork_mutex {
    pthread_mutex_t mutex;
    int generation;
} fork_mutex;
#define FORK_MUTEX_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, 0}
int fork_mutex_init(fork_mutex *m); /* 0, or the system's error */
void fork_mutex_lock(fork_mutex *m);
void fork_mutex_unlock(fork_mutex *m);
void fork_mutex_destroy(fork_mutex *m);

#endif
