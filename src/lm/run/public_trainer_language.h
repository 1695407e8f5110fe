/* SPDX-License-Identifier: MIT
 * What the two files of a language model's public trainer share.
 */
#ifndef LM_RUN_PUBLIC_TRAINER_LANGUAGE_H
#define LM_RUN_PUBLIC_TRAINER_LANGUAGE_H

#include "train/trainer/public_trainer.h"

/* What the options need of one another (public_trainer_options.c). */
PROPANE_CHECK propane_status api_trainer_language_check(const train_options *o, propane_error *err);

#endif
