/* SPDX-License-Identifier: MIT
 * Measures a device for the bench and the probe: chains of 1x1 convolutions and of matrix products, and the reading of
 * weights.
 */
#ifndef APPS_ANE_LAB_PROBE_MICROBENCH_H
#define APPS_ANE_LAB_PROBE_MICROBENCH_H

#include "apps/ane-lab/probe/testbench.h"

typedef enum sweep_kind {
    SWEEP_CONV,   /* `depth` 1x1 convolutions, constant weights, [1, n, 1, m] */
    SWEEP_MATMUL, /* `depth` matrix products of [n, m] with [m, m] inputs */
    SWEEP_STREAM  /* [n, n] weights times 32 columns: bound by reading the weights */
} sweep_kind;

typedef struct sweep_point {
    sweep_kind kind;
    int64_t n, m;
    int depth;
    double flops, bytes; /* per run; `bytes` counts weights, inputs and outputs once */
    rig_time time;
} sweep_point;

PROPANE_CHECK propane_status sweep_measure(const char *device, sweep_point *p, int64_t limit_ns, propane_error *err);
double sweep_gflops(const sweep_point *p);
double sweep_gbs(const sweep_point *p);

/* Sets *per_second to the requests per second with `flight` requests queued at once. Each request adds two inputs of 4
 * KB. */
PROPANE_CHECK propane_status sweep_queue(const char *device, int flight, int rounds, double *per_second,
                                         bool *simulated, propane_error *err);

/* Times a request that adds two inputs of 4 KB, by the host's clock and by the engine's. */
PROPANE_CHECK propane_status sweep_engine(const char *device, int64_t limit_ns, rig_time *out, propane_error *err);

#endif
