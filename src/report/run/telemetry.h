/* SPDX-License-Identifier: MIT
 * Records of a training run for people: log.jsonl and report.html in its folder, and TensorBoard's event files on
 * request. None of it can make the run fail.
 */
#ifndef REPORT_RUN_TELEMETRY_H
#define REPORT_RUN_TELEMETRY_H

#include "report/run/run_log.h"
#include "report/run/tensorboard.h"

typedef struct telemetry {
    run_log log;
    tensorboard *board;
    const char *run_dir;   /* borrowed */
    double seconds_before; /* seconds of training, from the log of the resumed run */
} telemetry;

/* All borrowed, run_dir until the end. */
typedef struct telemetry_options {
    const char *run_dir;
    bool resume;
    const json_t *log;  /* for the start record, besides time, version, command and machine; NULL for nothing */
    const char *logdir; /* folder for TensorBoard, in which a folder with the run's name is made; NULL or "" for none */
    int argc;           /* the command line for the start record */
    char *const *argv;
} telemetry_options;

/* Begins, or continues after a resume. Only a failure to open the event file is an error. */
PROPANE_CHECK propane_status telemetry_open(telemetry *t, const telemetry_options *o, propane_error *err);
/* writes report.html without samples */
PROPANE_CHECK propane_status telemetry_page(const telemetry *t, propane_error *err);

/* `power` is as in run_log_step. */
void telemetry_step(telemetry *t, const propane_step *r, double seconds, const energy_reading *power);
void telemetry_evaluation(telemetry *t, const propane_evaluation *e);
/* `state` is "done", "stopped", "failed" or "restart". */
void telemetry_end(telemetry *t, const char *state, int64_t step);
void telemetry_close(telemetry *t);
/* Writes report.html with samples from the model, if it is small enough to write them quickly. */
PROPANE_CHECK propane_status telemetry_report(telemetry *t, const propane_trainer *trainer, const json_t *facts,
                                              propane_error *err);

#endif
