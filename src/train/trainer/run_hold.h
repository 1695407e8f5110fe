/* SPDX-License-Identifier: MIT
 * A run's folder while a process trains in it.
 */
#ifndef TRAIN_TRAINER_RUN_HOLD_H
#define TRAIN_TRAINER_RUN_HOLD_H

#include <stdbool.h>

#include "propane.h"

/* Returns DIR/NAME, or NULL if memory runs out. Release it with mem_free. */
char *run_path(const char *dir, const char *name);
bool run_holds(const char *dir, const char *name);
/* Reports that the folder has no checkpoint to resume from. */
propane_status run_fail_resume(const char *dir, propane_error *err);
/* A run's folder while this process trains in it. */
typedef struct run_hold {
    int lock;  /* -1 for none */
    bool made; /* the folder did not exist before */
} run_hold;

/* Files that a kind of run writes in addition to those of every run. */
typedef struct run_files {
    bool holds_model;         /* the folder has a model already */
    const char *const *names; /* ends in NULL */
} run_files;

/* Makes the folder if it does not exist, and locks it against other runs until run_end or the end of the process. For a
 * new run, the folder must not contain a run, a model or other files that the run would write. Such files are accepted
 * if they were left by a run that died before its first checkpoint, which a mark in the folder shows. For a resumed
 * run, the folder must contain a checkpoint. */
PROPANE_CHECK propane_status run_begin(const char *dir, bool resume, const run_files *files, run_hold *hold,
                                       propane_error *err);
/* Unlocks the folder. Removes it if run_begin made it and nothing was written into it. */
void run_end(const char *dir, run_hold *hold);

#endif
