/* SPDX-License-Identifier: MIT
 * Detects that this process is a fork of the one in which something was created. A child has none of its parent's threads,
 * and nothing releases the mutexes that they held. Owners of threads keep the generation in which they started them,
 * and start afresh in another.
 */
#ifndef CORE_BASE_FORK_H
#define CORE_BASE_FORK_H

#include <pthread.h>

/* Returns 0 in the process that calls first, and one more in each child. Costs one load. */
int fork_generation(void);

/* A mutex that is held during long work. In a child it is free, even if a thread held it in the parent. */
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
