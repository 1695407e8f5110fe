/* SPDX-License-Identifier: MIT
 * propane run MODEL: runs a program in any form on any device. Inputs are arrays and images, and outputs are arrays.
 * The command prints the time of the runs.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/ane-lab/probe/statistics_uri.h"
#include "apps/propane/cli.h"
#include "apps/propane/cmd/host_flags.h"
#include "apps/propane/cmd/input_flags.h"
#include "apps/propane/cmd/nonfinite_report.h"
#include "apps/propane/cmd/run_compiled.h"
#include "apps/propane/cmd/run_profile.h"
#include "core/base/memory.h"
#include "core/base/text.h"

enum { MAX_GIVEN = 64 };

typedef struct run_job {
    const char *model, *output, *trace;
    propane_session_options session;
    char *inputs[MAX_GIVEN], *shapes[MAX_GIVEN];
    cli_list input_list, shape_list;
    int64_t seed, iterations, warmup;
    bool profile, json, iterations_given, bisect;
    char refused[1200];
    propane_shape chosen[MAX_GIVEN];
    json_t *printed;          /* with --json: the object that is printed at the end */
    nonfinite_tally *tallies; /* one per output, over all steps; outputs that only --keep adds are left out */
    int tally_count;
    bool not_finite; /* outputs are NaN or infinite, and the inputs are not the only cause */
} run_job;

/* ---- times ------------------------------------------------------------------------------------------------------------------- */

static int cmd_run_by_size(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the time in ms that the given share of the runs did not exceed. */
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
    if (j->json) {
        json_put(j->printed, "runs", json_integer(n));
        json_put(j->printed, "min_ms", json_real(least));
        json_put(j->printed, "median_ms", json_real(median));
        json_put(j->printed, "p90_ms", json_real(p90));
        json_put(j->printed, "p99_ms", json_real(p99));
        json_put(j->printed, "simulated", json_boolean(simulated));
        return;
    }
    printf("%" PRId64 " run%s%s: min %.3f ms, median %.3f ms, p90 %.3f ms, p99 %.3f ms\n", n, text_plural(n),
           simulated ? " (modelled times, not measured ones)" : "", least, median, p90, p99);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------------------- */

/* Returns the name that the model's file has for an output. */
static const char *cmd_run_called(propane_session *s, const char *function, const char *name) {
    const propane_module *m = propane_session_module(s);
    const int count = propane_module_feature_count(m, function, PROPANE_OUTPUT);
    for (int i = 0; i < count; i++) {
        propane_feature f = {.size = sizeof f};
        if (propane_module_feature(m, function, PROPANE_OUTPUT, i, &f, NULL) == PROPANE_OK && f.called &&
            strcmp(f.name, name) == 0)
            return f.called;
    }
    return name;
}

/* Prints a classifier's label, and the five classes with the largest values. */
static propane_status cmd_run_print_classes(propane_session *s, const char *function, propane_error *err) {
    const int64_t count = propane_module_label_count(propane_session_module(s), function);
    for (int k = 0; k < 5 && k < count; k++) {
        char name[4096];
        double value = 0;
        PROPANE_TRY(propane_session_label(s, k, name, sizeof name, &value, err));
        if (k == 0) printf("%s: %s\n", propane_session_label_name(s), name);
        printf("  %-12.6g %s\n", value, name);
    }
    return PROPANE_OK;
}

static void cmd_run_print_numbers(const float *values, int64_t count) {
    double sum = 0, low = 0, high = 0;
    int64_t finite = 0, nan = 0, infinite = 0;
    char words[80];
    for (int64_t k = 0; k < count; k++) {
        const double v = (double)values[k];
        nan += isnan(v) != 0;
        infinite += isinf(v) != 0;
        if (!isfinite(v)) continue;
        sum += v;
        low = finite == 0 || v < low ? v : low;
        high = finite == 0 || v > high ? v : high;
        finite++;
    }
    nonfinite_words(words, nan, infinite);
    if (finite || !count)
        printf("min %.6g, max %.6g, mean %.6g%s%s\n", low, high, finite ? sum / (double)finite : 0.0,
               *words ? " of the finite numbers; " : "", words);
    else
        printf("no finite number; %s\n", words);
}

static propane_status cmd_run_print_output(propane_session *s, const char *function, const propane_io *io,
                                           propane_error *err) {
    const int64_t count = propane_io_count(io);
    float *values = mem_array((size_t)count + 1, sizeof *values);
    if (!values) return propane_fail_memory(err, (size_t)count * sizeof *values);
    propane_status status = propane_session_get(s, io->name, PROPANE_FP32, values, count, err);
    if (!status) {
        printf("output %s [", cmd_run_called(s, function, io->name));
        for (int d = 0; d < io->rank; d++) printf("%s%lld", d ? ", " : "", (long long)io->dim[d]);
        printf("]: ");
        cmd_run_print_numbers(values, count);
    }
    mem_free(values);
    return status;
}

static propane_status cmd_run_print_outputs(propane_session *s, const char *function, propane_error *err) {
    const propane_program *p = propane_session_program(s);
    for (int i = 0; i < propane_program_output_count(p); i++)
        PROPANE_TRY(cmd_run_print_output(s, function, propane_program_output(p, i), err));
    return propane_session_label_name(s) ? cmd_run_print_classes(s, function, err) : PROPANE_OK;
}

/* ---- numbers that are not finite
 * -------------------------------------------------------------------------------------------- */

static propane_status cmd_run_tally(run_job *j, propane_session *s, propane_error *err) {
    const propane_program *p = propane_session_program(s);
    const int count = propane_program_output_count(p);
    int at = 0;
    if (!j->tallies) j->tallies = mem_array((size_t)count + 1, sizeof *j->tallies);
    if (!j->tallies) return propane_fail_memory(err, (size_t)count * sizeof *j->tallies);
    for (int i = 0; i < count; i++) {
        const propane_io *io = propane_program_output(p, i);
        if (!propane_session_keeps(s, io->name)) PROPANE_TRY(nonfinite_add_output(s, io, &j->tallies[at++], err));
    }
    j->tally_count = at;
    return PROPANE_OK;
}

/* Prints the first output with non-finite numbers, how many other outputs have some, and where they come from. */
static void cmd_run_print_nonfinite(run_job *j, const propane_nonfinite *found, const char *why) {
    const nonfinite_tally *first = NULL;
    char words[80];
    int others = -1;
    for (int i = 0; i < j->tally_count; i++) {
        const nonfinite_tally *t = &j->tallies[i];
        if (!t->nan && !t->infinite) continue;
        if (!first) first = t;
        others++;
    }
    nonfinite_words(words, first->nan, first->infinite);
    fprintf(stderr, "propane run: output '%s' has %s of %lld", first->name, words, (long long)first->numbers);
    if (others) fprintf(stderr, " (and %d other output%s)", others, text_plural(others));
    fprintf(stderr, ": %s\n", *found->text ? found->text : why);
}

static propane_status cmd_run_explain(run_job *j, propane_session *s, propane_error *err) {
    propane_nonfinite found = {.size = sizeof found, .made = true};
    propane_error none = {0};
    int64_t bad = 0;
    PROPANE_TRY(j->tallies ? PROPANE_OK : cmd_run_tally(j, s, err));
    json_t *outputs = j->json ? json_array() : NULL;
    for (int i = 0; i < j->tally_count; i++) {
        const nonfinite_tally *t = &j->tallies[i];
        bad += t->nan + t->infinite;
        if (j->json)
            json_add(outputs, json_pack("{s:s, s:I, s:I, s:I}", "name", t->name, "numbers", (json_int_t)t->numbers,
                                        "nan", (json_int_t)t->nan, "infinite", (json_int_t)t->infinite));
    }
    if (j->json) json_put(j->printed, "outputs", outputs);
    if (bad) {
        const bool goes_on = propane_session_steps(s) || propane_session_state_count(s);
        propane_status status = nonfinite_trace(j->model, &j->session, j->seed, goes_on ? j->warmup : 0,
                                                goes_on ? j->iterations : 1, &found, &none);
        const bool traced = !status && (found.nan || found.infinite);
        if (!traced) found = (propane_nonfinite){.size = sizeof found, .nan = bad, .made = true};
        cmd_run_print_nonfinite(j, &found,
                                status ? none.text
                                       : "no operation can be named: when every value is kept, the outputs are finite");
        j->not_finite = found.made;
    }
    if (j->json) json_put(j->printed, "nonfinite", nonfinite_json(&found));
    return PROPANE_OK;
}

static propane_status cmd_run_print_json(const run_job *j, propane_error *err) {
    char *line = NULL;
    PROPANE_TRY(json_print(j->printed, JSON_COMPACT | JSON_REAL_PRECISION(9), &line, NULL, err));
    printf("%s\n", line);
    mem_free(line);
    return PROPANE_OK;
}

/* ---- the job ------------------------------------------------------------------------------------------------------------------ */

typedef struct engine_account {
    int64_t ns, given, repeats; /* totals over all runs; `given` is the number of runs that reported their time */
} engine_account;

/* Prints the mean time of a run by the host's clock and by the engine's. An engine reports no times of single steps. */
static void cmd_run_show_engine(FILE *out, const int64_t *ns, int64_t iterations, const engine_account *e) {
    double host = 0;
    for (int64_t i = 0; i < iterations; i++) host += (double)ns[i];
    fprintf(out, "the host's clock: %.4f ms per run; the engine's own time: ", host / (double)iterations / 1e6);
    if (e->given)
        fprintf(out, "%.4f ms per run (%lld of %lld runs)\n", (double)e->ns / (double)e->given / 1e6,
                (long long)e->given, (long long)iterations);
    else
        fprintf(out, "not reported by this engine\n");
    if (e->repeats)
        fprintf(out, "evaluations repeated because the engine cancelled them while it woke up: %lld\n",
                (long long)e->repeats);
}

static propane_status cmd_run_loop(run_job *j, propane_session *s, int64_t *ns, engine_account *e, propane_error *err) {
    const int64_t steps = propane_session_steps(s);
    for (int64_t i = 0; i < j->iterations && !cli_interrupted; i++) {
        propane_completion done = {.size = sizeof done};
        if (steps) PROPANE_TRY(propane_session_step(s, i % steps, err));
        PROPANE_TRY(propane_session_run(s, &done, err));
        ns[i] = done.device_ns;
        e->repeats += done.repeats;
        if (done.engine_ns >= 0) e->ns += done.engine_ns, e->given++;
        if (steps) PROPANE_TRY(cmd_run_tally(j, s, err));
        if (steps && j->output) PROPANE_TRY(propane_session_keep(s, i % steps, err));
    }
    return PROPANE_OK;
}

static propane_status cmd_run_measure(run_job *j, propane_session *s, propane_error *err) {
    const bool engine = propane_uri_names(j->session.device, "ane"), profiled = (j->profile || j->trace) && !engine;
    engine_account account = {0};
    int64_t *ns = mem_array((size_t)j->iterations, sizeof *ns);
    if (!ns) return propane_fail_memory(err, (size_t)j->iterations * sizeof *ns);
    propane_status status = PROPANE_OK;
    for (int64_t i = 0; i < j->warmup && !status; i++) status = propane_session_run(s, NULL, err);
    if (profiled && !status) status = propane_program_profile(propane_session_program(s), true, err);
    if (!status) status = cmd_run_loop(j, s, ns, &account, err);
    if (!status && !cli_interrupted)
        cmd_run_print_times(j, ns, propane_device_describe(propane_session_device(s))->simulated);
    if (!status && profiled && j->profile)
        status = run_profile_print(s, j->session.function, j->json ? stderr : stdout, err);
    if (!status && profiled && j->trace) status = run_profile_trace(s, j->session.function, j->model, j->trace, err);
    if (!status && engine && j->profile && !cli_interrupted)
        cmd_run_show_engine(j->json ? stderr : stdout, ns, j->iterations, &account);
    mem_free(ns);
    return status;
}

static propane_status cmd_run_fill(run_job *j, propane_session *s, propane_error *err) {
    if (j->seed >= 0) PROPANE_TRY(propane_session_randomize(s, (uint64_t)j->seed, err));
    return propane_session_ready(s, "--input NAME=FILE, or --seed N for random numbers", err);
}

static propane_status cmd_run_session(run_job *j, propane_session *s, propane_error *err) {
    PROPANE_TRY(cmd_run_fill(j, s, err));
    if (propane_session_steps(s) && !j->iterations_given) j->iterations = propane_session_steps(s);
    PROPANE_TRY(cmd_run_measure(j, s, err));
    if (!j->json && !j->session.keep) PROPANE_TRY(cmd_run_print_outputs(s, j->session.function, err));
    if (j->output) PROPANE_TRY(propane_session_write(s, j->output, err));
    const int count = propane_program_output_count(propane_session_program(s));
    if (j->output && !j->json) printf("%d array%s in %s\n", count, text_plural(count), j->output);
    if (!cli_interrupted) PROPANE_TRY(cmd_run_explain(j, s, err));
    return j->json && !cli_interrupted ? cmd_run_print_json(j, err) : PROPANE_OK;
}

/* Flags that have no meaning for a compiled program. */
static const char run_compiled_ignores[] =
    "--resize|--keep|--function|--shape|--device|--precision|--blas|--iterations|"
    "--warmup|--profile|--trace|--bisect|--json";

static propane_status cmd_run_model(run_job *j, propane_error *err) {
    propane_session *s = NULL;
    if (cli_file_is(j->model, "compiled"))
        return run_compiled(j->model, &j->input_list, j->seed, j->output, &j->not_finite, err);
    for (int i = 0; i < j->shape_list.count; i++) {
        PROPANE_TRY(propane_shape_parse(j->shape_list.items[i], &j->chosen[i], err));
        j->session.shape_count = i + 1;
    }
    j->session.shapes = j->chosen;
    j->session.files = (const char *const *)j->inputs;
    j->session.file_count = j->input_list.count;
    char uri[300];
    snprintf(j->refused, sizeof j->refused, "%s%srefused", j->output ? j->output : "", j->output ? "/" : "");
    if (j->bisect) j->session.bisect = j->refused;
    if (j->profile) j->session.device = rig_statistics_uri(j->session.device, uri);
    PROPANE_TRY(propane_session_open(j->model, &j->session, &s, err));
    propane_status status = PROPANE_OK;
    if ((j->trace || (j->profile && !propane_uri_names(j->session.device, "ane"))) &&
        !propane_uri_names(j->session.device, "cpu"))
        status = propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                              "--profile and --trace need the cpu device; %s keeps no such record", j->session.device);
    if (!status) status = cmd_run_session(j, s, err);
    propane_session_close(s);
    return status;
}

static int cmd_run_all(run_job *j) {
    propane_error err = {0};
    cli_catch_signals();
    if (j->json) j->printed = json_object();
    const propane_status status = cmd_run_model(j, &err);
    json_decref(j->printed);
    mem_free(j->tallies);
    for (int i = 0; i < MAX_GIVEN; i++) propane_free((void *)(uintptr_t)j->chosen[i].name);
    if (cli_interrupted) return cli_interrupt_code();
    if (status) return cli_error("run", &err);
    return j->not_finite ? CLI_NOT_FINITE : CLI_OK;
}

int cmd_run(int argc, char **argv) {
    run_job j = {
        .session = {.size = sizeof j.session, .device = "cpu", .precision = "typed"}, .seed = -1, .iterations = 1};
    int64_t threads = 0;
    j.input_list.items = j.inputs;
    j.shape_list.items = j.shapes;
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &j.model,
         .help = "a package (.mlpackage), a compiled model (.mlmodelc), an .mlmodel or MIL text, or a compiled program "
                 "(.hwx, .anec), whose registers are executed in software",
         .required = true},
        {"--input", CLI_TEXTS, &j.input_list, .max = MAX_GIVEN, .words = "NAME=FILE",
         .help = "array (.npy) or image (.png, .jpg) for an input; FILE.npz: several arrays; an extra leading "
                 "dimension holds one value per run; NAME=TEXT for a category, NAME={\"key\": 1} or a .json file for a "
                 "dictionary"},
        {"--resize", CLI_SWITCH, &j.session.resize, .help = "scale images to the input's size"},
        {"--seed", CLI_INT, &j.seed, 0, 1e15, "N", "fill inputs without --input with random values of this seed",
         .standard = ""},
        {"--output", CLI_TEXT, &j.output, .words = "DIR", .help = "write each output and state to DIR/NAME.npy"},
        {"--keep", CLI_SWITCH, &j.session.keep, .help = "make every value of the program an output"},
        {"--function", CLI_TEXT, &j.session.function, .words = "NAME", .help = "function to use; default: the first"},
        {"--shape", CLI_TEXTS, &j.shape_list, .max = MAX_GIVEN, .words = "NAME=1,3,224,224",
         .help = "shape of an input of flexible size; default: that of its --input, else the file's"},
        {"--device", CLI_TEXT, &j.session.device, .words = "DEVICE", .help = "cpu, sim:m4, ane, ..."},
        {"--precision", CLI_CHOICE, &j.session.precision, .words = "typed|fp16|fp32|bf16",
         .help = "typed or fp16 keeps the program's types; fp32 replaces fp16; bf16 computes products in bfloat16"},
        {"--threads", CLI_INT, &threads, 0, 1024, "N", "number of threads; 0: one per core"},
        HOST_BLAS_FLAG,
        {NULL, CLI_HEADING, NULL, .help = "Timing"},
        {"--iterations", CLI_INT, &j.iterations, 1, 10000000, "N",
         "number of runs; states carry over from one to the next", .given = &j.iterations_given},
        {"--warmup", CLI_INT, &j.warmup, 0, 10000000, "N", "warm-up runs before the timed ones"},
        {"--profile", CLI_SWITCH, &j.profile,
         .help = "print where the time goes: steps, and operations by kind (cpu); or the time inside the engine (ane)"},
        {"--trace", CLI_TEXT, &j.trace, .words = "FILE.json", .help = "write a timeline for Chrome or Perfetto (cpu)",
         .writes = "trace"},
        {"--bisect", CLI_SWITCH, &j.bisect,
         .help = "if the device refuses the program, find the operation by compiling parts, and write the smallest "
                 "refused part to refused/model.mil (in the folder of --output, if any)"},
        {"--json", CLI_SWITCH, &j.json,
         .help = "print times and non-finite outputs as one JSON object; a profile goes to standard error"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "run MODEL --input NAME=FILE ... [flags]",
                  "Runs a Core ML package or a MIL program on arrays and images, writes the outputs as arrays, "
                  "and prints the time.\n"
                  "Exit code: 4 if an output contains NaN or infinity that does not come from the inputs; the first "
                  "such operation is named.");
    if (code >= 0) return code;
    if (cli_file_is(j.model, "compiled") && (code = cli_refuse("run", run_compiled_ignores, "a compiled program")) >= 0)
        return code;
    if ((code = input_flags_check("run", &j.input_list)) >= 0) return code;
    j.session.threads = (int)threads;
    return cmd_run_all(&j);
}
