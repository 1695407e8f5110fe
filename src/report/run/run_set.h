/* SPDX-License-Identifier: MIT
 * Several runs, each by its folder: name, log, whether it is still running, its results, and the settings in which the
 * runs differ.
 */
#ifndef REPORT_RUN_RUN_SET_H
#define REPORT_RUN_RUN_SET_H

#include "report/run/run_log.h"

typedef struct run_summary { /* NAN if not known */
    double steps, planned, tokens;
    double first, last, best;                   /* training; last and best are means over a twentieth of the steps */
    double val_last, val_best, val_step;        /* val_step is the step of the best */
    double per_byte;                            /* nats at the best validation */
    double speed, seconds, left, memory, watts; /* left: only while it is running */
    double step_ms, device_ms;                  /* per step */
    double joules[ENERGY_PARTS];                /* per step */
} run_summary;

typedef struct run_seen {
    const char *dir;   /* as given; borrowed */
    const char *name;  /* last part of the path, or all of it if two runs would have the same name */
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
bool run_set_goes_on(const run_set *s); /* any of them */
void run_set_close(run_set *s);
/* Collects settings by name, such as "lr", from each run's log and train.json, one object per run to release with
 * json_decref. Returns false if memory runs out. */
bool run_set_settings(const run_set *s, json_t *settings[RUN_SET_MOST]);
/* Returns a list of the names whose values differ among the runs; release it with json_decref. */
json_t *run_set_differing(json_t *const settings[], int count);
/* Prints a setting as a user would write it, or "" if there is none. */
void run_set_print_setting(const json_t *value, char out[160]);

#endif
