/* SPDX-License-Identifier: MIT
 * Defines the array of the kinds of training. This file is outside src/train, because src/train must not depend on the
 * language models.
 */
#include "train/trainer/public_trainer.h"

const trainer_kind *const api_trainer_kinds[] = {
    [TRAIN_LANGUAGE] = &api_trainer_language,
    [TRAIN_IMPORTED] = &api_trainer_program,
};
