/* SPDX-License-Identifier: MIT
 * Which ranks make one worker. Without outer steps all ranks are one; with them (dist/outer.h) each is one by itself,
 * or those of a machine, or so many in a row: inside a worker gradients are added up in every step, between workers
 * little travels. Workers are as large as each other, so that each rank has one counterpart in every other worker, with
 * which it agrees on its part of the weights. Refuses machines with different numbers of ranks.
 */
#ifndef TRAIN_DIST_WORKERS_H
#define TRAIN_DIST_WORKERS_H

#include <stdint.h>

#include "train/dist/mpi.h"

typedef struct workers {
    mpi *all;         /* borrowed; NULL: the process trains alone */
    mpi *inside;      /* this rank's worker; NULL: that is this rank alone */
    mpi *between;     /* this rank and its counterparts; NULL: there is one worker */
    int count, index; /* workers; which one this rank belongs to */
    int size, place;  /* ranks of a worker; which of them this is. Place 0 leads */
    int leader;       /* its number among all */
} workers;

typedef struct workers_options {
    bool outer;         /* more than one worker is wanted */
    bool by_machine;    /* the ranks of a machine are one worker, if `node_ranks` is 0 */
    int64_t node_ranks; /* so many in a row are; 0: one each */
} workers_options;

/* All ranks call it. `out` is for workers_dissolve, also if this fails. */
PROPANE_CHECK propane_status workers_form(mpi *all, const workers_options *options, workers *out, propane_error *err);
void workers_dissolve(workers *w);

#endif
