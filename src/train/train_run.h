/* SPDX-License-Identifier: MIT
 * A training run. It reads options, data and a model, and writes checkpoints and a result into the run's folder. A run
 * resumed from its checkpoint continues bit for bit as if it had not been interrupted.
 *
 * There are two kinds, made by the language models' language_run.h and by train/imported_run.h. All operations on an
 * existing run are declared here.
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
    double loss;  /* mean over everything in the step's batches that counts; for a language model in nats per token */
    double lr, loss_scale, gradient_norm;
    bool skipped;        /* a gradient was not finite, so the weights did not change */
    double tokens_per_s; /* samples, for an imported model */
    double device_ms, host_ms;
    int64_t outer_bytes;       /* sent by this rank for an agreement that began here, or for a step of the warm-up */
    int64_t staleness;         /* steps since the ranks last agreed on the weights; -1 without outer steps */
    double outer_ms;           /* share of the step spent on agreeing, including waits for messages */
    train_simulated simulated; /* if simulated, device_ms is also from the model */
} train_report;

typedef struct train_evaluation {
    int64_t step;
    double val_loss;          /* defined as for the report */
    double val_nats_per_byte; /* negative if not known */
    double val_accuracy;      /* fraction classified correctly; negative if not known */
} train_evaluation;

/* Each of them may be NULL. */
typedef struct train_callbacks {
    void *context;
    void (*on_step)(void *context, const train_report *report);
    void (*on_evaluation)(void *context, const train_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} train_callbacks;

typedef struct train_run train_run;

void train_run_free(train_run *r);
/* Runs until `step`, at most until the last step of the run, after which the run is finished. If *cancel becomes true
 * (NULL means never), it finishes the batch, writes a checkpoint and returns PROPANE_ERR_CANCELLED. *restart means that
 * the compile budget is used up and the checkpoint is written; a new process must continue with --resume. Returns
 * PROPANE_ERR_LIMIT if the training has diverged. */
PROPANE_CHECK propane_status train_run_go_until(train_run *r, int64_t step, const train_callbacks *callbacks,
                                                const atomic_bool *cancel, bool *restart, propane_error *err);

/* The parts of that loop, for callers with their own loop. Brings programs that contain weights up to date; call it
 * before a step or an evaluation. *restart is as above, but nothing is saved. */
PROPANE_CHECK propane_status train_run_ready(train_run *r, bool *restart, propane_error *err);
/* Runs one step, even beyond the end of the schedule. With PROPANE_ERR_CANCELLED, nothing has changed. */
PROPANE_CHECK propane_status train_run_step(train_run *r, train_report *out, propane_error *err);
/* Returns PROPANE_ERR_INVALID if no data are held out. */
PROPANE_CHECK propane_status train_run_evaluate(train_run *r, train_evaluation *out, propane_error *err);
/* Writes the checkpoint, if there is a folder and it does not hold this step already. */
PROPANE_CHECK propane_status train_run_save(train_run *r, propane_error *err);
/* Writes the checkpoint and the result of the run into its folder; does nothing without one. */
PROPANE_CHECK propane_status train_run_finish(train_run *r, propane_error *err);
/* The trained tensors; `index` counts from 0. *data belongs to the run and may be changed between steps; call
 * train_run_changed afterwards. Returns false after the last one. */
typedef struct train_trained {
    const char *name;
    int rank;
    const int64_t *dim;
    int64_t count;
    float *data;
} train_trained;
bool train_run_trained(const train_run *r, int index, train_trained *out);
/* Updates the copies of the weights. The next evaluation and checkpoint are then due, whatever the step. */
PROPANE_CHECK propane_status train_run_changed(train_run *r, propane_error *err);
/* Sets the flag that stops steps and evaluations from then on; NULL means none. */
void train_run_cancel_by(train_run *r, const atomic_bool *cancel);
/* Sets a flag that any thread may set: the loop then writes a checkpoint after its step, clears the flag and continues.
 * NULL means no flag. */
void train_run_save_by(train_run *r, atomic_bool *save);

/* workers that update independently and synchronise from time to time; 1 without outer steps */
int train_run_workers(const train_run *r);
bool train_run_writes(const train_run *r); /* whether this process writes files */
/* Step and loss of the best validation; -1 if there was none. */
int64_t train_run_best(const train_run *r, double *loss);
bool train_run_keeps_best(const train_run *r); /* whether its weights are the ones written at the end */
bool train_run_is_over(const train_run *r); /* whether validations have not improved for as long as `patience` allows */
int64_t train_run_steps_done(const train_run *r);
/* The options as the run uses them, with automatic values resolved. */
const train_options *train_run_options(const train_run *r);

#endif
