/* SPDX-License-Identifier: MIT
 * Thread pool: the caller and n-1 workers run one parallel loop at a time. There is one pool per process, because two
 * spinning pools on the same cores are 1.6 to 3 times slower. A nested loop runs only on its caller.
 */
#ifndef CORE_BASE_POOL_H
#define CORE_BASE_POOL_H

#include "core/base/status.h"

typedef void (*pool_task)(void *context, int task, int worker); /* worker: 0 .. pool_threads()-1, for scratch memory */

/* Returns the number of threads of the process's pool. The first call creates it with one thread per usable core, or
 * with PROPANE_THREADS. */
int pool_threads(void);
/* Return the cores that this process may use (considering affinity and quota), and those of the machine. Neither
 * creates the pool. */
int pool_usable_cores(void);
int pool_machine_cores(void);
/* Fixes the number of threads before the first loop (0 means the default). PROPANE_ERR_INVALID outside 1..256. */
PROPANE_CHECK propane_status pool_set_threads(int threads, propane_error *err);
/* Runs tasks 0 .. count-1 once each and returns when all are done. Tasks are handed out in order from one counter. Does
 * not allocate. May be called from several threads; their loops run one after the other. */
void pool_run(pool_task task, void *context, int count);
/* Like pool_run, with at most `most` threads at once (0 means all). Worker numbers may still be `most` or
 * higher. */
void pool_run_most(pool_task task, void *context, int count, int most);
/* Runs tasks that may fail and can be repeated. The first that failed and those after it run again on the caller, in
 * order and with `err`, up to the next failure, whose status is returned. On other threads `err` is NULL. */
typedef propane_status (*pool_attempt)(void *context, int task, propane_error *err);
PROPANE_CHECK propane_status pool_try(pool_attempt attempt, void *context, int count, propane_error *err);
/* Returns how long a waiting thread spins, in rounds: 0 means only some yields, -1 means sleep at once. `wish` is the
 * value of PROPANE_SPIN, or NULL; crowded: there are more threads than cores. */
int pool_spin_rounds(const char *wish, bool battery, bool crowded);
/* Joins the workers before exec() and at exit in tests. The next loop starts new ones. */
void pool_stop(void);

#endif
