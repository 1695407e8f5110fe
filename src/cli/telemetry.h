/* SPDX-License-Identifier: MIT
 * What a training run leaves behind for people to look at: log.jsonl and report.html in its folder, and TensorBoard's event
 * files where they are wanted. None of it can fail the run.
 */
#ifndef CLI_TELEMETRY_H
#define CLI_TELEMETRY_H

#include "cli/corpus.h"
#include "cli/runlog.h"
#include "cli/tensorboard.h"

typedef struct telemetry {
    run_log log;
    tensorboard *board;
    const train_options *options;
    double seconds_before; /* of training, by the log of the run that was resumed */
} telemetry;

/* Begins, or goes on after a resume. `logdir` (NULL or "": none) gets a folder of the run's name. Only the event file's
 * failure is told. */
PROPANE_CHECK propane_status telemetry_open(telemetry *t, const train_options *o, const char *logdir,
                                            const trainer *trainer, const corpus *data, propane_error *err);
void telemetry_step(telemetry *t, const train_report *r, double seconds);
void telemetry_evaluation(telemetry *t, const train_evaluation *e);
/* `state`: "done", "stopped", "failed", "restart". */
void telemetry_end(telemetry *t, const char *state, int64_t step);
void telemetry_close(telemetry *t);
/* report.html, with samples that the model writes if it is small enough to do so quickly. */
PROPANE_CHECK propane_status telemetry_report(const telemetry *t, const model_weights *weights, const corpus *data,
                                              propane_error *err);

#endif
