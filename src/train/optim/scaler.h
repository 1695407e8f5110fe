/* SPDX-License-Identifier: MIT
 * Dynamic loss scale. fp16 gradients below 2^-24 vanish, as do values below 2^-17 in an engine's matrix product (rule
 * F3). Those above 65504, or 32768 in a matrix product, overflow. So the loss is multiplied by the largest power of two
 * that the gradients allow. A non-finite gradient halves the scale and loses the step; a run of good steps doubles it.
 */
#ifndef TRAIN_OPTIM_SCALER_H
#define TRAIN_OPTIM_SCALER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct train_scaler {
    double scale;
    int64_t good;    /* steps since the scale changed */
    int64_t skipped; /* steps lost so far */
    bool dynamic;    /* false for fp32 programs, which need no scale: it stays 1 */
} train_scaler;

#define TRAIN_SCALER_START    65536.0
#define TRAIN_SCALER_LARGEST  16777216.0
#define TRAIN_SCALER_INTERVAL 2000

void train_scaler_init(train_scaler *s, bool dynamic);
/* Called after each step; `finite` states whether all gradients were finite. Returns whether the step may be applied. */
bool train_scaler_step(train_scaler *s, bool finite);

#endif
