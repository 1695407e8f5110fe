/* SPDX-License-Identifier: MIT
 * Runs side by side, each by its folder: name, log, whether it goes on, what came out, and the settings in which they
 * differ.
 */
#ifndef REPORT_RUN_RUN_SET_H
#define REPORT_RUN_RUN_SET_H

#include "report/run/run_log.h"

typedef struct run_summary { /* NAN: not known */
    double steps, planned, tokens;
    double first, last, best;                   /* training; last, best: means of a twentieth of the steps */
    double val_last, val_best, val_step;        /* val_step: of the best */
    double per_byte;                            /* nats, of the best validation */
    double speed, seconds, left, memory, watts; /* left: only while it goes on */
    double step_ms, device_ms;                  /* of a step */
    double joules[ENERGY_PARTS];                /* likewise */
} run_summary;

typedef struct run_seen {
    const char *dir;   /* as it was given; borrowed */
    const char *name;  /* its last part, or all of it where two runs would have one name */
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

/* Up to RUN_SET_MOST; nothing is read yet. run_set_close also after an error. */
PROPANE_CHECK propane_status run_set_open(run_set *s, const char *const *dirs, int count, propane_error *err);
/* Reads what was appended to the logs. */
PROPANE_CHECK propane_status run_set_read(run_set *s, propane_error *err);
bool run_set_goes_on(const run_set *s); /* one of them */
void run_set_close(run_set *s);
/* By name, "lr": of each run's log and train.json, one object a run; json_decref them. False: no memory. */
bool run_set_settings(const run_set *s, json_t *settings[RUN_SET_MOST]);
/* The names of those that are not the same in all runs, in a list; json_decref it. */
json_t *run_set_differing(json_t *const settings[], int count);
/* A setting as one writes it; "" where there is none. */
void run_set_print_setting(const json_t *value, char out[160]);

#endif
