/* SPDX-License-Identifier: MIT
 * A run's log, log.jsonl in its folder: one JSON object a line, appended as things happen, so that it survives whatever
 * ends the run. A resumed run appends; where steps were done twice the later record counts.
 *
 *   {"event":"start", ...}     configuration and machine, at every start of the process
 *   {"step":7,"loss":...}      a step; {"step":7,"val_loss":...} an evaluation
 *   {"event":"done", ...}      also "stopped", "failed", "restart"
 *   {"samples":[...]}          what the model wrote at the end: {"prompt", "text"} each
 */
#ifndef REPORT_RUN_RUN_LOG_H
#define REPORT_RUN_RUN_LOG_H

#include <stdint.h>
#include <stdio.h>

#include "core/base/energy.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "propane.h"

#define RUN_LOG "log.jsonl"

typedef struct run_log {
    FILE *file; /* NULL: nothing is written */
    bool told;  /* it was said that the log has gaps */
    text line;
} run_log;

/* DIR/NAME; mem_free it. NULL: no memory. */
char *run_log_path(const char *dir, const char *name);
/* A fresh run's log begins anew. A log that cannot be written does not end the run, but is reported once, on standard
 * error. */
void run_log_open(run_log *l, const char *dir, bool resume);
void run_log_close(run_log *l);
/* Takes the object over. */
void run_log_write(run_log *l, json_t *object);
/* `power`: what the machine used for the step; NULL: not measured. */
void run_log_step(run_log *l, const propane_step *r, double seconds, const energy_reading *power);
void run_log_evaluation(run_log *l, const propane_evaluation *e);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct run_point {
    int64_t step;
    double loss, lr, norm, tokens_per_s, device_ms, host_ms, seconds, memory, watts; /* NAN: not known */
    double outer_bytes, staleness; /* NAN: nothing was sent; no outer steps */
    bool powered;                  /* with joules, known ones or not */
    double joules[ENERGY_PARTS];
} run_point;

typedef struct run_value {
    int64_t step;
    double loss, per_byte;
} run_value;

typedef struct run_history {
    json_t *start;   /* the newest "start"; NULL: none yet */
    json_t *samples; /* the newest list of them; NULL: none yet */
    char state[16];  /* the newest event: "running", "done", "stopped", "failed", "restart" */
    run_point *points;
    int64_t count;
    run_value *values;
    int64_t value_count;
    text rest;       /* a line that is not complete yet */
    int64_t offset;  /* bytes of the file that were read */
    int64_t damaged; /* lines that could not be read */
} run_history;

/* Reads what was appended since the last call; *more: whether there was anything. A file that became shorter is
 * read anew. */
PROPANE_CHECK propane_status run_history_read(run_history *h, const char *path, bool *more, propane_error *err);
PROPANE_CHECK propane_status run_history_feed(run_history *h, const char *data, size_t length, propane_error *err);
void run_history_deinit(run_history *h);
/* Of the start record; `otherwise` where there is none. */
const char *run_history_text(const run_history *h, const char *key, const char *otherwise);
double run_history_number(const run_history *h, const char *key, double otherwise);
/* Mean loss of the last twentieth of the steps; NAN: there are none. */
double run_history_smooth(const run_history *h);
/* How workers that train by themselves stand, by the rank that writes the log. False: there are none. */
typedef struct run_agreement {
    double workers;
    double warmup;             /* steps that were, or are to be, data-parallel */
    bool warms;                /* they are not over */
    double bytes, last;        /* sent by this rank, altogether and last; last NAN: nothing yet */
    double staleness, stalest; /* steps since the ranks last agreed, now (NAN: not known) and at most */
} run_agreement;
bool run_history_agreement(const run_history *h, run_agreement *out);
/* "cpu 3.21 J, gpu unknown, ...": of one step, or (NULL) the mean of all. False: they were not measured. */
bool run_history_joules(const run_history *h, const run_point *of, char out[200]);
/* The mean of all steps; NAN: not known. */
double run_history_step_joules(const run_history *h, energy_part part);
/* Bytes of memory at most in use so far by this process; negative: not known. */
double run_peak_memory(void);

#endif
