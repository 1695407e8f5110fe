/* SPDX-License-Identifier: MIT
 * What both kinds of propane train do alike: flags out of the rows of options.def, the options of a resumed run, telling,
 * logging, Ctrl-C and the end. A kind fills a train_job_kind.
 */
#ifndef CLI_CMD_TRAIN_JOB_H
#define CLI_CMD_TRAIN_JOB_H

#include "api/run_folder.h"
#include "base/arena.h"
#include "base/energy.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/run/telemetry.h"
#include "train/train_run.h"

typedef struct train_job train_job;

typedef struct train_job_kind {
    const char *unit; /* what "tokens" stand for */
    void (*tell_start)(const train_job *j);
    void (*tell_evaluation)(train_job *j, const train_evaluation *e);
    /* Adds the run's own facts to the start record. */
    void (*put_facts)(const train_job *j, json_t *record);
    propane_status (*tell_end)(train_job *j, double seconds, propane_error *err);
    propane_status (*report)(train_job *j, propane_error *err); /* report.html */
} train_job_kind;

struct train_job { /* the first member of a kind's own */
    const train_job_kind *kind;
    train_options options;
    train_run *run;
    progress progress;
    telemetry telemetry;
    energy_meter *meter; /* --power; NULL: not asked for */
    bool json, profile, report;
    const char *logdir;
    int64_t threads, start_ns, first_step;
    train_evaluation last;
    arena *arena; /* texts of the resumed run's options, and the flags' names */
    run_hold hold;
};

/* A heading of the help: the command's own flags before and after those that are rows of `group`. */
typedef struct train_flags {
    const char *heading; /* NULL: none */
    int group;           /* train_option_group; -1: no rows */
    const cli_flag *before;
    int before_count;
    const cli_flag *after;
    int after_count;
} train_flags;

void train_job_init(train_job *j, const train_job_kind *kind, train_kind options);
/* As cli_parse. What the command line says goes over what the checkpoint of a resumed run says. */
int train_job_parse(train_job *j, int argc, char **argv, const train_flags *groups, int count, const char *usage,
                    const char *about);
/* --threads, --profile and so on, for the groups MACHINE and RUN. */
cli_flag train_job_threads(train_job *j);
enum { TRAIN_JOB_SHOW_FLAGS = 4 };
void train_job_show_flags(train_job *j, cli_flag out[TRAIN_JOB_SHOW_FLAGS], const char *profile);
/* Everything from the first line to the last, once j->run is made. *again: the compile budget is used up. */
PROPANE_CHECK propane_status train_job_go(train_job *j, bool *again, propane_error *err);
void train_job_deinit(train_job *j);
/* "done": how many steps in what time, and where `what` is. */
void train_job_tell_done(const train_job *j, double seconds, const char *what);

#endif
