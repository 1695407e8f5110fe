/* SPDX-License-Identifier: MIT
 * Owns the count of forks. If the system refuses the fork handler, a child cannot be told apart from its parent.
 */
#include "core/base/fork.h"

#include <stdatomic.h>

static atomic_int generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fork_count(void) { atomic_fetch_add(&generation, 1); }
static void fork_watch(void) { (void)pthread_atfork(NULL, NULL, fork_count); }

int fork_generation(void) {
    (void)pthread_once(&once, fork_watch);
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

int fork_mutex_init(fork_mutex *m) {
    m->generation = fork_generation();
    return pthread_mutex_init(&m->mutex, NULL);
}

void fork_mutex_lock(fork_mutex *m) {
    const int now = fork_generation();
    if (m->generation != now) {
        (void)pthread_mutex_init(&m->mutex, NULL);
        m->generation = now;
    }
    pthread_mutex_lock(&m->mutex);
}

void fork_mutex_unlock(fork_mutex *m) { pthread_mutex_unlock(&m->mutex); }
void fork_mutex_destroy(fork_mutex *m) { pthread_mutex_destroy(&m->mutex); }
