/* SPDX-License-Identifier: MIT
 * Owns the course of propane train from the command line to the last record of the log.
 */
#include "cli/cmd/train_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/run_folder.h"
#include "base/clock.h"
#include "base/memory.h"
#include "chip/cost_model.h"
#include "train/checkpoint.h"

void train_job_init(train_job *j, const train_job_kind *kind, train_kind options) {
    j->kind = kind;
    j->report = true;
    j->hold.lock = -1;
    train_options_default(&j->options, options);
    j->options.run_dir = "propane-run";
}

void train_job_deinit(train_job *j) {
    telemetry_close(&j->telemetry);
    train_run_free(j->run);
    run_end(j->options.run_dir, &j->hold);
    arena_free(j->arena);
}

/* ---- flags ------------------------------------------------------------------------------------------------------------------- */

cli_flag train_job_threads(train_job *j) {
    return (cli_flag){"--threads", CLI_INT, &j->threads, 0, 256, "N", "0: one per core"};
}

void train_job_show_flags(train_job *j, cli_flag out[TRAIN_JOB_SHOW_FLAGS], const char *profile) {
    out[0] = (cli_flag){"--profile", CLI_SWITCH, &j->profile, .help = profile};
    out[1] = (cli_flag){"--json", CLI_SWITCH, &j->json, .help = "one JSON object a line instead of text"};
    out[2] = (cli_flag){"--logdir", CLI_TEXT, &j->logdir, .words = "DIR",
                        .help = "TensorBoard event files, in a folder of the run's name"};
    out[3] = (cli_flag){"--report", CLI_SWITCH, &j->report, .help = "report.html in the run's folder at the end"};
}

static propane_status train_job_set(void *options, const char *name, const char *value, propane_error *err) {
    return train_options_set(options, name, value, err);
}

static propane_status train_job_row_flag(train_job *j, const train_option *row, cli_flag *out, propane_error *err) {
    static const cli_kind kinds[] = {[TRAIN_INT] = CLI_INT,
                                     [TRAIN_REAL] = CLI_REAL,
                                     [TRAIN_BOOL] = CLI_SWITCH,
                                     [TRAIN_TEXT] = CLI_TEXT,
                                     [TRAIN_CHOICE] = CLI_CHOICE};
    const char *name = arena_printf(j->arena, "--%s", row->name);
    *out = (cli_flag){name,
                      kinds[row->type],
                      train_option_at(row, &j->options),
                      row->min,
                      row->max,
                      row->words,
                      row->use[j->options.kind].help,
                      .set = train_job_set,
                      .object = &j->options};
    return name ? PROPANE_OK : propane_fail_memory(err, strlen(row->name));
}

static propane_status train_job_add_group(train_job *j, const train_flags *g, cli_flag *flags, int *n,
                                          propane_error *err) {
    if (g->heading) flags[(*n)++] = (cli_flag){NULL, CLI_HEADING, NULL, .help = g->heading};
    for (int i = 0; i < g->before_count; i++) flags[(*n)++] = g->before[i];
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (row->name && row->use[j->options.kind].help && (int)row->group == g->group)
            PROPANE_TRY(train_job_row_flag(j, row, &flags[(*n)++], err));
    }
    for (int i = 0; i < g->after_count; i++) flags[(*n)++] = g->after[i];
    return PROPANE_OK;
}

/* A resumed run takes up the options that it was begun with, as far as there is a run. */
static propane_status train_job_recall(train_job *j, propane_error *err) {
    if (!run_holds(j->options.run_dir, TRAIN_CHECKPOINT)) return PROPANE_OK; /* told later */
    char *path = run_path(j->options.run_dir, TRAIN_CHECKPOINT);
    propane_status status =
        path ? train_checkpoint_recall(path, j->arena, &j->options, err) : propane_fail_memory(err, 0);
    mem_free(path);
    return status;
}

static int train_job_parse_flags(train_job *j, int argc, char **argv, const cli_flag *flags, int count,
                                 const char *usage, const char *about) {
    propane_error err = {0};
    const int code = cli_parse(argc, argv, flags, count, usage, about);
    if (code >= 0 || !j->options.resume) return code;
    if (train_job_recall(j, &err) != PROPANE_OK) return cli_error("train", &err);
    for (int i = 0; i < count; i++)
        if (flags[i].kind == CLI_TEXTS) ((cli_list *)flags[i].out)->count = 0;
    return cli_parse(argc, argv, flags, count, usage, about);
}

int train_job_parse(train_job *j, int argc, char **argv, const train_flags *groups, int count, const char *usage,
                    const char *about) {
    propane_error err = {0};
    int n = 0, room = TRAIN_OPTIONS;
    for (int i = 0; i < count; i++) room += 1 + groups[i].before_count + groups[i].after_count;
    j->arena = arena_create();
    cli_flag *flags = j->arena ? ARENA_ARRAY(j->arena, (size_t)room, cli_flag) : NULL;
    propane_status status = flags ? PROPANE_OK : propane_fail_memory(&err, (size_t)room * sizeof *flags);
    for (int i = 0; i < count && status == PROPANE_OK; i++)
        status = train_job_add_group(j, &groups[i], flags, &n, &err);
    if (status != PROPANE_OK) return cli_error("train", &err);
    return train_job_parse_flags(j, argc, argv, flags, n, usage, about);
}

/* ---- what the run tells -------------------------------------------------------------------------------------------------------- */

/* "sim:m4?table=0": the model's roof of that chip against what the step's kernels did on it. */
static void train_job_tell_simulated(const char *uri, const train_report *r, progress_step *s) {
    char name[40];
    const chip *c = NULL;
    const char *rest = strchr(uri, ':');
    if (!rest) return;
    snprintf(name, sizeof name, "%.*s", (int)(strcspn(rest + 1, "?") < 39 ? strcspn(rest + 1, "?") : 39), rest + 1);
    if (chip_find(name, &c, NULL) != PROPANE_OK) return;
    s->simulated = c->title;
    s->energy_j = r->simulated.energy_j;
    s->utilisation =
        r->device_ms > 0 ? r->simulated.flops / (cost_constants_of(c->id)->tflops * 1e9 * r->device_ms) : 0;
}

static void train_job_on_step(void *context, const train_report *r) {
    train_job *j = context;
    const train_options *o = train_run_options(j->run);
    double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    progress_step s = progress_of(r, seconds, j->first_step, o->steps);
    energy_reading used;
    propane_error ignored;
    if (j->meter && energy_read(j->meter, &used, &ignored) == PROPANE_OK) s.power = &used;
    if (r->simulated.simulated) train_job_tell_simulated(o->device, r, &s);
    telemetry_step(&j->telemetry, r, seconds, s.power);
    progress_show(&j->progress, &s);
    progress_flush();
}

static void train_job_on_evaluation(void *context, const train_evaluation *e) {
    train_job *j = context;
    j->last = *e;
    telemetry_evaluation(&j->telemetry, e);
    j->kind->tell_evaluation(j, e);
    progress_flush();
}

static void train_job_on_checkpoint(void *context, int64_t step, const char *path) {
    train_job *j = context;
    const train_options *o = train_run_options(j->run);
    progress_checkpoint(&j->progress, step, path, !o->checkpoint_interval || step == o->steps);
    progress_flush();
}

void train_job_tell_done(const train_job *j, double seconds, const char *what) {
    const int64_t done = train_run_steps_done(j->run) - j->first_step;
    printf("done: %" PRId64 " steps in %.1f s; %s\n", done, seconds, what);
    if (!done) printf("the run was complete already; a larger --steps goes on\n");
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static propane_status train_job_open_telemetry(train_job *j, propane_error *err) {
    const train_options *o = train_run_options(j->run);
    json_t *record = telemetry_record(o);
    if (record) j->kind->put_facts(j, record);
    return telemetry_open(&j->telemetry, o, record, j->logdir, err);
}

propane_status train_job_go(train_job *j, bool *again, propane_error *err) {
    const train_options *o = train_run_options(j->run);
    const bool writes = train_run_writes(j->run);
    if (writes) PROPANE_TRY(train_job_open_telemetry(j, err));
    if (!j->json) j->kind->tell_start(j);
    progress_init(&j->progress, j->json, o->steps);
    j->progress.unit = j->kind->unit;
    j->start_ns = clock_ns();
    j->first_step = train_run_steps_done(j->run);
    const train_callbacks callbacks = {j, train_job_on_step, train_job_on_evaluation, train_job_on_checkpoint};
    cli_catch_signals(); /* until here Ctrl-C ends the process at once: there is nothing to lose yet */
    propane_status status = train_run_go(j->run, &callbacks, &cli_interrupted, again, err);
    progress_end(&j->progress);
    const int64_t done = train_run_steps_done(j->run);
    if (status == PROPANE_OK && *again && cli_interrupted)
        status = propane_fail(err, PROPANE_ERR_CANCELLED,
                              "stopped after step %" PRId64 " of %" PRId64 "; go on with --resume", done, o->steps);
    const char *state = status == PROPANE_ERR_CANCELLED ? "stopped"
                        : status != PROPANE_OK          ? "failed"
                        : *again                        ? "restart"
                                                        : "done";
    if (writes) telemetry_end(&j->telemetry, state, done);
    const bool ended = status == PROPANE_OK && !*again;
    const double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    if (ended && writes && j->report) status = j->kind->report(j, err);
    if (ended && status == PROPANE_OK) status = j->kind->tell_end(j, seconds, err);
    if (j->json && !(ended && status == PROPANE_OK))
        printf("{\"event\":\"%s\",\"step\":%" PRId64 "}\n", status != PROPANE_OK && ended ? "failed" : state, done);
    return status;
}
