/* SPDX-License-Identifier: MIT
 * Direct preference optimization (Rafailov et al., 2023): windows 2k and 2k + 1 of a batch hold a chosen and a rejected
 * answer. A pair's margin is how much more the model prefers the chosen one than a reference model does; its loss is
 * -log sigmoid(beta * margin). By the model's logits it is a cross-entropy of each window times a number, so that the
 * loss of lm/step/loss.h makes the gradient.
 */
#ifndef LM_STEP_PREFERENCE_H
#define LM_STEP_PREFERENCE_H

#include <stdint.h>

typedef struct preference {
    double beta;
    const float *reference; /* [batch]: the reference model's nats of each window's answer */
    double margin;          /* out: mean of beta * margin over the pairs that count */
    double preferred;       /* out: of the pairs that count, those whose margin is above 0 */
    double pairs;           /* out: a pair counts if both of its windows have a target */
} preference;

/* Nats of all positions that count, of one window. */
double preference_sum(const double *nats, const int32_t *targets, int context);
/* `nats` and `targets` [batch][context]. Returns the mean loss over the pairs that count; scales [batch] receives by
 * what each window's gradient of its summed nats is multiplied, 0 for pairs that do not count. */
double preference_loss(preference *p, const double *nats, const int32_t *targets, int batch, int context,
                       float *scales);

#endif
