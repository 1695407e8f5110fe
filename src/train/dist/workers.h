/* SPDX-License-Identifier: MIT
 * The ranks that form one worker. Without outer steps all ranks are one worker. With them (dist/outer.h) a worker is
 * one rank, the ranks of a machine, or a fixed number of consecutive ranks. Inside a worker gradients are summed in
 * every step; between workers little is sent. Workers have equal sizes, so that each rank has one counterpart in every
 * other worker, with which it synchronises its part of the weights. Refuses machines with different numbers of ranks.
 */
#ifndef TRAIN_DIST_WORKERS_H
#define TRAIN_DIST_WORKERS_H

#include <stdint.h>

#include "train/dist/mpi.h"

typedef struct workers {
    mpi *all;         /* borrowed; NULL for a single process */
    mpi *inside;      /* this rank's worker; NULL if it is only this rank */
    mpi *between;     /* this rank and its counterparts; NULL if there is one worker */
    int count, index; /* number of workers, and this rank's worker */
    int size, place;  /* ranks per worker, and this rank's place among them; place 0 leads */
    int leader;       /* the leader's number among all ranks */
} workers;

typedef struct workers_options {
    bool outer;         /* more than one worker is wanted */
    bool by_machine;    /* if `node_ranks` is 0, the ranks of a machine are one worker */
    int64_t node_ranks; /* consecutive ranks per worker; 0 means one each */
} workers_options;

/* All ranks must call it. Pass `out` to workers_dissolve even if this fails. */
PROPANE_CHECK propane_status workers_form(mpi *all, const workers_options *options, workers *out, propane_error *err);
void workers_dissolve(workers *w);

#endif
