/* SPDX-License-Identifier: MIT
 * Owns the rule by which the loss scale changes.
 */
#include "train/optim/scaler.h"

void train_scaler_init(train_scaler *s, bool dynamic) {
    *s = (train_scaler){.scale = dynamic ? TRAIN_SCALER_START : 1, .dynamic = dynamic};
}

bool train_scaler_step(train_scaler *s, bool finite) {
    if (!finite) {
        s->skipped++;
        s->good = 0;
        if (s->dynamic && s->scale > 1) s->scale /= 2;
        return false;
    }
    s->good++;
    if (s->dynamic && s->good >= TRAIN_SCALER_INTERVAL) {
        s->good = 0;
        if (s->scale < TRAIN_SCALER_LARGEST) s->scale *= 2;
    }
    return true;
}
