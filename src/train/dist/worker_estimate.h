/* SPDX-License-Identifier: MIT
 * The cost of a step for workers that train one model over a network: bytes, time, and the bottleneck. Costs are
 * estimated, never measured; tests/cli/cases/workers.t compares the bytes with those that runs count.
 *
 * The estimate counts the messages of train/dist/allreduce.h. For one sum over k workers, each worker sends 2 (k - 1) /
 * k of all numbers, in buckets. A bucket has a transfer to the owners of its pieces and one back. Adapters are averaged
 * by a server (docs/distributed.md): each worker receives and sends its adapters, and the server does so for all
 * workers over a line of the same rate.
 */
#ifndef TRAIN_DIST_WORKER_ESTIMATE_H
#define TRAIN_DIST_WORKER_ESTIMATE_H

#include "train/dist/allreduce.h"

typedef struct worker_question {
    int64_t workers;
    double bandwidth;    /* bits per second that a worker can send and, at the same time, receive */
    double latency_ms;   /* time until a message arrives, one way */
    allreduce_wire wire; /* format of outer steps; for data-parallel training at least 16 bits */
    int64_t bucket;      /* bytes of fp32 numbers; 0 for the trainer's default */
    int64_t every;       /* steps from one outer step to the next */
    int64_t warmup;      /* data-parallel steps before the outer ones */
    double parameters;   /* trained parameters */
    double adapters;     /* trained parameters with adapters */
    double step_ms;      /* time of one update on a single worker */
    double backward_ms;  /* part of step_ms during which gradients are sent */
    double tokens;       /* tokens per such step */
} worker_question;

typedef enum worker_way { WORKER_DATA_PARALLEL, WORKER_OUTER, WORKER_ADAPTERS, WORKER_WAYS } worker_way;
typedef enum worker_bound { WORKER_COMPUTE, WORKER_BANDWIDTH, WORKER_LATENCY } worker_bound;

typedef struct worker_cost {
    worker_way way;
    allreduce_wire wire;
    double message_bytes; /* sent by a worker at once: per step, per outer step, or per round */
    double step_bytes;    /* bytes that a worker sends per step, on average */
    double network_ms;    /* transfer time per step, whether or not it is hidden */
    double step_ms;       /* time of a step on average; all workers make it at the same time */
    double tokens_per_s;  /* all workers combined */
    double day_bytes;     /* sent by a worker in 24 hours */
    /* bytes that a worker sends in all steps of the warm-up, and the time of these steps; 0 without a warm-up */
    double warmup_bytes;
    double warmup_ms;
    double server_bytes; /* sent by the server in 24 hours; 0 without a server */
    double use;          /* fraction of the time in which a worker computes */
    worker_bound bound;  /* the part that takes the largest share of the step's time */
} worker_cost;

const char *worker_way_name(worker_way way);       /* "data-parallel", "outer", "adapters" */
const char *worker_bound_name(worker_bound bound); /* "compute", "bandwidth", "latency" */

/* Returns the bytes that a worker sends for one sum of `count` numbers over all workers. */
double worker_sum_bytes(int64_t workers, allreduce_wire wire, double count);
/* Returns PROPANE_ERR_INVALID if a rate, a time or a number is impossible. */
PROPANE_CHECK propane_status worker_estimate(const worker_question *q, worker_way way, worker_cost *out,
                                             propane_error *err);

#endif
