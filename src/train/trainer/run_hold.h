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

/* A fresh run gets a separate folder and overwrites no file that a run writes, unless a run that died before its first
 * checkpoint left it there, which the mark shows. A resumed run must have a checkpoint. The folder is made if it does
 * not exist. Other runs are kept out of it until the process ends or run_end. */
PROPANE_CHECK propane_status run_begin(const char *dir, bool resume, const run_files *files, run_hold *hold,
                                       propane_error *err);
/* Removes a folder that run_begin made and in which nothing was written. */
void run_end(const char *dir, run_hold *hold);

#endif
