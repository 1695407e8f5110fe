/* SPDX-License-Identifier: MIT
 * The division of ranks into workers. Without outer steps, all ranks are one worker. With outer steps
 * (lm/dist/outer.h), a worker is one rank, the ranks of a machine, or a fixed number of consecutive ranks. Inside a
 * worker, gradients are summed in every step; between workers, little is sent. All workers have the same size, so each
 * rank has one counterpart in every other worker, with which it synchronises its part of the weights. If a worker is a
 * machine, all machines must have the same number of ranks.
 */
#ifndef TRAIN_DIST_WORKERS_H
#define TRAIN_DIST_WORKERS_H

#include <stdint.h>

#include "train/dist/mpi.h"

typedef struct workers {
    mpi *all;         /* borrowed; NULL for a single process */
    mpi *inside;      /* the ranks of this rank's worker; NULL if the worker is only this rank */
    mpi *between;     /* this rank and its counterparts; NULL if there is only one worker */
    int count, index; /* number of workers, and this rank's worker */
    int size, place;  /* ranks per worker, and this rank's place among them; place 0 leads */
    int leader;       /* the leader's number among all ranks */
} workers;

typedef struct workers_options {
    bool outer;         /* more than one worker is wanted */
    bool by_machine;    /* the ranks of a machine are one worker; used if `node_ranks` is 0 */
    int64_t node_ranks; /* consecutive ranks per worker; 0 means one rank, or those of a machine with `by_machine` */
} workers_options;

/* Forms the workers. All ranks must call this. Pass `out` to workers_dissolve even if this fails. */
PROPANE_CHECK propane_status workers_form(mpi *all, const workers_options *options, workers *out, propane_error *err);
void workers_dissolve(workers *w);

#endif
