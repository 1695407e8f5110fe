/* SPDX-License-Identifier: MIT
 * What a training run leaves behind for people to look at: log.jsonl and report.html in its folder, and TensorBoard's event
 * files where they are wanted. None of it can fail the run.
 */
#ifndef CLI_RUN_TELEMETRY_H
#define CLI_RUN_TELEMETRY_H

#include "cli/run/run_log.h"
#include "cli/run/tensorboard.h"
#include "train/data/corpus.h"

typedef struct telemetry {
    run_log log;
    tensorboard *board;
    const train_options *options;
    const char *run_dir;
    double seconds_before; /* of training, by the log of the run that was resumed */
} telemetry;

/* What every start record has: time, version, command and the options that are logged. The caller adds the run's own facts
 * ("unit": what "tokens" stand for). */
json_t *telemetry_record(const train_options *o);
/* Begins, or goes on after a resume. The options are borrowed, the record is taken over. `logdir` (NULL or "": none) gets a
 * folder of the run's name. Only the event file's failure is told. */
PROPANE_CHECK propane_status telemetry_open(telemetry *t, const train_options *o, json_t *record, const char *logdir,
                                            propane_error *err);
PROPANE_CHECK propane_status telemetry_page(const telemetry *t, propane_error *err); /* report.html without samples */

/* `power`: as run_log_step's. */
void telemetry_step(telemetry *t, const train_report *r, double seconds, const energy_reading *power);
void telemetry_evaluation(telemetry *t, const train_evaluation *e);
/* `state`: "done", "stopped", "failed", "restart". */
void telemetry_end(telemetry *t, const char *state, int64_t step);
void telemetry_close(telemetry *t);
/* report.html, with samples that the model writes if it is small enough to do so quickly. */
PROPANE_CHECK propane_status telemetry_report(const telemetry *t, const model_weights *weights, const corpus *data,
                                              propane_error *err);

#endif
