/* SPDX-License-Identifier: MIT
 * Declares a run's log, log.jsonl in its folder. It has one JSON object per line. Records are appended at once, so that
 * the log survives any end of the run. A resumed run appends to the log. If a step was repeated, the later record
 * counts.
 *
 *   {"event":"start", ...}     configuration and machine, at every start of the process
 *   {"step":7,"loss":...}      a step; {"step":7,"val_loss":...} an evaluation
 *   {"event":"done", ...}      also "stopped", "failed", "restart"
 *   {"samples":[...]}          texts that the model wrote at the end: {"prompt", "text"} each
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
    FILE *file;    /* NULL if the log cannot be written */
    bool reported; /* a message about gaps in the log has been printed */
    text line;
} run_log;

/* Returns DIR/NAME, or NULL if memory runs out. Release it with mem_free. */
char *run_log_path(const char *dir, const char *name);
/* Opens the log of a run. With `resume` records are appended, otherwise the log is emptied. A log that cannot be
 * written does not end the run, but is reported once on standard error. */
void run_log_open(run_log *l, const char *dir, bool resume);
void run_log_close(run_log *l);
/* Appends an object to the log and takes ownership of it. */
void run_log_write(run_log *l, json_t *object);
/* Appends the record of a step. `seconds` is the time of training so far. `power` is the energy that the machine used
 * for the step, or NULL if it was not measured. */
void run_log_step(run_log *l, const propane_step *r, double seconds, const energy_reading *power);
void run_log_evaluation(run_log *l, const propane_evaluation *e);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct run_point {
    int64_t step;
    double loss, lr, norm, tokens_per_s, device_ms, host_ms, seconds, memory, watts; /* NAN if not known */
    double outer_bytes, staleness; /* as in propane_step; NAN if nothing was sent, or in a run without outer steps */
    bool powered;                  /* the record has joules, whether or not they are known */
    double joules[ENERGY_PARTS];
} run_point;

typedef struct run_value {
    int64_t step;
    double loss, per_byte;
} run_value;

typedef struct run_history {
    json_t *start;   /* the newest "start", or NULL before the first */
    json_t *samples; /* the newest list of samples, or NULL before the first */
    char state[16];  /* the newest event: "running", "done", "stopped", "failed", "restart" */
    run_point *points;
    int64_t count;
    run_value *values;
    int64_t value_count;
    text rest;       /* the incomplete line at the end of the file */
    int64_t offset;  /* number of bytes that were read from the file */
    int64_t damaged; /* number of lines that could not be read */
    bool skipping;   /* the incomplete line is too long, so its rest is skipped */
} run_history;

/* Reads the records that were appended since the last call. Sets *more if there were any bytes. If the file has become
 * shorter, reads it from its beginning. */
PROPANE_CHECK propane_status run_history_read(run_history *h, const char *path, bool *more, propane_error *err);
void run_history_deinit(run_history *h);
/* Return a value of the start record, or `otherwise` if it is missing. */
const char *run_history_text(const run_history *h, const char *key, const char *otherwise);
double run_history_number(const run_history *h, const char *key, double otherwise);
/* Returns the mean loss of the last twentieth of the steps; NAN if there are none. */
double run_history_smooth(const run_history *h);
/* The state of workers with outer steps, from the records of the rank that writes the log. */
typedef struct run_agreement {
    double workers;
    double warmup;             /* number of data-parallel steps at the start */
    bool warms;                /* the warm-up is not over */
    double bytes, last;        /* bytes that the rank sent: in total, and for the last time (NAN if never) */
    double staleness, stalest; /* steps since the ranks last agreed: now (NAN if not known), and the maximum so far */
} run_agreement;
/* Returns false if the run has no outer steps. */
bool run_history_agreement(const run_history *h, run_agreement *out);
/* Writes the energy of the step `of`, or the mean of all steps if `of` is NULL, as "cpu 3.21 J, gpu unknown, ...".
 * Returns false if no energy was measured. */
bool run_history_joules(const run_history *h, const run_point *of, char out[200]);
/* Returns the mean joules of a part of the machine over all steps; NAN if not known. */
double run_history_step_joules(const run_history *h, energy_part part);
/* Returns the peak memory of this process in bytes; negative if not known. */
double run_peak_memory(void);

#endif
