/* SPDX-License-Identifier: MIT
 * The learning rate of a step: a linear warm-up, then a curve from the peak to the floor. "constant" stays at the peak.
 * "wsd" (warm-up, stable, decay) stays at the peak and falls linearly over the last fifth of the steps.
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
    int64_t warmup; /* number of warm-up steps; the last of them reaches the peak */
    int64_t steps;  /* total number of steps; later steps stay at the floor, unless the shape is constant */
    train_schedule_shape shape;
} train_schedule;

/* returns the shape for a word; unknown words mean cosine */
train_schedule_shape train_schedule_find(const char *word);
/* Returns the learning rate of `step`, counted from 0. */
double train_schedule_at(const train_schedule *s, int64_t step);

#endif
