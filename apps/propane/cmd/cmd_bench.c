/* SPDX-License-Identifier: MIT
 * propane bench: measures a device with sweeps over the size and depth of matrix products and convolutions, the reading
 * of weights, and the queue. A sweep ends with a message after a point that takes longer than --seconds, or if a point
 * is refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "apps/ane-lab/probe/microbench.h"
#include "apps/propane/cli.h"

typedef struct bench_sweep {
    const char *name, *about;
    sweep_kind kind;
    bool deep; /* the sweep increases the depth instead of the size */
    int64_t n, m;
    int steps;
} bench_sweep;

static const bench_sweep sweeps[] = {
    {"matmul", "matrix product of two inputs, n by n", SWEEP_MATMUL, false, 64, 0, 7},
    {"conv", "1x1 convolution, n channels, n positions, constant weights", SWEEP_CONV, false, 64, 0, 6},
    {"depth", "chain of 1x1 convolutions, 256 channels, 1,024 positions", SWEEP_CONV, true, 256, 1024, 8},
    {"stream", "n by n weights, passed as an input, times 32 columns", SWEEP_STREAM, false, 256, 32, 6},
};
enum { SWEEPS = sizeof sweeps / sizeof sweeps[0] };

typedef struct bench_job {
    const char *device;
    bool json;
    double seconds; /* time for one point */
} bench_job;

static void cmd_bench_print_point(const bench_job *j, const char *sweep, const sweep_point *p) {
    double us = (double)p->time.median_ns / 1000, best = (double)p->time.best_ns / 1000;
    if (j->json)
        printf("{\"sweep\":\"%s\",\"n\":%lld,\"m\":%lld,\"depth\":%d,\"median_us\":%.3f,\"best_us\":%.3f,\"rounds\":%d,"
               "\"gflops\":%.3f,\"gb_per_s\":%.3f,\"simulated\":%s}\n",
               sweep, (long long)p->n, (long long)p->m, p->depth, us, best, p->time.rounds, sweep_gflops(p),
               sweep_gbs(p), p->time.simulated ? "true" : "false");
    else
        printf("  %6lld %6lld %6d %12.1f %12.1f %10.1f %9.2f%s\n", (long long)p->n, (long long)p->m, p->depth, us, best,
               sweep_gflops(p), sweep_gbs(p), p->time.simulated ? "  simulated" : "");
}

static void cmd_bench_print_end(const bench_job *j, const char *sweep, const char *why) {
    if (j->json)
        fprintf(stderr, "propane bench: %s ends: %s\n", sweep, why);
    else
        printf("  ends here: %s\n", why);
}

static void cmd_bench_run_sweep(const bench_job *j, const bench_sweep *s) {
    if (!j->json)
        printf("\n%s: %s\n  %6s %6s %6s %12s %12s %10s %9s\n", s->name, s->about, "n", "m", "depth", "median us",
               "best us", "GFLOP/s", "GB/s");
    for (int k = 0; k < s->steps && !cli_interrupted; k++) {
        propane_error err = {0};
        int64_t n = s->deep ? s->n : s->n << k;
        sweep_point p = {.kind = s->kind, .n = n, .m = s->m ? s->m : n, .depth = s->deep ? 1 << k : 1};
        if (sweep_measure(j->device, &p, (int64_t)(j->seconds * 1e9), &err) != PROPANE_OK) {
            cmd_bench_print_end(j, s->name, err.text);
            return;
        }
        cmd_bench_print_point(j, s->name, &p);
        if ((double)p.time.median_ns / 1e9 > j->seconds && !p.time.simulated) {
            cmd_bench_print_end(j, s->name, "a run takes longer than --seconds");
            return;
        }
        if (!cli_flush()) return;
    }
}

static void cmd_bench_run_queue(const bench_job *j) {
    if (!j->json)
        printf("\nqueue: additions of 4 KB, with several requests queued at once\n  %9s %14s %14s\n", "in flight",
               "requests/s", "us each");
    for (int flight = 1; flight <= 64 && !cli_interrupted; flight *= 4) {
        propane_error err = {0};
        double rate = 0;
        bool simulated = false;
        if (sweep_queue(j->device, flight, 256 / flight, &rate, &simulated, &err) != PROPANE_OK) {
            cmd_bench_print_end(j, "queue", err.text);
            return;
        }
        if (j->json)
            printf("{\"sweep\":\"queue\",\"in_flight\":%d,\"per_second\":%.1f,\"simulated\":%s}\n", flight, rate,
                   simulated ? "true" : "false");
        else
            printf("  %9d %14.0f %14.2f%s\n", flight, rate, rate > 0 ? 1e6 / rate : 0, simulated ? "  simulated" : "");
    }
}

/* Prints the time of a small request, by the host's clock and by the engine's clock if the engine reports it. */
static void cmd_bench_run_engine(const bench_job *j) {
    propane_error err = {0};
    rig_time time;
    if (!j->json) printf("\nengine: an addition of 4 KB, timed by the host and by the engine\n");
    if (sweep_engine(j->device, (int64_t)(j->seconds * 1e9), &time, &err) != PROPANE_OK) {
        cmd_bench_print_end(j, "engine", err.text);
        return;
    }
    char engine[60] = "null";
    if (time.engine_ns >= 0) snprintf(engine, sizeof engine, "%.3f", (double)time.engine_ns / 1000);
    if (j->json)
        printf("{\"sweep\":\"engine\",\"median_us\":%.3f,\"best_us\":%.3f,\"engine_us\":%s,\"simulated\":%s}\n",
               (double)time.median_ns / 1000, (double)time.best_ns / 1000, engine, time.simulated ? "true" : "false");
    else
        printf("  %.2f us (at best %.2f); engine's own time: %s%s\n", (double)time.median_ns / 1000,
               (double)time.best_ns / 1000, time.engine_ns >= 0 ? engine : "not reported by this engine",
               time.engine_ns >= 0 ? " us at best" : "");
}

int cmd_bench(int argc, char **argv) {
    bench_job j = {.device = "cpu", .seconds = 0.3};
    const char *only = "all";
    const cli_flag flags[] = {
        {"--device", CLI_TEXT, &j.device, .words = "URI", .help = "device to measure (see 'propane devices')"},
        {"--sweep", CLI_CHOICE, &only, .words = "all|matmul|conv|depth|stream|queue|engine", .help = "sweep to run"},
        {"--seconds", CLI_REAL, &j.seconds, 0.001, 3600, "X", "seconds per point; at least one run"},
        {"--json", CLI_SWITCH, &j.json, .help = "print one JSON object per point"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "bench [flags]",
                         "Measures a device: matrix products and convolutions by size and depth, weight streaming, and "
                         "the request queue. Figures from a simulated device are modelled, and are marked as such.");
    if (code >= 0) return code;
    propane_error err = {0};
    propane_device *d = NULL;
    if (propane_device_open(j.device, &d, &err) != PROPANE_OK) return cli_error("bench", &err);
    if (!j.json) printf("%s: %s\n", j.device, propane_device_describe(d)->summary);
    propane_device_close(d);
    cli_catch_signals();
    bool all = strcmp(only, "all") == 0;
    for (int i = 0; i < SWEEPS && !cli_interrupted; i++)
        if (all || strcmp(only, sweeps[i].name) == 0) cmd_bench_run_sweep(&j, &sweeps[i]);
    if ((all || strcmp(only, "queue") == 0) && !cli_interrupted) cmd_bench_run_queue(&j);
    if ((all || strcmp(only, "engine") == 0) && !cli_interrupted) cmd_bench_run_engine(&j);
    return cli_interrupted ? cli_interrupt_code() : CLI_OK;
}
