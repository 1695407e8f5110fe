/* SPDX-License-Identifier: MIT
 * Detects that this process is a fork of the one in which something was created. A child has none of its parent's
 * threads, and nothing releases the mutexes that they held. Code that owns threads stores the generation in which it
 * started them, and starts new ones when the generation has changed.
 */
#ifndef CORE_BASE_FORK_H
#define CORE_BASE_FORK_H

#include <pthread.h>

/* Returns 0 in the first calling process, and in each child one more than in its parent. Costs one load. */
int fork_generation(void);

/* A mutex that is held during long work. In a child the mutex is free, even if a thread held it in the parent. */
typedef struct fork_mutex {
    pthread_mutex_t mutex;
    int generation;
} fork_mutex;
#define FORK_MUTEX_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, 0}
int fork_mutex_init(fork_mutex *m); /* returns 0, or the system's error */
void fork_mutex_lock(fork_mutex *m);
void fork_mutex_unlock(fork_mutex *m);
void fork_mutex_destroy(fork_mutex *m);

#endif
