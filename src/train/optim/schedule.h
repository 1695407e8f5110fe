/* SPDX-License-Identifier: MIT
 * The learning rate of a step: a linear warm-up, then a curve from the peak to the floor. warm-up-stable-decay ("wsd")
 * stays at the peak and decreases linearly over the last fifth of the steps.
 */
#ifndef TRAIN_OPTIM_SCHEDULE_H
#define TRAIN_OPTIM_SCHEDULE_H

#include <stdint.h>

#define TRAIN_SCHEDULE_WORDS "cosine|linear|constant|wsd"
typedef enum train_schedule_shape {
    TRAIN_SCHEDULE_COSINE,
    TRAIN_SCHEDULE_LINEAR,
    TRAIN_SCHEDULE_CONSTANT,
    TRAIN_SCHEDULE_WSD
} train_schedule_shape;

typedef struct train_schedule {
    double peak, floor;
    int64_t warmup; /* steps; the last of them reaches the peak */
    int64_t steps;  /* total steps; later ones stay at the floor */
    train_schedule_shape shape;
} train_schedule;

train_schedule_shape train_schedule_find(const char *word); /* one of the words; any other means cosine */
/* `step` counts from 0. */
double train_schedule_at(const train_schedule *s, int64_t step);

#endif
