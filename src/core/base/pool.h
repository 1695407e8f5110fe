/* SPDX-License-Identifier: MIT
 * Thread pool: the caller and n-1 workers run one parallel loop at a time. There is one pool per process, because two
 * spinning pools on the same cores are 1.6 to 3 times slower. A nested loop runs only on its caller.
 */
#ifndef CORE_BASE_POOL_H
#define CORE_BASE_POOL_H

#include "core/base/status.h"

typedef void (*pool_task)(void *context, int task, int worker); /* worker: 0 .. pool_threads()-1, for scratch memory */

/* Returns the number of threads of the process's pool. The first call fixes it to one per usable core, or to
 * PROPANE_THREADS. */
int pool_threads(void);
/* Return the number of cores that this process may use (Linux: considering affinity and quota; macOS: performance
 * cores), and the number of cores of the machine. Neither starts threads. */
int pool_usable_cores(void);
int pool_machine_cores(void);
/* Fixes the number of threads (1 to 256; 0 means the default) before the first loop. Fails with PROPANE_ERR_INVALID for
 * other numbers, or if workers already run and their number would change. */
PROPANE_CHECK propane_status pool_set_threads(int threads, propane_error *err);
/* Runs tasks 0 .. count-1 once each and returns when all are done. Tasks are handed out in order from one counter. Does
 * not allocate. May be called from several threads; their loops run one after the other. */
void pool_run(pool_task task, void *context, int count);
/* Like pool_run, with at most `most` threads at once (0 means all). Worker numbers may still be `most` or
 * higher. */
void pool_run_most(pool_task task, void *context, int count, int most);
/* Runs tasks that may fail and can be repeated. All run in parallel first, with a NULL `err`. The first task that
 * failed and those after it then run again on the caller, in order and with `err`, up to the next failure, whose status
 * is returned. */
typedef propane_status (*pool_attempt)(void *context, int task, propane_error *err);
PROPANE_CHECK propane_status pool_try(pool_attempt attempt, void *context, int count, propane_error *err);
/* Returns how long a waiting thread spins, in rounds: 0 means only some yields, -1 means sleep at once. `wish` is the
 * value of PROPANE_SPIN, or NULL; `crowded` is true if there are more threads than cores. */
int pool_spin_rounds(const char *wish, bool battery, bool crowded);
/* Stops and joins the workers, as needed before exec() and at the exit of tests. The next loop starts new ones. */
void pool_stop(void);

#endif
