/* SPDX-License-Identifier: MIT
 * What runs when in an estimated step: three lanes (the engine's queue, the host's queue, the thread that updates
 * weights), each of them in order, and tasks that wait for tasks of other lanes. Lanes share the memory and, where
 * their tasks are loops of the thread pool, the processor.
 */
#ifndef LM_STEP_PARTITION_SCHEDULE_H
#define LM_STEP_PARTITION_SCHEDULE_H

#include <stdbool.h>

typedef enum schedule_lane { SCHEDULE_ENGINE, SCHEDULE_HOST, SCHEDULE_UPDATE, SCHEDULE_LANES } schedule_lane;

#define SCHEDULE_WAITS 3

typedef struct schedule_task {
    schedule_lane lane;
    bool pool;        /* a loop of the thread pool: of two at once each has half of it */
    double ms, bytes; /* alone; what it moves through the memory */
    int waits[SCHEDULE_WAITS], wait_count;
    double end; /* when it is done */
} schedule_task;

/* Fills in the ends. A task waits for tasks before it in the list only. `memory_gbs`: what all lanes together move;
 * where they want more, all of them are slower. */
void schedule_run(schedule_task *tasks, int count, double memory_gbs);

#endif
