/* SPDX-License-Identifier: MIT
 * The arithmetic of several workers against figures that were computed by hand.
 */
#include <math.h>

#include "support/test.h"
#include "train/dist/worker_estimate.h"

static propane_error err;

/* 8 workers, 100 million parameters, 1 s per step, including 0.6 s for the backward pass. */
static worker_question question(double bandwidth, double latency) {
    return (worker_question){.workers = 8,
                             .bandwidth = bandwidth,
                             .latency_ms = latency,
                             .wire = ALLREDUCE_FP32,
                             .every = 500,
                             .parameters = 1e8,
                             .adapters = 1e6,
                             .step_ms = 1000,
                             .backward_ms = 600,
                             .tokens = 256};
}

static void expect_near(double seen, double want, const char *what) {
    EXPECT_MSG(fabs(seen - want) <= 1e-9 * fabs(want), "%s: %.12g, expected %.12g", what, seen, want);
}

static worker_cost ask(const worker_question *q, worker_way way) {
    worker_cost w;
    EXPECT_OK(worker_estimate(q, way, &w, &err));
    return w;
}

TEST(bytes_of_a_sum) {
    expect_near(worker_sum_bytes(8, ALLREDUCE_FP32, 1e8), 700e6, "fp32");
    expect_near(worker_sum_bytes(2, ALLREDUCE_FP32, 1e8), 400e6, "two workers");
    EXPECT(worker_sum_bytes(1, ALLREDUCE_FP32, 1e8) == 0);
    EXPECT(fabs(worker_sum_bytes(8, ALLREDUCE_FP16, 1e8) / 350e6 - 1) < 1e-6);
    EXPECT(fabs(worker_sum_bytes(8, ALLREDUCE_INT4, 1e8) - 1.75e8 * (0.5 + 2.0 / 64)) < 1);
}

TEST(data_parallel_waits_for_what_the_backward_pass_does_not_hide) {
    worker_question q = question(1e9, 0);
    worker_cost w = ask(&q, WORKER_DATA_PARALLEL);
    expect_near(w.network_ms, 5600, "700 MB at 1 Gbit/s");
    expect_near(w.step_ms, 1000 + 5600 - 600, "step");
    expect_near(w.tokens_per_s, 8 * 256 / 6.0, "tokens");
    expect_near(w.day_bytes, 700e6 * 86400 / 6, "a day");
    EXPECT(w.bound == WORKER_BANDWIDTH);
    q = question(1e12, 0);
    w = ask(&q, WORKER_DATA_PARALLEL);
    EXPECT(w.step_ms == 1000 && w.use == 1 && w.bound == WORKER_COMPUTE);
    q = question(1e15, 40); /* 400 MB are 96 buckets of 4 MB, and each must arrive */
    w = ask(&q, WORKER_DATA_PARALLEL);
    EXPECT_MSG(fabs(w.step_ms - (1000 + 97 * 40 - 600)) < 1e-2, "step %g", w.step_ms);
    EXPECT(w.bound == WORKER_LATENCY);
    q = question(1e9, 0);
    q.wire = ALLREDUCE_INT4;
    EXPECT(ask(&q, WORKER_DATA_PARALLEL).wire == ALLREDUCE_BF16); /* int4 is for outer steps */
}

TEST(outer_steps_divide_by_their_distance) {
    worker_question q = question(20e6, 0);
    worker_cost w = ask(&q, WORKER_OUTER);
    expect_near(w.message_bytes, 700e6, "at a time");
    expect_near(w.step_bytes, 1.4e6, "a step");
    expect_near(w.step_ms, 1000 + 560, "280 s each 500 steps");
    EXPECT(w.bound == WORKER_COMPUTE);
    q.every = 100; /* 2800 ms of messages per step, which is longer than the step */
    w = ask(&q, WORKER_OUTER);
    expect_near(w.step_ms, 3800, "outer");
    EXPECT(w.bound == WORKER_BANDWIDTH);
}

TEST(a_warm_up_is_data_parallel) {
    worker_question q = question(20e6, 0);
    EXPECT(ask(&q, WORKER_OUTER).warmup_bytes == 0 && ask(&q, WORKER_OUTER).warmup_ms == 0);
    q.warmup = 100;
    const worker_cost outer = ask(&q, WORKER_OUTER);
    expect_near(outer.warmup_bytes, 100 * 700e6, "bytes");
    expect_near(outer.warmup_ms, 100 * (1000 + 280000 - 600), "280 s of messages a step");
    expect_near(outer.step_bytes, 1.4e6, "a step after it");
    EXPECT(ask(&q, WORKER_ADAPTERS).warmup_bytes == 0);
    q.wire = ALLREDUCE_INT4; /* gradients have 16 bits */
    EXPECT_MSG(fabs(ask(&q, WORKER_OUTER).warmup_bytes / (100 * 350e6) - 1) < 1e-6, "int4");
}

TEST(adapters_go_through_the_servers_line) {
    worker_question q = question(20e6, 0);
    const worker_cost w = ask(&q, WORKER_ADAPTERS);
    expect_near(w.message_bytes, 4e6, "a round");
    /* 8 times 4 MB, down and up, over 20 Mbit/s: 25.6 s in 500 steps */
    expect_near(w.step_ms, 1000 + 51.2 / 2 / 500 * 1e3, "step");
    expect_near(w.server_bytes, 8 * w.day_bytes, "server");
}

TEST(what_cannot_be) {
    worker_question q = question(0, 0);
    worker_cost w;
    EXPECT_FAIL(worker_estimate(&q, WORKER_OUTER, &w, &err), PROPANE_ERR_INVALID, "bandwidth is 0");
    q = question(NAN, 0);
    EXPECT_FAIL(worker_estimate(&q, WORKER_OUTER, &w, &err), PROPANE_ERR_INVALID, "the bandwidth is");
    q = question(1e9, -1);
    EXPECT_FAIL(worker_estimate(&q, WORKER_OUTER, &w, &err), PROPANE_ERR_INVALID, "the latency is -1");
    q = question(1e9, 0), q.workers = 0;
    EXPECT_FAIL(worker_estimate(&q, WORKER_OUTER, &w, &err), PROPANE_ERR_INVALID, "the number of workers is 0");
    q = question(1e9, 0), q.warmup = -1;
    EXPECT_FAIL(worker_estimate(&q, WORKER_OUTER, &w, &err), PROPANE_ERR_INVALID, "the warm-up is -1");
    q = question(1e9, 0), q.every = 0;
    EXPECT_FAIL(worker_estimate(&q, WORKER_OUTER, &w, &err), PROPANE_ERR_INVALID, "outer steps is 0");
    q = question(1e9, 5), q.workers = 1;
    EXPECT(ask(&q, WORKER_DATA_PARALLEL).step_ms == 1000);
}

SUITE("train/worker_estimate", T(bytes_of_a_sum), T(data_parallel_waits_for_what_the_backward_pass_does_not_hide),
      T(outer_steps_divide_by_their_distance), T(a_warm_up_is_data_parallel), T(adapters_go_through_the_servers_line),
      T(what_cannot_be))
