/* SPDX-License-Identifier: MIT
 * propane run MODEL: runs a program in any form on any device: arrays and pictures in, arrays out, and how long it took.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/cmd/run_compiled.h"
#include "cli/cmd/run_profile.h"
#include "cli/cmd/show_compiled.h"
#include "cli/device_lab/testbench.h"
#include "device/device.h"
#include "device/uri.h"
#include "drivers/cpu/profile.h"
#include "run/session.h"

enum { MAX_GIVEN = 64 };

typedef struct run_job {
    const char *model, *output, *trace;
    session_options session;
    char *inputs[MAX_GIVEN], *shapes[MAX_GIVEN];
    cli_list input_list, shape_list;
    int64_t seed, iterations, warmup;
    bool profile, json, resize, iterations_given;
    session_inputs given;
    mil_shape_choice choices[MAX_GIVEN];
    char *names[MAX_GIVEN];
} run_job;

/* ---- times ------------------------------------------------------------------------------------------------------------------- */

static int cmd_run_by_size(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The time that a share of the runs did not exceed. */
static double cmd_run_quantile_ms(const int64_t *sorted, int64_t count, double share) {
    int64_t at = (int64_t)(share * (double)count + 0.999999) - 1;
    return (double)sorted[at < 0 ? 0 : at >= count ? count - 1 : at] / 1e6;
}

static void cmd_run_print_times(const run_job *j, int64_t *ns, bool simulated) {
    qsort(ns, (size_t)j->iterations, sizeof *ns, cmd_run_by_size);
    const int64_t n = j->iterations;
    const double median = cmd_run_quantile_ms(ns, n, 0.5), p90 = cmd_run_quantile_ms(ns, n, 0.9),
                 p99 = cmd_run_quantile_ms(ns, n, 0.99);
    const double least = (double)ns[0] / 1e6;
    if (j->json)
        printf("{\"runs\":%" PRId64
               ",\"min_ms\":%.6f,\"median_ms\":%.6f,\"p90_ms\":%.6f,\"p99_ms\":%.6f,\"simulated\":%s}\n",
               n, least, median, p90, p99, simulated ? "true" : "false");
    else
        printf("%" PRId64 " run%s%s: min %.3f ms, median %.3f ms, p90 %.3f ms, p99 %.3f ms\n", n, n == 1 ? "" : "s",
               simulated ? " (times of a model, not of a clock)" : "", least, median, p90, p99);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------------------- */

/* A class's name, or its number. */
static void cmd_run_print_class(const mil_const *classes, int64_t index) {
    if (classes->type.dtype == MIL_string)
        printf("%s", mil_const_text(classes, index));
    else
        printf("%" PRId64, mil_const_i64(classes, index));
}

/* A classifier's label, and the five classes with the largest values. */
static propane_status cmd_run_print_classes(session *s, propane_error *err) {
    for (int i = 0; i < s->outputs; i++) {
        const propane_io *io = NULL;
        float *values = NULL;
        int64_t count = 0;
        if (strcmp(s->run.bindings[s->inputs + i].name, s->probabilities) != 0) continue;
        PROPANE_TRY(session_output(s, i, &io, &values, &count, err));
        for (int k = 0; k < 5 && k < count; k++) {
            int64_t best = 0;
            for (int64_t at = 1; at < count; at++)
                if (!(values[at] <= values[best])) best = at;
            if (k == 0) {
                printf("%s: ", s->label);
                cmd_run_print_class(s->classes, best);
                printf("\n");
            }
            printf("  %-12.6g ", (double)values[best]);
            cmd_run_print_class(s->classes, best);
            printf("\n");
            values[best] = -INFINITY;
        }
        mem_free(values);
    }
    return PROPANE_OK;
}

static propane_status cmd_run_print_outputs(session *s, propane_error *err) {
    for (int i = 0; i < s->outputs; i++) {
        const propane_io *io = NULL;
        float *values = NULL;
        int64_t count = 0;
        double sum = 0, low = 0, high = 0;
        PROPANE_TRY(session_output(s, i, &io, &values, &count, err));
        for (int64_t k = 0; k < count; k++) {
            const double v = (double)values[k];
            sum += v;
            low = k == 0 || v < low ? v : low;
            high = k == 0 || v > high ? v : high;
        }
        printf("output %s [", io->name);
        for (int d = 0; d < io->rank; d++) printf("%s%lld", d ? ", " : "", (long long)io->dim[d]);
        printf("]: min %.6g, max %.6g, mean %.6g\n", low, high, count ? sum / (double)count : 0.0);
        mem_free(values);
    }
    return s->classes ? cmd_run_print_classes(s, err) : PROPANE_OK;
}

/* An engine keeps no record of its steps; what it may tell is the time of the whole. */
static void cmd_run_show_engine(FILE *out, const int64_t *ns, int64_t iterations, int64_t engine_ns, int64_t given) {
    double host = 0;
    for (int64_t i = 0; i < iterations; i++) host += (double)ns[i];
    fprintf(out, "the host's clock: %.4f ms a run; the engine's own time: ", host / (double)iterations / 1e6);
    if (given)
        fprintf(out, "%.4f ms a run (%lld of %lld runs)\n", (double)engine_ns / (double)given / 1e6, (long long)given,
                (long long)iterations);
    else
        fprintf(out, "not given by this engine\n");
}

/* ---- the job ------------------------------------------------------------------------------------------------------------------ */

static propane_status cmd_run_measure(run_job *j, session *s, propane_error *err) {
    const bool engine = device_is(j->session.device, "ane"), profiled = (j->profile || j->trace) && !engine;
    int64_t engine_ns = 0, given = 0;
    int64_t *ns = mem_array((size_t)j->iterations, sizeof *ns), unused;
    if (!ns) return propane_fail_memory(err, (size_t)j->iterations * sizeof *ns);
    propane_status status = PROPANE_OK;
    for (int64_t i = 0; i < j->warmup && !status; i++) status = session_run(s, &unused, err);
    if (profiled) {
        cpu_profile_enable(&s->program->p, true);
        cpu_profile_reset(&s->program->p);
    }
    for (int64_t i = 0; i < j->iterations && !status && !cli_interrupted; i++) {
        if (s->steps) status = session_step(s, &j->given, i % s->steps, err);
        if (!status) status = session_run(s, &ns[i], err);
        if (!status && s->engine_ns >= 0) engine_ns += s->engine_ns, given++;
        if (!status && s->steps && j->output) status = session_keep(s, i % s->steps, err);
    }
    if (!status && !cli_interrupted) cmd_run_print_times(j, ns, propane_device_describe(s->device)->simulated);
    if (!status && profiled && j->profile) status = run_profile_print(s, j->json ? stderr : stdout, err);
    if (!status && profiled && j->trace) status = run_profile_trace(s, j->model, j->trace, err);
    if (!status && engine && j->profile && !cli_interrupted)
        cmd_run_show_engine(j->json ? stderr : stdout, ns, j->iterations, engine_ns, given);
    mem_free(ns);
    return status;
}

static propane_status cmd_run_model(run_job *j, session *s, propane_error *err) {
    for (int i = 0; i < j->input_list.count; i++)
        PROPANE_TRY(session_inputs_add(&j->given, j->input_list.items[i], err));
    if (show_compiled_is(j->model)) return run_compiled(j->model, &j->given, j->seed, j->output, err);
    for (int i = 0; i < j->shape_list.count; i++) {
        PROPANE_TRY(session_shape(j->shape_list.items[i], &j->choices[i], &j->names[i], err));
        j->session.shapes.shape_count = i + 1;
    }
    j->session.shapes.shapes = j->choices;
    char uri[300];
    if (j->profile) j->session.device = rig_statistics_uri(j->session.device, uri);
    PROPANE_TRY(session_open(s, j->model, &j->session, err));
    if ((j->trace || (j->profile && !device_is(j->session.device, "ane"))) && !device_is(j->session.device, "cpu"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--profile and --trace are for the cpu device; %s keeps no such "
                            "record",
                            j->session.device);
    s->resize = j->resize;
    PROPANE_TRY(session_fill(s, &j->given, j->seed, err));
    if (s->steps && !j->iterations_given) j->iterations = s->steps;
    PROPANE_TRY(cmd_run_measure(j, s, err));
    if (!j->json && !j->session.keep) PROPANE_TRY(cmd_run_print_outputs(s, err));
    if (!j->output) return PROPANE_OK;
    PROPANE_TRY(session_write(s, j->output, err));
    if (!j->json) printf("%d array%s in %s\n", s->outputs, s->outputs == 1 ? "" : "s", j->output);
    return PROPANE_OK;
}

int cmd_run(int argc, char **argv) {
    run_job j = {.session = {.device = "cpu", .precision = "typed"}, .seed = -1, .iterations = 1};
    int64_t threads = 0;
    j.input_list.items = j.inputs;
    j.shape_list.items = j.shapes;
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &j.model,
         .help = "a package (.mlpackage), a compiled model (.mlmodelc), an .mlmodel, MIL text, a compiled program "
                 "(.hwx, .anec: its registers are executed in software)",
         .required = true},
        {"--input", CLI_TEXTS, &j.input_list, .max = MAX_GIVEN, .words = "NAME=FILE",
         .help = "an array (.npy) or a picture (.png, .jpg); FILE.npz: several; an array with one more dimension in "
                 "front: a "
                 "value for each of several runs"},
        {"--resize", CLI_SWITCH, &j.resize, .help = "scale pictures to the input's size"},
        {"--seed", CLI_INT, &j.seed, 0, 1e15, "N", "random numbers for the inputs that are not given"},
        {"--output", CLI_TEXT, &j.output, .words = "DIR", .help = "write each output as DIR/NAME.npy, states too"},
        {"--keep", CLI_SWITCH, &j.session.keep, .help = "every value that the program computes is an output"},
        {"--function", CLI_TEXT, &j.session.function, .words = "NAME", .help = "of a model with several"},
        {"--shape", CLI_TEXTS, &j.shape_list, .max = MAX_GIVEN, .words = "NAME=1,3,224,224",
         .help = "of an input that the file leaves open; its default"},
        {"--device", CLI_TEXT, &j.session.device, .words = "DEVICE", .help = "cpu, sim:m4, ane, ..."},
        {"--precision", CLI_CHOICE, &j.session.precision, .words = "typed|fp16|fp32|bf16",
         .help = "typed, fp16: as the program says; fp32: every fp16 becomes fp32; bf16: products of bfloat16"},
        {"--threads", CLI_INT, &threads, 0, 1024, "N", "0: all cores"},
        {NULL, CLI_HEADING, NULL, .help = "times:"},
        {"--iterations", CLI_INT, &j.iterations, 1, 10000000, "N", "runs; states go on from one to the next",
         .given = &j.iterations_given},
        {"--warmup", CLI_INT, &j.warmup, 0, 10000000, "N", "runs before those"},
        {"--profile", CLI_SWITCH, &j.profile,
         .help = "where the time goes: steps, and operations by kind (cpu); the engine's own time (ane)"},
        {"--trace", CLI_TEXT, &j.trace, .words = "FILE.json", .help = "the same for Chrome or Perfetto (cpu)"},
        {"--json", CLI_SWITCH, &j.json, .help = "the times as one JSON object; a profile then goes to standard error"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "run MODEL --input NAME=FILE ... [flags]",
                         "Runs a Core ML package or a MIL program on this machine: arrays and pictures in, arrays out, "
                         "and how long it takes.");
    if (code >= 0) return code;
    propane_error err = {0};
    session s = {0};
    j.session.threads = (int)threads;
    cli_catch_signals();
    propane_status status = cmd_run_model(&j, &s, &err);
    session_close(&s);
    session_inputs_free(&j.given);
    for (int i = 0; i < MAX_GIVEN; i++) mem_free(j.names[i]);
    if (cli_interrupted) return CLI_INTERRUPTED;
    return status == PROPANE_OK ? CLI_OK : cli_error("run", &err);
}
