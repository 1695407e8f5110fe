/* SPDX-License-Identifier: MIT
 * The learning rate of a step: a linear warm-up, then half a cosine from the peak to the floor.
 */
#ifndef TRAIN_OPTIM_SCHEDULE_H
#define TRAIN_OPTIM_SCHEDULE_H

#include <stdint.h>

typedef struct train_schedule {
    double peak, floor;
    int64_t warmup; /* steps; the last of them has the peak */
    int64_t steps;  /* in all; later ones keep the floor */
} train_schedule;

/* `step` counts from 0. */
double train_schedule_at(const train_schedule *s, int64_t step);

#endif
