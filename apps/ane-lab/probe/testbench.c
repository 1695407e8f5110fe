/* SPDX-License-Identifier: MIT
 * Runs and times one program for the probe and the bench.
 */
#include "apps/ane-lab/probe/testbench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/device/uri.h"

enum { MAX_ROUNDS = 1000 };

const propane_io *rig_io(const rig *r, int index) { return runner_io(&r->run, index); }

propane_status rig_open(rig *r, const char *uri, const mil_module *m, propane_error *err) {
    *r = (rig){0};
    PROPANE_TRY(propane_device_open(uri, &r->device, err));
    PROPANE_TRY(propane_program_compile(r->device, m, NULL, &r->program, err));
    return runner_open(&r->run, r->device, r->program, NULL, NULL, err);
}

propane_status rig_module(const char *body, mil_module **out, propane_error *err) {
    text t = {0};
    text_printf(&t,
                "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}, "
                "{\"coremlc-version\", \"3505.4.1\"}})]\n{\n    func main<ios18>(%s}\n",
                body);
    propane_status status = t.failed ? propane_fail_memory(err, t.length)
                                     : propane_module_parse(t.data, t.length, "question", NULL, out, err);
    text_deinit(&t);
    return status;
}

propane_status rig_open_text(rig *r, const char *uri, const char *body, propane_error *err) {
    mil_module *m = NULL;
    *r = (rig){0};
    PROPANE_TRY(rig_module(body, &m, err));
    propane_status status = rig_open(r, uri, m, err);
    mil_module_free(m);
    return status;
}

void rig_close(rig *r) {
    runner_close(&r->run);
    propane_program_free(r->program);
    propane_device_close(r->device);
    *r = (rig){0};
}

propane_status rig_put(rig *r, int input, const float *values, propane_error *err) {
    const propane_io *io = rig_io(r, input);
    int64_t count = propane_io_count(io);
    if (values) return runner_write(&r->run, input, PROPANE_FP32, values, err);
    float *pattern = mem_array((size_t)count, sizeof *pattern);
    if (!pattern) return propane_fail_memory(err, (size_t)count * sizeof *pattern);
    for (int64_t k = 0; k < count; k++) pattern[k] = (float)(k * 37 % 17 - 8) / 64;
    propane_status status = runner_write(&r->run, input, PROPANE_FP32, pattern, err);
    mem_free(pattern);
    return status;
}

propane_status rig_take(rig *r, int output, float *values, propane_error *err) {
    return runner_read(&r->run, r->run.inputs + output, PROPANE_FP32, values, err);
}

propane_status rig_run(rig *r, propane_error *err) { return runner_run(&r->run, NULL, err); }

static int testbench_by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

propane_status rig_measure(rig *r, int rounds, int64_t limit_ns, rig_time *out, propane_error *err) {
    int64_t *ns = mem_array(MAX_ROUNDS, sizeof *ns), start = clock_ns();
    propane_completion done = {.size = sizeof done};
    *out = (rig_time){.engine_ns = -1};
    if (!ns) return propane_fail_memory(err, MAX_ROUNDS * sizeof *ns);
    propane_status status = runner_run(&r->run, &done, err);
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    while (status == PROPANE_OK && out->rounds < rounds && (out->rounds == 0 || clock_ns() - start < limit_ns)) {
        int64_t begin = clock_ns();
        status = runner_run(&r->run, &done, err);
        if (done.engine_ns >= 0 && (out->engine_ns < 0 || done.engine_ns < out->engine_ns))
            out->engine_ns = done.engine_ns;
        ns[out->rounds++] = done.simulated ? done.device_ns : clock_ns() - begin;
    }
    if (status == PROPANE_OK && out->rounds) {
        qsort(ns, (size_t)out->rounds, sizeof *ns, testbench_by_size);
        out->best_ns = ns[0];
        out->median_ns = ns[out->rounds / 2];
        out->simulated = done.simulated;
    }
    mem_free(ns);
    return status;
}
