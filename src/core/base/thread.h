/* SPDX-License-Identifier: MIT
 * Starts the library's threads. The host's own threads handle its signals, so the library's threads block them.
 */
#ifndef CORE_BASE_THREAD_H
#define CORE_BASE_THREAD_H

#include <pthread.h>

/* Returns 0, or the system's error. The thread blocks all signals except those of its own faults: a blocked SIGBUS
 * would end the process, instead of reaching the handler of file_map_guard or of the host. */
int thread_start(pthread_t *out, void *(*run)(void *), void *context);

#endif
