/* SPDX-License-Identifier: MIT
 * Declarations shared by the two files of a language model's public trainer.
 */
#ifndef LM_RUN_PUBLIC_TRAINER_LANGUAGE_H
#define LM_RUN_PUBLIC_TRAINER_LANGUAGE_H

#include "train/trainer/public_trainer.h"

/* Refuses options that contradict each other (public_trainer_options.c). */
PROPANE_CHECK propane_status api_trainer_language_check(const train_options *o, propane_error *err);

#endif
