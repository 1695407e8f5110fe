/* SPDX-License-Identifier: MIT
 * Declares the records of a training run for people: log.jsonl and report.html in its folder, and TensorBoard's event
 * files on request. After the run has begun, a record that cannot be written does not make the run fail.
 */
#ifndef REPORT_RUN_TELEMETRY_H
#define REPORT_RUN_TELEMETRY_H

#include "report/run/run_log.h"
#include "report/run/tensorboard.h"

typedef struct telemetry {
    run_log log;
    tensorboard *board;
    const char *run_dir;   /* must outlive the telemetry */
    double seconds_before; /* seconds of training before the resume, from the run's log; 0 for a new run */
} telemetry;

/* The options of telemetry_open. The memory of run_dir must stay valid until the end of the run; the other members'
 * memory must stay valid during the call. */
typedef struct telemetry_options {
    const char *run_dir;
    bool resume;
    const json_t *log;  /* further keys of the start record, after time, version and command; NULL for none */
    const char *logdir; /* folder in which TensorBoard's folder with the run's name is created; NULL or "" for none */
    int argc;           /* the command line for the start record */
    char *const *argv;
} telemetry_options;

/* Opens the log and the event file, and writes the start record. Fails only if the event file cannot be opened. */
PROPANE_CHECK propane_status telemetry_open(telemetry *t, const telemetry_options *o, propane_error *err);
/* Writes report.html without new samples. */
PROPANE_CHECK propane_status telemetry_page(const telemetry *t, propane_error *err);

/* Adds the record of a step. `seconds` is the time of training in this process. `power` is as in run_log_step. */
void telemetry_step(telemetry *t, const propane_step *r, double seconds, const energy_reading *power);
void telemetry_evaluation(telemetry *t, const propane_evaluation *e);
/* Adds the record of the run's end. `state` is "done", "stopped", "failed" or "restart". */
void telemetry_end(telemetry *t, const char *state, int64_t step);
void telemetry_close(telemetry *t);
/* Writes report.html. It contains samples from the model if the model is small enough to generate them quickly. */
PROPANE_CHECK propane_status telemetry_report(telemetry *t, const propane_trainer *trainer, const json_t *facts,
                                              propane_error *err);

#endif
