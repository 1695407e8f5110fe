/* SPDX-License-Identifier: MIT
 * Owns the measured kernels. Numbers stay small and are not all zero, because an engine may be faster with zeros.
 */
#include "apps/ane-lab/probe/microbench.h"

#include "core/base/clock.h"
#include "core/base/float16.h"
#include "core/base/memory.h"

enum { ROUNDS = 50, COLUMNS = 32, MAX_FLIGHT = 127 };

double sweep_gflops(const sweep_point *p) { return p->time.median_ns ? p->flops / (double)p->time.median_ns : 0; }
double sweep_gbs(const sweep_point *p) { return p->time.median_ns ? p->bytes / (double)p->time.median_ns : 0; }

static mil_type microbench_shape(int64_t a, int64_t b, int64_t c, int64_t d) {
    return mil_type_tensor(MIL_fp16, 4, (int64_t[]){a, b, c, d});
}

/* Makes weights that roughly preserve a signal's size: few entries per row are not 0. */
static mil_value *microbench_make_weight(mil_builder *b, int64_t n) {
    mil_type type = microbench_shape(n, n, 1, 1);
    uint16_t *data = mem_array((size_t)(n * n), sizeof *data);
    for (int64_t k = 0; data && k < n * n; k++)
        data[k] = fp16_from_f32(k % n == k / n ? 0.5f : (k * 31 % 97) == 0 ? 0.0078125f : 0);
    mil_value *w = data ? mil_build_const(b, "w", &type, data) : NULL;
    mem_free(data);
    return w;
}

static mil_value *microbench_build_conv(mil_builder *b, sweep_point *p) {
    mil_value *x = mil_build_param(b, "x", microbench_shape(1, p->n, 1, p->m));
    for (int k = 0; k < p->depth; k++) {
        mil_value *w = microbench_make_weight(b, p->n);
        x = w && x ? mil_build_conv1x1(b, x, w) : NULL;
    }
    p->flops = 2.0 * (double)p->n * (double)p->n * (double)p->m * p->depth;
    p->bytes = 2.0 * ((double)p->n * (double)p->n * p->depth + 2.0 * (double)p->n * (double)p->m);
    return x;
}

static mil_value *microbench_build_matmul(mil_builder *b, sweep_point *p) {
    mil_value *x = mil_build_param(b, "x", microbench_shape(1, 1, p->n, p->m)),
              *w = mil_build_param(b, "w", microbench_shape(1, 1, p->m, p->m));
    for (int k = 0; k < p->depth && x; k++) x = mil_build_matmul(b, x, w, false, false);
    p->flops = 2.0 * (double)p->n * (double)p->m * (double)p->m * p->depth;
    p->bytes = 2.0 * ((double)p->m * (double)p->m + 2.0 * (double)p->n * (double)p->m);
    return x;
}

static mil_value *microbench_build_stream(mil_builder *b, sweep_point *p) {
    mil_value *w = mil_build_param(b, "w", microbench_shape(1, 1, p->n, p->n)),
              *x = mil_build_param(b, "x", microbench_shape(1, 1, p->n, COLUMNS));
    p->m = COLUMNS;
    p->flops = 2.0 * (double)p->n * (double)p->n * COLUMNS;
    p->bytes = 2.0 * ((double)p->n * (double)p->n + 2.0 * (double)p->n * COLUMNS);
    return mil_build_matmul(b, w, x, false, false);
}

propane_status sweep_measure(const char *device, sweep_point *p, int64_t limit_ns, propane_error *err) {
    mil_builder b = {0};
    rig r = {0};
    mil_module *m = mil_module_create("bench");
    if (!m) return propane_fail_memory(err, 0);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_value *y = p->kind == SWEEP_CONV     ? microbench_build_conv(&b, p)
                   : p->kind == SWEEP_MATMUL ? microbench_build_matmul(&b, p)
                                             : microbench_build_stream(&b, p);
    propane_status status = y || b.err.status ? PROPANE_OK : propane_fail_memory(err, 0);
    if (y) mil_build_result(&b, y);
    if (status == PROPANE_OK) status = mil_build_end(&b, err);
    if (status == PROPANE_OK) status = rig_open(&r, device, m, err);
    mil_module_free(m);
    for (int i = 0; i < r.run.inputs && status == PROPANE_OK; i++) status = rig_put(&r, i, NULL, err);
    if (status == PROPANE_OK) status = rig_measure(&r, ROUNDS, limit_ns, &p->time, err);
    rig_close(&r);
    return status;
}

static const char add_body[] = "tensor<fp16, [1, 64, 1, 32]> x, tensor<fp16, [1, 64, 1, 32]> y) {\n"
                               "        tensor<fp16, [1, 64, 1, 32]> z = add(x = x, y = y)[name = string(\"z\")];\n"
                               "    } -> (z);\n";

/* Each request has separate buffers, so that only the device orders the requests. */
static propane_status microbench_fill_queue(rig *r, int flight, runner *list, propane_request **requests,
                                            propane_error *err) {
    for (int k = 0; k < flight; k++) {
        PROPANE_TRY(runner_open(&list[k], r->device, r->program, NULL, NULL, err));
        requests[k] = list[k].request;
    }
    return PROPANE_OK;
}

static propane_status microbench_time_queue(int flight, int rounds, propane_request *const *requests,
                                            double *per_second, bool *simulated, propane_error *err) {
    int64_t begin = clock_ns(), modelled = 0;
    for (int n = -1; n < rounds; n++) {
        if (n == 0) begin = clock_ns(); /* the first round warms up */
        PROPANE_TRY(propane_submit(requests, flight, err));
        for (int k = 0; k < flight; k++) {
            propane_completion done = {.size = sizeof done};
            PROPANE_TRY(propane_wait(requests[k], &done, err));
            *simulated = done.simulated;
            if (n >= 0) modelled += done.device_ns;
        }
    }
    double seconds = (double)(*simulated ? modelled : clock_ns() - begin) / 1e9;
    *per_second = seconds > 0 ? (double)rounds * flight / seconds : 0;
    return PROPANE_OK;
}

propane_status sweep_queue(const char *device, int flight, int rounds, double *per_second, bool *simulated,
                           propane_error *err) {
    runner list[MAX_FLIGHT] = {{0}};
    propane_request *requests[MAX_FLIGHT] = {NULL};
    rig r = {0};
    if (flight > MAX_FLIGHT) flight = MAX_FLIGHT;
    propane_status status = rig_open_text(&r, device, add_body, err);
    if (status == PROPANE_OK) status = microbench_fill_queue(&r, flight, list, requests, err);
    if (status == PROPANE_OK) status = microbench_time_queue(flight, rounds, requests, per_second, simulated, err);
    for (int k = 0; k < flight; k++) runner_close(&list[k]);
    rig_close(&r);
    return status;
}

propane_status sweep_engine(const char *device, int64_t limit_ns, rig_time *out, propane_error *err) {
    rig r = {0};
    char uri[300];
    propane_status status = rig_open_text(&r, rig_statistics_uri(device, uri), add_body, err);
    if (status == PROPANE_OK) status = rig_measure(&r, ROUNDS, limit_ns, out, err);
    rig_close(&r);
    return status;
}
