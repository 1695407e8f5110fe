/* SPDX-License-Identifier: MIT
 * The visible array of the kinds of training. It is here because src/train does not see the language models.
 */
#include "train/trainer/public_trainer.h"

const trainer_kind *const api_trainer_kinds[] = {
    [TRAIN_LANGUAGE] = &api_trainer_language,
    [TRAIN_IMPORTED] = &api_trainer_program,
};
