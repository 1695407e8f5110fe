/* SPDX-License-Identifier: MIT
 * What a training run leaves behind for people to look at: log.jsonl and report.html in its folder, and TensorBoard's event
 * files where they are wanted. None of it can fail the run.
 */
#ifndef CLI_RUN_TELEMETRY_H
#define CLI_RUN_TELEMETRY_H

#include "cli/corpus.h"
#include "cli/run/run_log.h"
#include "cli/run/tensorboard.h"

typedef struct telemetry {
    run_log log;
    tensorboard *board;
    const train_options *options; /* of a language model's run; else NULL */
    const char *run_dir;
    double seconds_before; /* of training, by the log of the run that was resumed */
} telemetry;

/* Begins, or goes on after a resume. `logdir` (NULL or "": none) gets a folder of the run's name. Only the event file's
 * failure is told. */
PROPANE_CHECK propane_status telemetry_open(telemetry *t, const train_options *o, const char *logdir,
                                            const trainer *trainer, const corpus *data, propane_error *err);
/* The same for runs of other kinds. A record has what every start record has: time, version, command; the caller adds the
 * run's own facts ("unit": what "tokens" stand for) and gives it away. */
json_t *telemetry_record(void);
PROPANE_CHECK propane_status telemetry_begin(telemetry *t, const char *run_dir, bool resume, json_t *record,
                                             const char *logdir, propane_error *err);
void telemetry_judgement(telemetry *t, int64_t step, double loss, double accuracy);  /* negative: not known */
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
