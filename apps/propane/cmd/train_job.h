/* SPDX-License-Identifier: MIT
 * What both kinds of propane train do alike, as a client of propane.h: flags out of the library's options, telling,
 * logging, Ctrl-C and the end. A kind fills a train_job_kind.
 */
#ifndef APPS_PROPANE_CMD_TRAIN_JOB_H
#define APPS_PROPANE_CMD_TRAIN_JOB_H

#include "apps/propane/cli.h"
#include "apps/propane/progress.h"
#include "core/base/arena.h"
#include "core/base/energy.h"
#include "report/run/telemetry.h"

typedef struct train_job train_job;

typedef struct train_job_kind {
    const char *unit; /* what is counted */
    void (*tell_start)(const train_job *j);
    void (*tell_evaluation)(train_job *j, const propane_evaluation *e);
    void (*tell_profile)(const train_job *j, double seconds);
    /* What lies where, then `note`; after "done", where there is no --json. */
    void (*tell_end)(const train_job *j, const char *note);
    propane_status (*report)(train_job *j, propane_error *err); /* report.html */
    const char *place;                                          /* the option that a MODEL on the command line is */
} train_job_kind;

struct train_job {
    const train_job_kind *kind;
    propane_options *options;
    propane_ranks *ranks; /* NULL: alone */
    propane_trainer *trainer;
    json_t *facts;
    progress progress;
    telemetry telemetry;
    energy_meter *meter; /* --power; NULL: not asked for */
    bool json, report, profile, background;
    const char *logdir, *form; /* --progress */
    const char *place;         /* the command line's argument without a flag; NULL: none */
    bool run_given;
    int64_t start_ns, first_step;
    propane_evaluation last;
    arena *arena; /* texts of the flags and of options */
};

/* A heading of the help: the command's own flags before and after those of the library's `group`. */
typedef struct train_flags {
    const char *heading; /* NULL: none */
    const char *group;   /* NULL: no options of the library's */
    const cli_flag *before;
    int before_count;
    const cli_flag *after;
    int after_count;
} train_flags;

PROPANE_CHECK propane_status train_job_init(train_job *j, const train_job_kind *kind, propane_training training,
                                            propane_error *err);
/* As cli_parse; files of options that --config names come first. What a resumed run's checkpoint says is under what was
 * given. */
int train_job_parse(train_job *j, int argc, char **argv, const train_flags *groups, int count, const char *usage,
                    const char *about);
enum { TRAIN_JOB_SHOW_FLAGS = 5 };
void train_job_show_flags(train_job *j, cli_flag out[TRAIN_JOB_SHOW_FLAGS]);
/* What has no flag: the model, or with --resume the run's folder. */
cli_flag train_job_place_flag(train_job *j, const char *help);
/* Makes the trainer and everything from the first line to the last. *again: the compile budget is used up. */
PROPANE_CHECK propane_status train_job_go(train_job *j, bool *again, propane_error *err);
void train_job_deinit(train_job *j);

/* What is known of the run (propane_trainer_facts). */
int64_t train_job_int(const train_job *j, const char *key);
double train_job_real(const train_job *j, const char *key);
const char *train_job_text(const train_job *j, const char *key); /* "" : it says nothing of that */
/* An option as the run has it, as text; the job's. */
const char *train_job_option(const train_job *j, const char *name);
/* "23 steps = 1 epoch of 90 windows". */
void train_job_tell_epochs(const train_job *j, const char *unit, int64_t count);

#endif
