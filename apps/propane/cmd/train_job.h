/* SPDX-License-Identifier: MIT
 * Declares what both kinds of propane train share: flags that are made from the library's options, printing, logging,
 * Ctrl-C and the end of a run. Each kind fills a train_job_kind. The code uses only the public calls of propane.h to
 * train.
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
    const char *unit; /* unit of the data: "tokens", "samples" */
    void (*print_start)(const train_job *j);
    void (*print_evaluation)(train_job *j, const propane_evaluation *e);
    void (*print_profile)(const train_job *j, double seconds);
    /* Prints where the results are, then `note`. Called after "done: ..." is printed, unless --json is set. */
    void (*print_end)(const train_job *j, const char *note);
    propane_status (*report)(train_job *j, propane_error *err); /* writes report.html */
    const char *place;                                          /* the option that a MODEL argument sets */
} train_job_kind;

struct train_job {
    const train_job_kind *kind;
    propane_options *options;
    propane_ranks *ranks; /* NULL for a single process */
    propane_trainer *trainer;
    json_t *facts;
    progress progress;
    telemetry telemetry;
    energy_meter *meter; /* --power; NULL if not requested */
    bool json, report, profile, background;
    const char *logdir, *form; /* the values of --logdir and --progress */
    const char *place;         /* the command line's argument without a flag, or NULL */
    bool run_given;
    int64_t start_ns, first_step;
    propane_evaluation last;
    arena *arena; /* holds the texts of the flags and of options */
};

/* A section of the help. It lists the flags in `before`, then one flag for each option of the library in `group`, then
 * the flags in `after`. */
typedef struct train_flags {
    const char *heading; /* NULL for none */
    const char *group;   /* propane_option_info.group; NULL for no options of the library */
    const cli_flag *before;
    int before_count;
    const cli_flag *after;
    int after_count;
} train_flags;

PROPANE_CHECK propane_status train_job_init(train_job *j, const train_job_kind *kind, propane_training training,
                                            propane_error *err);
/* Parses the command line as cli_parse does. The files that --config names are read first. Values on the command line
 * take precedence over values of a resumed run. */
int train_job_parse(train_job *j, int argc, char **argv, const train_flags *groups, int count, const char *usage,
                    const char *about);
enum { TRAIN_JOB_SHOW_FLAGS = 5 };
void train_job_show_flags(train_job *j, cli_flag out[TRAIN_JOB_SHOW_FLAGS]);
/* Returns the flag for the argument without a flag, which is the model, or with --resume the run's folder. */
cli_flag train_job_place_flag(train_job *j, const char *help);
/* Creates the trainer, trains, and prints everything from the first line of output to the last. Sets *again if the
 * compile budget is used up. */
PROPANE_CHECK propane_status train_job_go(train_job *j, bool *again, propane_error *err);
void train_job_deinit(train_job *j);

/* These calls return facts of the run (propane_trainer_facts). */
int64_t train_job_int(const train_job *j, const char *key);
double train_job_real(const train_job *j, const char *key);
const char *train_job_text(const train_job *j, const char *key); /* "" if the run does not have that fact */
/* Returns the value of an option in the run as text, which the job owns. */
const char *train_job_option(const train_job *j, const char *name);
/* Prints a line such as "23 steps = 1 epoch of 90 windows". `count` is the number of windows or samples; with 0 or less
 * nothing is printed. */
void train_job_print_epochs(const train_job *j, const char *unit, int64_t count);

#endif
