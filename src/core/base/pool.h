/* SPDX-License-Identifier: MIT
 * Thread pool: the caller and n-1 workers do one parallel loop at a time. One pool a process (two spinning pools on the
 * same cores cost 1.6 to 3 times); a loop inside a loop runs on its caller alone.
 */
#ifndef CORE_BASE_POOL_H
#define CORE_BASE_POOL_H

#include "core/base/status.h"

typedef void (*pool_task)(void *context, int task, int worker); /* worker: 0 .. pool_threads()-1, for scratch memory */

/* The process's pool, made at the first call with as many threads as there are usable cores, or PROPANE_THREADS. */
int pool_threads(void);
/* Cores that this process may use (affinity and quota looked at), and those of the machine. Makes no pool. */
int pool_usable_cores(void);
int pool_machine_cores(void);
/* Before the first loop: a fixed number of threads (0: the standard). PROPANE_ERR_INVALID outside 1..256. */
PROPANE_CHECK propane_status pool_set_threads(int threads, propane_error *err);
/* Runs task 0 .. count-1, each once; returns when all are done. Tasks are given out in order from one counter. Does not
 * allocate. May be called from several threads: loops run one after the other. */
void pool_run(pool_task task, void *context, int count);
/* The same with no more than `most` threads in it at once (0: all). Workers' numbers may still be any. */
void pool_run_most(pool_task task, void *context, int count, int most);
/* Tasks that may fail and can be repeated. The first that failed and those after it run again on the caller, in order
 * and with `err`, up to the next that fails: its status is the result. On other threads `err` is NULL. */
typedef propane_status (*pool_attempt)(void *context, int task, propane_error *err);
PROPANE_CHECK propane_status pool_try(pool_attempt attempt, void *context, int count, propane_error *err);
/* How long a waiting thread spins: rounds, 0 for some yields alone, -1 to sleep at once (battery, PROPANE_SPIN=off). */
int pool_spin_rounds(void);
/* Before exec() and at exit in tests: joins the workers; the next loop makes new ones. */
void pool_stop(void);

#endif
