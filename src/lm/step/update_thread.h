/* SPDX-License-Identifier: MIT
 * A host thread that runs the parts of an update in order, in parallel with the device. Each part runs as soon as its
 * turn has come and its events have been signalled. The thread refers to parts only by number.
 */
#ifndef LM_STEP_UPDATE_THREAD_H
#define LM_STEP_UPDATE_THREAD_H

#include "propane.h"

enum { UPDATE_JOB_WAITS = 2 };

typedef struct update_job {
    int part;
    int wait_count;
    propane_event_point waits[UPDATE_JOB_WAITS]; /* borrowed until the job is done */
} update_job;

typedef propane_status update_run(void *context, int part, propane_error *err);
typedef struct update_thread update_thread;

/* `room` is the largest number of queued jobs, including the running one. Only the new thread calls `run`. If a job
 * fails, the jobs after it still run, so that no thread waits for ever. */
PROPANE_CHECK propane_status update_thread_create(int room, update_run *run, void *context, update_thread **out,
                                                  propane_error *err);
void update_thread_free(update_thread *t); /* only after all jobs are done */
/* Queues a copy of `job`. Does not allocate. */
void update_thread_push(update_thread *t, const update_job *job);
/* Waits until all jobs are done, and returns the first failure since the thread was created. */
PROPANE_CHECK propane_status update_thread_settle(update_thread *t, propane_error *err);
/* Returns the nanoseconds that jobs have taken since the last call, without their waits. */
int64_t update_thread_ns(update_thread *t);

#endif
