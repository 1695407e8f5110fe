/* SPDX-License-Identifier: MIT
 * Direct preference optimization (Rafailov et al., 2023). Windows 2k and 2k + 1 of a batch hold a chosen and a rejected
 * answer. A pair's margin is how much more strongly the model prefers the chosen answer than a reference model does;
 * its loss is -log sigmoid(beta * margin). The gradient of this loss with respect to a window's logits is the gradient
 * of the window's cross-entropy times a number, so lm/step/loss.h computes it.
 */
#ifndef LM_STEP_PREFERENCE_H
#define LM_STEP_PREFERENCE_H

#include <stdint.h>

typedef struct preference {
    double beta;
    const float *reference; /* [batch], the reference model's nats of each window's answer */
    double margin;          /* out: mean of beta * margin over the pairs that count */
    double preferred;       /* out: share of the pairs that count whose margin is above 0 */
    double pairs;           /* out: number of pairs that count: both of their windows have a target */
} preference;

/* Returns the sum of one window's nats over the positions that have a target. */
double preference_sum(const double *nats, const int32_t *targets, int context);
/* Returns the mean loss over the pairs that count. `nats` and `targets` are [batch][context]. scales [batch] receives
 * the factor of the gradient of each window's summed nats, 0 for pairs that do not count. */
double preference_loss(preference *p, const double *nats, const int32_t *targets, int batch, int context,
                       float *scales);

#endif
