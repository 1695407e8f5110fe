/* SPDX-License-Identifier: MIT
 * A run's folder while a process trains in it.
 */
#ifndef TRAIN_TRAINER_RUN_HOLD_H
#define TRAIN_TRAINER_RUN_HOLD_H

#include <stdbool.h>

#include "propane.h"

/* DIR/NAME; mem_free it. NULL: no memory. */
char *run_path(const char *dir, const char *name);
bool run_holds(const char *dir, const char *name);
/* The folder while this process trains in it. */
typedef struct run_hold {
    int lock;  /* -1: none */
    bool made; /* there was no such folder before */
} run_hold;

/* What a kind of run writes beside the files of every run. */
typedef struct run_files {
    bool holds_model;         /* the folder has a model already */
    const char *const *names; /* the last one is NULL */
} run_files;

/* A fresh run gets a folder of its own and overwrites no file that a run writes, unless a run that died before its
 * first checkpoint has left it (then there is a mark). A resumed one must have a checkpoint. The folder is made where
 * there is none; other runs are kept out of it until the process ends or run_end. */
PROPANE_CHECK propane_status run_begin(const char *dir, bool resume, const run_files *files, run_hold *hold,
                                       propane_error *err);
/* A folder that was made and in which nothing was written is removed again. */
void run_end(const char *dir, run_hold *hold);

#endif
