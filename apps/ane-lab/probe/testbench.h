/* SPDX-License-Identifier: MIT
 * One program on a device with a buffer for each input and output, which the probe and the bench run.
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

/* Opens `uri` and compiles. Call rig_close whatever the status. The module still belongs to the caller. */
PROPANE_CHECK propane_status rig_open(rig *r, const char *uri, const mil_module *m, propane_error *err);
/* Makes a program of one function. `body` is the text between func main<ios18>( and the closing brace. Release it with
 * propane_module_free. */
PROPANE_CHECK propane_status rig_module(const char *body, mil_module **out, propane_error *err);
/* Does rig_open with such a program. */
PROPANE_CHECK propane_status rig_open_text(rig *r, const char *uri, const char *body, propane_error *err);
void rig_close(rig *r);
const propane_io *rig_io(const rig *r, int index);
/* Writes dense fp32 values; NULL `values` means a pattern of small numbers. */
PROPANE_CHECK propane_status rig_put(rig *r, int input, const float *values, propane_error *err);
PROPANE_CHECK propane_status rig_take(rig *r, int output, float *values, propane_error *err);
PROPANE_CHECK propane_status rig_run(rig *r, propane_error *err);

typedef struct rig_time {
    int64_t best_ns, median_ns;
    int64_t engine_ns; /* the best, by the engine's clock; negative if not provided */
    int rounds;
    bool simulated; /* measured by a model's clock, not by this machine's */
} rig_time;

/* Runs once to warm up, then up to `rounds` times within `limit_ns` of real time. */
PROPANE_CHECK propane_status rig_measure(rig *r, int rounds, int64_t limit_ns, rig_time *out, propane_error *err);

#endif
