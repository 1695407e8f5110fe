/* SPDX-License-Identifier: MIT
 * Owns the formula of the learning rate; it has no state, so a resumed run needs none.
 */
#include "train/optim/schedule.h"

#include <math.h>

double train_schedule_at(const train_schedule *s, int64_t step) {
    if (step < s->warmup) return s->peak * (double)(step + 1) / (double)s->warmup;
    if (step >= s->steps) return s->floor;
    double progress = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    return s->floor + (s->peak - s->floor) * 0.5 * (1 + cos(3.14159265358979323846 * progress));
}
