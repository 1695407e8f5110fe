/* SPDX-License-Identifier: MIT
 * Dynamic loss scale: fp16 gradients below 2^-24, and what is below 2^-17 in a product of an engine (rule F3), vanish;
 * those above 65504, or 32768 in a product, overflow. So the loss is multiplied by a power of two that is as large as
 * the gradients bear. A non-finite gradient halves it and costs the step; a run of good steps doubles it.
 */
#ifndef TRAIN_OPTIM_SCALER_H
#define TRAIN_OPTIM_SCALER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct train_scaler {
    double scale;
    int64_t good;    /* steps since the scale changed */
    int64_t skipped; /* steps lost so far */
    bool dynamic;    /* false: fp32 programs need none, the scale stays 1 */
} train_scaler;

#define TRAIN_SCALER_START    65536.0
#define TRAIN_SCALER_LARGEST  16777216.0
#define TRAIN_SCALER_INTERVAL 2000

void train_scaler_init(train_scaler *s, bool dynamic);
/* After each step: were all gradients finite? Returns whether the step may be applied. */
bool train_scaler_step(train_scaler *s, bool finite);

#endif
