/* SPDX-License-Identifier: MIT
 * Owns the arithmetic of the estimate. It does not include protocol overhead (TCP/IP about 3 %, plus TLS and Flower's
 * messages), workers of unequal speed, and other traffic on the same line.
 */
#include "train/dist/worker_estimate.h"

#include <math.h>

#include "train/dist/allreduce_internal.h"

#define DAY_MS         86400e3
#define BITS           8.0
#define FLOWER_WAITS   4 /* sequential messages per round: request, reply, upload, acknowledgement */
#define STANDARD_BYTES (4 << 20)

const char *worker_way_name(worker_way way) {
    static const char *const names[] = {"data-parallel", "outer", "adapters"};
    return names[way];
}

const char *worker_bound_name(worker_bound bound) {
    static const char *const names[] = {"compute", "bandwidth", "latency"};
    return names[bound];
}

/* Returns the bytes per number, including its part of a shared scale. */
static double worker_number_bytes(allreduce_wire wire) {
    const int64_t many = INT64_C(1) << 24;
    return (double)allreduce_wire_bytes(wire, many) / (double)many;
}

double worker_sum_bytes(int64_t workers, allreduce_wire wire, double count) {
    return 2 * (double)(workers - 1) / (double)workers * count * worker_number_bytes(wire);
}

/* The cost of a sum over all workers. Buckets are sent while earlier ones are in flight, but a bucket must arrive
 * before its sums are sent back. */
typedef struct worker_sum {
    double bytes, bandwidth_ms, latency_ms;
} worker_sum;

static worker_sum worker_sum_of(const worker_question *q, allreduce_wire wire, double count) {
    const double full = (double)(q->bucket > 0 ? q->bucket : STANDARD_BYTES);
    const double buckets = ceil(count * (double)sizeof(float) / full);
    worker_sum s = {.bytes = worker_sum_bytes(q->workers, wire, count)};
    if (q->workers < 2) return s;
    s.bandwidth_ms = s.bytes * BITS / q->bandwidth * 1e3;
    s.latency_ms = (1 + buckets) * q->latency_ms;
    return s;
}

/* Fills in the cost of a step. `shown` is the part of the network time for which the step waits. */
static void worker_finish(const worker_question *q, worker_sum s, double shown, worker_cost *out) {
    const double all = s.bandwidth_ms + s.latency_ms, part = all > 0 ? shown / all : 0;
    const double band = s.bandwidth_ms * part, late = s.latency_ms * part;
    out->network_ms = all;
    out->step_ms = q->step_ms + shown;
    out->tokens_per_s = out->step_ms > 0 ? (double)q->workers * q->tokens * 1e3 / out->step_ms : 0;
    out->day_bytes = out->step_ms > 0 ? out->step_bytes * DAY_MS / out->step_ms : 0;
    out->use = out->step_ms > 0 ? q->step_ms / out->step_ms : 0;
    out->bound = q->step_ms >= band && q->step_ms >= late ? WORKER_COMPUTE
                 : band >= late                           ? WORKER_BANDWIDTH
                                                          : WORKER_LATENCY;
}

static worker_sum worker_share(worker_sum s, double steps) {
    return (worker_sum){s.bytes / steps, s.bandwidth_ms / steps, s.latency_ms / steps};
}

/* Gradients are sent while the backward pass runs. int4 applies only to outer steps; gradients are sent with at least
 * 16 bits. */
static void worker_data_parallel(const worker_question *q, worker_cost *out) {
    out->wire = q->wire == ALLREDUCE_INT4 ? ALLREDUCE_BF16 : q->wire;
    const worker_sum s = worker_sum_of(q, out->wire, q->parameters);
    const double all = s.bandwidth_ms + s.latency_ms;
    out->message_bytes = out->step_bytes = s.bytes;
    worker_finish(q, s, all > q->backward_ms ? all - q->backward_ms : 0, out);
}

static void worker_warm_up(const worker_question *q, worker_cost *out) {
    worker_cost step = {.way = WORKER_DATA_PARALLEL};
    worker_data_parallel(q, &step);
    out->warmup_bytes = (double)q->warmup * step.step_bytes;
    out->warmup_ms = (double)q->warmup * step.step_ms;
}

/* All workers wait at an outer step. */
static void worker_outer(const worker_question *q, worker_cost *out) {
    const worker_sum whole = worker_sum_of(q, q->wire, q->parameters), s = worker_share(whole, (double)q->every);
    out->message_bytes = whole.bytes;
    out->step_bytes = s.bytes;
    worker_finish(q, s, s.bandwidth_ms + s.latency_ms, out);
    worker_warm_up(q, out);
}

/* The server's line carries the adapters of all workers, first in one direction and then in the other. They are fp32,
 * as in the Flower records that Propane uses. */
static void worker_adapters(const worker_question *q, worker_cost *out) {
    const double one = q->adapters * (double)sizeof(float), every = (double)q->every;
    const worker_sum whole = {one, 2 * one * (double)q->workers * BITS / q->bandwidth * 1e3,
                              FLOWER_WAITS * q->latency_ms};
    const worker_sum s = worker_share(whole, every);
    out->wire = ALLREDUCE_FP32;
    out->message_bytes = one;
    out->step_bytes = s.bytes;
    worker_finish(q, s, s.bandwidth_ms + s.latency_ms, out);
    out->server_bytes = out->day_bytes * (double)q->workers;
}

static propane_status worker_check(const worker_question *q, propane_error *err) {
    if (q->workers < 1 || q->workers > 1000000)
        return propane_fail(err, PROPANE_ERR_INVALID, "the number of workers is %lld; it must be 1 to 1000000",
                            (long long)q->workers);
    if (!(q->bandwidth >= 1e3) || !(q->bandwidth <= 1e15))
        return propane_fail(err, PROPANE_ERR_INVALID, "the bandwidth is %g bits per second; it must be 1k to 1000T",
                            q->bandwidth);
    if (!(q->latency_ms >= 0) || !(q->latency_ms <= 1e6))
        return propane_fail(err, PROPANE_ERR_INVALID, "the latency is %g ms; it must be 0 to 1000000", q->latency_ms);
    if (q->every < 1)
        return propane_fail(err, PROPANE_ERR_INVALID, "the interval of outer steps is %lld; it must be at least 1",
                            (long long)q->every);
    if (q->warmup >= 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "the warm-up is %lld steps; it must not be negative",
                        (long long)q->warmup);
}

propane_status worker_estimate(const worker_question *q, worker_way way, worker_cost *out, propane_error *err) {
    static void (*const ways[])(const worker_question *, worker_cost *) = {worker_data_parallel, worker_outer,
                                                                           worker_adapters};
    *out = (worker_cost){.way = way, .wire = q->wire};
    PROPANE_TRY(worker_check(q, err));
    ways[way](q, out);
    return PROPANE_OK;
}
