/* SPDX-License-Identifier: MIT
 * The command line with which a run whose compile budget is used up starts itself again. Only the command calls exec().
 */
#ifndef TRAIN_RESTART_H
#define TRAIN_RESTART_H

#include "core/base/arena.h"

/* A copy of argv in the arena with --resume in it exactly once, and without --init and its value: what the run began
 * with is in the checkpoint. What follows "--" is kept as it is. The result ends in NULL. */
PROPANE_CHECK propane_status train_restart_arguments(int argc, char *const *argv, arena *a, char ***out,
                                                     propane_error *err);

#endif
