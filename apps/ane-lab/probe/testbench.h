/* SPDX-License-Identifier: MIT
 * Runs and times one program on a device, with a buffer for each input and output, for the probe and the bench.
 */
#ifndef APPS_ANE_LAB_PROBE_TESTBENCH_H
#define APPS_ANE_LAB_PROBE_TESTBENCH_H

#include "apps/ane-lab/probe/statistics_uri.h"
#include "core/device/runner.h"
#include "core/mil/build.h"

typedef struct rig {
    propane_device *device;
    propane_program *program;
    runner run;
} rig;

/* Opens the device `uri` and compiles `m`, which still belongs to the caller. Call rig_close even after a failure. */
PROPANE_CHECK propane_status rig_open(rig *r, const char *uri, const mil_module *m, propane_error *err);
/* Sets *out to a program of one function. `body` is the text from after "func main<ios18>(" to before the program's
 * closing brace. Release the program with propane_module_free. */
PROPANE_CHECK propane_status rig_module(const char *body, mil_module **out, propane_error *err);
/* Makes such a program and calls rig_open with it. */
PROPANE_CHECK propane_status rig_open_text(rig *r, const char *uri, const char *body, propane_error *err);
void rig_close(rig *r);
const propane_io *rig_io(const rig *r, int index);
/* Writes dense fp32 values. If `values` is NULL, writes a pattern of small numbers. */
PROPANE_CHECK propane_status rig_put(rig *r, int input, const float *values, propane_error *err);
PROPANE_CHECK propane_status rig_take(rig *r, int output, float *values, propane_error *err);
PROPANE_CHECK propane_status rig_run(rig *r, propane_error *err);

typedef struct rig_time {
    int64_t best_ns, median_ns;
    int64_t engine_ns; /* the best round by the engine's clock; negative if the device reports none */
    int rounds;
    bool simulated; /* measured by a model's clock, not by this machine's */
} rig_time;

/* Runs once to warm up, then up to `rounds` times (at least once) within `limit_ns` of real time. */
PROPANE_CHECK propane_status rig_measure(rig *r, int rounds, int64_t limit_ns, rig_time *out, propane_error *err);

#endif
