/* SPDX-License-Identifier: MIT
 * What a step costs workers that share one training over a network: bytes, time, and what binds. This is the only place
 * of that arithmetic. Estimated, never measured; tests/cli/cases/workers.t holds the bytes against those that runs
 * count.
 *
 * Messages are those of dist/allreduce.h: for one sum over k workers each sends 2 (k - 1) / k of all numbers, in
 * buckets, of which each has a transfer to the owners of its pieces and one back. Adapters are averaged by a server
 * (docs/distributed.md): a worker gets them and sends them, the server does so for all workers over a line of the same
 * rate.
 */
#ifndef TRAIN_DIST_WORKER_ESTIMATE_H
#define TRAIN_DIST_WORKER_ESTIMATE_H

#include "train/dist/allreduce.h"

typedef struct worker_question {
    int64_t workers;
    double bandwidth;  /* bits a second that a worker sends, and gets at the same time */
    double latency_ms; /* until a message is there, one way */
    allreduce_wire
        wire;           /* of outer steps; data-parallel training takes what of it is for gradients, at least 16 bits */
    int64_t bucket;     /* bytes of fp32 numbers; 0: the trainer's */
    int64_t every;      /* steps between two outer ones */
    int64_t warmup;     /* data-parallel steps before the outer ones */
    double parameters;  /* that are learnt */
    double adapters;    /* parameters of the adapters */
    double step_ms;     /* of a worker by itself, an update */
    double backward_ms; /* of it, while gradients travel beside */
    double tokens;      /* of such a step */
} worker_question;

typedef enum worker_way { WORKER_DATA_PARALLEL, WORKER_OUTER, WORKER_ADAPTERS, WORKER_WAYS } worker_way;
typedef enum worker_bound { WORKER_COMPUTE, WORKER_BANDWIDTH, WORKER_LATENCY } worker_bound;

typedef struct worker_cost {
    worker_way way;
    allreduce_wire wire;
    double message_bytes; /* that a worker sends at a time: for a step, for an outer one, for a round */
    double step_bytes;    /* the same for a step, on average */
    double network_ms;    /* of a step: what is under way, hidden or not */
    double step_ms;       /* on average; all workers make it at the same time */
    double tokens_per_s;  /* of all workers */
    double day_bytes;     /* sent by a worker in 24 hours */
    /* that a worker sends in all the warm-up's steps, and how long these take; 0: there are none */
    double warmup_bytes;
    double warmup_ms;
    double server_bytes; /* sent by the server in 24 hours; 0: there is none */
    double use;          /* part of the time in which a worker computes */
    worker_bound bound;  /* what most of the step's time goes to */
} worker_cost;

const char *worker_way_name(worker_way way);       /* "data-parallel", "outer", "adapters" */
const char *worker_bound_name(worker_bound bound); /* "compute", "bandwidth", "latency" */

/* Bytes that a worker sends for one sum of `count` numbers over all workers. */
double worker_sum_bytes(int64_t workers, allreduce_wire wire, double count);
/* PROPANE_ERR_INVALID: a rate, a time or a number that cannot be. */
PROPANE_CHECK propane_status worker_estimate(const worker_question *q, worker_way way, worker_cost *out,
                                             propane_error *err);

#endif
