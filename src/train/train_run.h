/* SPDX-License-Identifier: MIT
 * A training run. It reads options, data and a model, and writes checkpoints and a result into its folder. A run that
 * is resumed from its checkpoint continues bit for bit as if it had not been interrupted.
 *
 * There are two kinds of runs, which lm/run/language_run.h and train/imported_run.h create. This header declares all
 * operations on an existing run.
 */
#ifndef TRAIN_TRAIN_RUN_H
#define TRAIN_TRAIN_RUN_H

#include <stdatomic.h>

#include "core/base/status.h"
#include "train/train_options.h"

#define TRAIN_CHECKPOINT "checkpoint.safetensors"
#define TRAIN_REFUSED    "refused" /* a folder */
#define TRAIN_BEST       "best.safetensors"
#define TRAIN_RECORD     "train.json" /* options that repeat the run, for --config */
#define TRAIN_MODEL      "model.safetensors"
#define TRAIN_CONFIG     "config.json"
#define TRAIN_PACKAGE    "model.mlpackage"

/* Energy and arithmetic of the kernels of a simulated device, from the model of the chip. */
typedef struct train_simulated {
    bool simulated; /* if false, the rest is 0 */
    double energy_j, flops;
} train_simulated;

typedef struct train_report {
    int64_t step; /* the first step is 1 */
    double loss;  /* mean over all targets in the step's batches that count; for a language model in nats per token */
    double lr, loss_scale, gradient_norm;
    bool skipped;        /* a gradient was not finite, so the weights did not change */
    double tokens_per_s; /* samples per second for an imported program */
    double device_ms, host_ms;
    /* bytes that this rank sent to synchronise after this step, or for a step of the warm-up; otherwise 0 */
    int64_t outer_bytes;
    int64_t staleness;         /* steps since all ranks last had the same weights; -1 without outer steps */
    double outer_ms;           /* time of the step spent on synchronising, including waits for messages */
    train_simulated simulated; /* if it is simulated, device_ms also comes from the model of the chip */
} train_report;

typedef struct train_evaluation {
    int64_t step;
    double val_loss;          /* defined as train_report.loss */
    double val_nats_per_byte; /* negative if not known */
    double val_accuracy;      /* fraction classified correctly; negative if not known */
} train_evaluation;

/* Each callback may be NULL. */
typedef struct train_callbacks {
    void *context;
    void (*on_step)(void *context, const train_report *report);
    void (*on_evaluation)(void *context, const train_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} train_callbacks;

typedef struct train_run train_run;

void train_run_free(train_run *r);
/* Runs until `step`, or until the run's last step, after which the run is finished. If *cancel becomes true (NULL means
 * never), stops, writes a checkpoint and returns PROPANE_ERR_CANCELLED. Sets *restart if the compile budget is used up
 * and the checkpoint is written; a new process must then continue with --resume. Returns PROPANE_ERR_LIMIT if the
 * training has diverged. */
PROPANE_CHECK propane_status train_run_go_until(train_run *r, int64_t step, const train_callbacks *callbacks,
                                                const atomic_bool *cancel, bool *restart, propane_error *err);

/* The parts of that loop, for callers with their own loop. train_run_ready brings programs that contain weights up to
 * date and must be called before a step or an evaluation. It sets *restart if the compile budget is used up, but saves
 * nothing. */
PROPANE_CHECK propane_status train_run_ready(train_run *r, bool *restart, propane_error *err);
/* Runs one step, even beyond the end of the schedule. If it returns PROPANE_ERR_CANCELLED, nothing has changed. */
PROPANE_CHECK propane_status train_run_step(train_run *r, train_report *out, propane_error *err);
/* Returns PROPANE_ERR_INVALID if no data are held out. */
PROPANE_CHECK propane_status train_run_evaluate(train_run *r, train_evaluation *out, propane_error *err);
/* Writes the checkpoint if the run has a folder and its checkpoint is not already of this step. */
PROPANE_CHECK propane_status train_run_save(train_run *r, propane_error *err);
/* Writes the checkpoint and the result of the run into its folder. Without a folder, writes nothing. */
PROPANE_CHECK propane_status train_run_finish(train_run *r, propane_error *err);
/* A trained tensor. train_run_trained returns tensor `index`, counted from 0, or false after the last one. `data`
 * belongs to the run and may be changed between steps; call train_run_changed afterwards. */
typedef struct train_trained {
    const char *name;
    int rank;
    const int64_t *dim;
    int64_t count;
    float *data;
} train_trained;
bool train_run_trained(const train_run *r, int index, train_trained *out);
/* Updates the device's copies of the weights after the caller has changed them. The next evaluation and checkpoint then
 * do not count as done for the current step. */
PROPANE_CHECK propane_status train_run_changed(train_run *r, propane_error *err);
/* Sets the flag that stops steps and evaluations from then on; NULL means none. */
void train_run_cancel_by(train_run *r, const atomic_bool *cancel);
/* Sets a flag that any thread may set: the loop then writes a checkpoint after its step, clears the flag and continues.
 * NULL means no flag. */
void train_run_save_by(train_run *r, atomic_bool *save);

/* Returns the number of workers that train independently and synchronise from time to time; 1 without outer steps. */
int train_run_workers(const train_run *r);
bool train_run_writes(const train_run *r); /* whether this process writes files */
/* Returns the step of the best validation, or -1 if there was none, and sets *loss to its loss. */
int64_t train_run_best(const train_run *r, double *loss);
bool train_run_keeps_best(const train_run *r); /* whether the best weights are written at the end */
bool train_run_is_over(const train_run *r); /* whether validations have not improved for as long as `patience` allows */
int64_t train_run_steps_done(const train_run *r);
/* Returns the options as the run uses them, with automatic values resolved. */
const train_options *train_run_options(const train_run *r);

#endif
