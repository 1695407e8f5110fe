/* SPDX-License-Identifier: MIT
 * The command line that restarts a run after its compile budget is used up. Only the command itself calls exec().
 */
#ifndef TRAIN_RESTART_H
#define TRAIN_RESTART_H

#include "core/base/arena.h"

/* Copies argv into the arena with exactly one --resume and without --init and its value, because the checkpoint holds
 * the initial model. Everything after "--" is kept unchanged. The result ends in NULL. */
PROPANE_CHECK propane_status train_restart_arguments(int argc, char *const *argv, arena *a, char ***out,
                                                     propane_error *err);

#endif
