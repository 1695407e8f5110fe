/* SPDX-License-Identifier: MIT
 * The kernels that the bench and the probe measure a device with: chains of 1x1 convolutions and of matrix products.
 */
#ifndef APPS_ANE_LAB_PROBE_MICROBENCH_H
#define APPS_ANE_LAB_PROBE_MICROBENCH_H

#include "apps/ane-lab/probe/testbench.h"

typedef enum sweep_kind {
    SWEEP_CONV,   /* `depth` 1x1 convolutions, constant weights, [1, n, 1, m] */
    SWEEP_MATMUL, /* `depth` products of [n, m] with [m, m] inputs */
    SWEEP_STREAM  /* [n, n] weights against 32 columns: bound by reading the weights */
} sweep_kind;

typedef struct sweep_point {
    sweep_kind kind;
    int64_t n, m;
    int depth;
    double flops, bytes; /* of one run; bytes: weights, inputs and outputs once */
    rig_time time;
} sweep_point;

PROPANE_CHECK propane_status sweep_measure(const char *device, sweep_point *p, int64_t limit_ns, propane_error *err);
double sweep_gflops(const sweep_point *p);
double sweep_gbs(const sweep_point *p);

/* Requests a second with `flight` of them queued at once; an add of 4 KB. */
PROPANE_CHECK propane_status sweep_queue(const char *device, int flight, int rounds, double *per_second,
                                         bool *simulated, propane_error *err);

/* A request with an add of 4 KB, by the host's clock and by the engine's own. */
PROPANE_CHECK propane_status sweep_engine(const char *device, int64_t limit_ns, rig_time *out, propane_error *err);

#endif
