/* SPDX-License-Identifier: MIT
 * Declares a set of runs, which are given by their folders. Each has a name, a log, a state and a summary of its
 * results. The settings in which the runs differ can be listed.
 */
#ifndef REPORT_RUN_RUN_SET_H
#define REPORT_RUN_RUN_SET_H

#include "report/run/run_log.h"

typedef struct run_summary { /* NAN if not known */
    double steps, planned, tokens;
    double first, last, best;                   /* training losses; last and best are means over 1/20 of the steps */
    double val_last, val_best, val_step;        /* validation losses; val_step is the step of val_best */
    double per_byte;                            /* nats per byte at the best validation */
    double speed, seconds, left, memory, watts; /* left: seconds until the end of a run that is in progress */
    double step_ms, device_ms;                  /* per step */
    double joules[ENERGY_PARTS];                /* per step */
} run_summary;

typedef struct run_seen {
    const char *dir;   /* the folder as the caller named it; must outlive the set */
    const char *name;  /* last part of `dir`, or all of it if two runs would have the same name */
    const char *state; /* "running", "interrupted", "done", "stopped", "failed" */
    char *log;
    run_history history;
    run_summary summary;
} run_seen;

typedef struct run_set {
    run_seen *runs;
    int count;
} run_set;

enum { RUN_SET_MOST = 64 };

/* Opens up to RUN_SET_MOST runs; nothing is read yet. Call run_set_close even after an error. */
PROPANE_CHECK propane_status run_set_open(run_set *s, const char *const *dirs, int count, propane_error *err);
/* Reads what was appended to the logs. */
PROPANE_CHECK propane_status run_set_read(run_set *s, propane_error *err);
bool run_set_goes_on(const run_set *s); /* whether any of the runs is still in progress */
void run_set_close(run_set *s);
/* Collects each run's settings, such as "lr", by name from its log and its train.json. Sets one object per run; release
 * each with json_decref. Returns false if memory runs out. */
bool run_set_settings(const run_set *s, json_t *settings[RUN_SET_MOST]);
/* Returns a list of the names of settings whose values differ among the runs; release the list with json_decref. */
json_t *run_set_differing(json_t *const settings[], int count);
/* Writes a setting as a user would write it, or "" if `value` is NULL. */
void run_set_print_setting(const json_t *value, char out[160]);

#endif
