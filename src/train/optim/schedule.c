/* SPDX-License-Identifier: MIT
 * Owns the formula of the learning rate. The formula has no state that a resumed run would need.
 */
#include "train/optim/schedule.h"

#include <math.h>
#include <string.h>

train_schedule_shape train_schedule_find(const char *word) {
    return strcmp(word, "linear") == 0     ? TRAIN_SCHEDULE_LINEAR
           : strcmp(word, "constant") == 0 ? TRAIN_SCHEDULE_CONSTANT
           : strcmp(word, "wsd") == 0      ? TRAIN_SCHEDULE_WSD
                                           : TRAIN_SCHEDULE_COSINE;
}

/* Returns the part of the distance from floor to peak that remains; `progress` goes from 0 to 1 after the warm-up. */
static double schedule_left(const train_schedule *s, double progress) {
    const double tail = 0.2 * (double)s->steps / (double)(s->steps - s->warmup);
    if (s->shape == TRAIN_SCHEDULE_LINEAR) return 1 - progress;
    if (s->shape == TRAIN_SCHEDULE_WSD) return fmin(1, (1 - progress) / fmin(tail, 1));
    return 0.5 * (1 + cos(3.14159265358979323846 * progress));
}

double train_schedule_at(const train_schedule *s, int64_t step) {
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    if (s->shape == TRAIN_SCHEDULE_CONSTANT) return s->peak;
    if (step >= s->steps) return s->floor;
    const double progress = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    return s->floor + (s->peak - s->floor) * schedule_left(s, progress);
}
