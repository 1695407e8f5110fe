/* SPDX-License-Identifier: MIT
 * Dynamic loss scale. fp16 gradients below 2^-24 vanish, as do values below 2^-17 in an engine's matrix product (rule
 * F3). Values above 65504, or above 32768 in a matrix product, overflow. The loss is therefore multiplied by the
 * largest power of two that the gradients allow. A non-finite gradient halves the scale, and the step is skipped;
 * TRAIN_SCALER_INTERVAL good steps in a row double the scale.
 */
#ifndef TRAIN_OPTIM_SCALER_H
#define TRAIN_OPTIM_SCALER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct train_scaler {
    double scale;
    int64_t good;    /* good steps since the scale changed or a step was skipped */
    int64_t skipped; /* steps skipped so far */
    bool dynamic;    /* false for fp32 programs, which need no scale; `scale` then stays 1 */
} train_scaler;

#define TRAIN_SCALER_START    65536.0
#define TRAIN_SCALER_LARGEST  16777216.0
#define TRAIN_SCALER_INTERVAL 2000

void train_scaler_init(train_scaler *s, bool dynamic);
/* Called for each step; `finite` states whether loss and gradients are finite. Updates the scale and returns whether the
 * step may be applied. */
bool train_scaler_step(train_scaler *s, bool finite);

#endif
