/* SPDX-License-Identifier: MIT
 * What a training run leaves behind for people to look at: log.jsonl and report.html in its folder, and TensorBoard's
 * event files where they are wanted. None of it can fail the run.
 */
#ifndef REPORT_RUN_TELEMETRY_H
#define REPORT_RUN_TELEMETRY_H

#include "report/run/run_log.h"
#include "report/run/tensorboard.h"

typedef struct telemetry {
    run_log log;
    tensorboard *board;
    const char *run_dir;   /* borrowed */
    double seconds_before; /* of training, by the log of the run that was resumed */
} telemetry;

/* All borrowed; run_dir until the end. */
typedef struct telemetry_options {
    const char *run_dir;
    bool resume;
    const json_t *log;  /* for the start record, beside time, version, command and machine; NULL: nothing */
    const char *logdir; /* gets a folder with the run's name for TensorBoard; NULL or "": none */
    int argc;           /* the command line of the start record */
    char *const *argv;
} telemetry_options;

/* Begins, or goes on after a resume. Only a failure to open the event file is an error. */
PROPANE_CHECK propane_status telemetry_open(telemetry *t, const telemetry_options *o, propane_error *err);
PROPANE_CHECK propane_status telemetry_page(const telemetry *t, propane_error *err); /* report.html without samples */

/* `power`: as run_log_step's. */
void telemetry_step(telemetry *t, const propane_step *r, double seconds, const energy_reading *power);
void telemetry_evaluation(telemetry *t, const propane_evaluation *e);
/* `state`: "done", "stopped", "failed", "restart". */
void telemetry_end(telemetry *t, const char *state, int64_t step);
void telemetry_close(telemetry *t);
/* report.html, with samples that the model writes if it is small enough to do so quickly. */
PROPANE_CHECK propane_status telemetry_report(telemetry *t, const propane_trainer *trainer, const json_t *facts,
                                              propane_error *err);

#endif
