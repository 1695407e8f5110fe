/* SPDX-License-Identifier: MIT
 * Owns the clock of an estimated step. At any moment each lane runs at most one task, at a rate that depends on what
 * the other lanes need from the memory and the thread pool. Time advances to the moment at which the next task ends.
 */
#include "lm/step/partition_schedule.h"

#include <math.h>

typedef struct running {
    int next;    /* index of the lane's current task */
    double left; /* ms that remain */
    double rate; /* share of its full speed; 0 while the task waits */
} running;

static void schedule_go_on(running *lane, const schedule_task *tasks, int count, schedule_lane which, int from) {
    lane->next = from;
    while (lane->next < count && tasks[lane->next].lane != which) lane->next++;
    lane->left = lane->next < count ? tasks[lane->next].ms : 0;
}

static bool schedule_is_ready(const schedule_task *tasks, const schedule_task *t) {
    for (int i = 0; i < t->wait_count; i++)
        if (tasks[t->waits[i]].end < 0) return false;
    return true;
}

static void schedule_share(running *lanes, const schedule_task *tasks, int count, double memory_gbs) {
    double wanted = 0;
    int pool = 0;
    for (int l = 0; l < SCHEDULE_LANES; l++) {
        const schedule_task *t = &tasks[lanes[l].next];
        lanes[l].rate = lanes[l].next < count && schedule_is_ready(tasks, t);
        pool += lanes[l].rate > 0 && t->pool;
    }
    for (int l = 0; l < SCHEDULE_LANES; l++) {
        if (lanes[l].rate <= 0) continue;
        const schedule_task *t = &tasks[lanes[l].next];
        if (t->pool) lanes[l].rate /= pool;
        if (t->ms > 0) wanted += lanes[l].rate * t->bytes / (t->ms * 1e6);
    }
    for (int l = 0; l < SCHEDULE_LANES && wanted > memory_gbs; l++) {
        if (lanes[l].rate <= 0 || tasks[lanes[l].next].bytes <= 0) continue;
        lanes[l].rate *= memory_gbs / wanted;
    }
}

void schedule_run(schedule_task *tasks, int count, double memory_gbs) {
    running lanes[SCHEDULE_LANES];
    double now = 0;
    for (int i = 0; i < count; i++) tasks[i].end = -1;
    for (int l = 0; l < SCHEDULE_LANES; l++) schedule_go_on(&lanes[l], tasks, count, (schedule_lane)l, 0);
    for (;;) {
        double step = INFINITY;
        schedule_share(lanes, tasks, count, memory_gbs);
        for (int l = 0; l < SCHEDULE_LANES; l++)
            if (lanes[l].rate > 0) step = fmin(step, lanes[l].left / lanes[l].rate);
        if (!isfinite(step)) return; /* the last task has ended: a task waits only for earlier ones */
        now += step;
        for (int l = 0; l < SCHEDULE_LANES; l++) {
            if (lanes[l].rate <= 0) continue;
            lanes[l].left -= step * lanes[l].rate;
            if (lanes[l].left > 1e-12) continue;
            tasks[lanes[l].next].end = now;
            schedule_go_on(&lanes[l], tasks, count, (schedule_lane)l, lanes[l].next + 1);
        }
    }
}
