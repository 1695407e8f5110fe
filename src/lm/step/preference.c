/* SPDX-License-Identifier: MIT
 * Owns the loss of pairs. Sums are computed in double, because a margin is a small difference of large sums.
 */
#include "lm/step/preference.h"

#include <math.h>
#include <stdbool.h>

double preference_sum(const double *nats, const int32_t *targets, int context) {
    double sum = 0;
    for (int i = 0; i < context; i++)
        if (targets[i] >= 0) sum += nats[i];
    return sum;
}

static bool preference_has_target(const int32_t *targets, int context) {
    for (int i = 0; i < context; i++)
        if (targets[i] >= 0) return true;
    return false;
}

/* Returns -log sigmoid(x) without an exponential that overflows; the next function returns sigmoid(-x). */
static double preference_softplus(double x) { return (x < 0 ? -x : 0) + log1p(exp(-fabs(x))); }
static double preference_doubt(double x) { return x >= 0 ? exp(-x) / (1 + exp(-x)) : 1 / (1 + exp(x)); }

double preference_loss(preference *p, const double *nats, const int32_t *targets, int batch, int context,
                       float *scales) {
    double loss = 0;
    p->margin = p->preferred = p->pairs = 0;
    for (int b = 0; b < batch; b++) scales[b] = 0;
    for (int b = 0; b + 1 < batch; b += 2) {
        const int32_t *own = targets + (int64_t)b * context;
        if (!preference_has_target(own, context) || !preference_has_target(own + context, context)) continue;
        const double *at = nats + (int64_t)b * context;
        const double chosen = (double)p->reference[b] - preference_sum(at, own, context);
        const double rejected = (double)p->reference[b + 1] - preference_sum(at + context, own + context, context);
        const double x = p->beta * (chosen - rejected);
        loss += preference_softplus(x);
        p->margin += x;
        p->preferred += x > 0;
        p->pairs++;
        scales[b] = (float)(p->beta * preference_doubt(x));
        scales[b + 1] = -scales[b];
    }
    if (p->pairs == 0) return 0;
    for (int b = 0; b < batch; b++) scales[b] = (float)((double)scales[b] / p->pairs);
    p->margin /= p->pairs;
    p->preferred /= p->pairs;
    return loss / p->pairs;
}
