/* SPDX-License-Identifier: MIT
 * The schedule of an estimated step: three ordered lanes (the engine's queue, the host's queue, the thread that updates
 * weights) and tasks that wait for tasks of other lanes. All lanes share the memory bandwidth. Tasks that are loops of
 * the thread pool also share the processor.
 */
#ifndef LM_STEP_PARTITION_SCHEDULE_H
#define LM_STEP_PARTITION_SCHEDULE_H

#include <stdbool.h>

typedef enum schedule_lane { SCHEDULE_ENGINE, SCHEDULE_HOST, SCHEDULE_UPDATE, SCHEDULE_LANES } schedule_lane;

#define SCHEDULE_WAITS 3

typedef struct schedule_task {
    schedule_lane lane;
    bool pool;        /* a loop of the thread pool; two that run at once get half of the pool each */
    double ms, bytes; /* the task's time when it runs alone, and the bytes that it moves */
    int waits[SCHEDULE_WAITS], wait_count;
    double end; /* out: time at which the task ends */
} schedule_task;

/* Sets the `end` of each task. A task may wait only for tasks before it in the list. `memory_gbs` is the memory
 * bandwidth of all lanes combined; if the lanes need more, all of them slow down. */
void schedule_run(schedule_task *tasks, int count, double memory_gbs);

#endif
