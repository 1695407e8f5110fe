/* SPDX-License-Identifier: MIT
 * A thread of the host that does the parts of an update one after the other, each as soon as its turn has come and the
 * events that it waits for have: beside what runs on the device. It knows parts by number only.
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

/* `room`: jobs that are under way at a time, at most. `run` is called by the thread alone; where it fails the jobs
 * after it still run, so that no thread waits for ever. */
PROPANE_CHECK propane_status update_thread_create(int room, update_run *run, void *context, update_thread **out,
                                                  propane_error *err);
void update_thread_free(update_thread *t); /* when all jobs are done */
/* Does not allocate. */
void update_thread_push(update_thread *t, const update_job *job);
/* Waits until all jobs are done; the first failure stays. */
PROPANE_CHECK propane_status update_thread_settle(update_thread *t, propane_error *err);
/* Nanoseconds of jobs since the last call. */
int64_t update_thread_ns(update_thread *t);

#endif
