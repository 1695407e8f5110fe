/* SPDX-License-Identifier: MIT
 * A training run: options, data and a model in, checkpoints and a result in the run's folder out. Resumed from its
 * checkpoint, a run goes on bit for bit as if it had not been interrupted.
 *
 * There are two kinds, made by the language models' language_run.h and by train/imported_run.h; all that is done with a
 * run once it is made is here.
 */
#ifndef TRAIN_TRAIN_RUN_H
#define TRAIN_TRAIN_RUN_H

#include <stdatomic.h>

#include "core/base/status.h"
#include "train/train_options.h"

#define TRAIN_CHECKPOINT "checkpoint.safetensors"
#define TRAIN_REFUSED    "refused" /* a folder */
#define TRAIN_BEST       "best.safetensors"
#define TRAIN_RECORD     "train.json" /* the options that repeat the run, for --config */
#define TRAIN_MODEL      "model.safetensors"
#define TRAIN_CONFIG     "config.json"
#define TRAIN_PACKAGE    "model.mlpackage"

/* Where the device is simulated: energy and arithmetic of its kernels, by the model of the chip. */
typedef struct train_simulated {
    bool simulated; /* false: the rest is 0 */
    double energy_j, flops;
} train_simulated;

typedef struct train_report {
    int64_t step; /* 1 after the first */
    double loss;  /* mean over all that counts in the step's batches; a language model's in nats per token */
    double lr, loss_scale, gradient_norm;
    bool skipped;        /* a gradient was not finite: the weights did not move */
    double tokens_per_s; /* samples, for an imported model */
    double device_ms, host_ms;
    int64_t outer_bytes;       /* that this rank sent for an agreement that began here, or for a step of the warm-up */
    int64_t staleness;         /* steps since the ranks last agreed on the weights; -1: no outer steps */
    double outer_ms;           /* what agreeing took of the step, waiting for messages included */
    train_simulated simulated; /* then device_ms is a model's, too */
} train_report;

typedef struct train_evaluation {
    int64_t step;
    double val_loss;          /* as the report's */
    double val_nats_per_byte; /* negative: not known */
    double val_accuracy;      /* part of what was classified that is right; negative: not known */
} train_evaluation;

/* Each may be NULL. */
typedef struct train_callbacks {
    void *context;
    void (*on_step)(void *context, const train_report *report);
    void (*on_evaluation)(void *context, const train_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} train_callbacks;

typedef struct train_run train_run;

void train_run_free(train_run *r);
/* Until the last step. *cancel (NULL: never) becomes true: the batch is finished, a checkpoint written,
 * PROPANE_ERR_CANCELLED returned. *restart: the compile budget is used up, the checkpoint is written, and the rest
 * belongs to a new process with --resume. PROPANE_ERR_LIMIT: the training has diverged. */
PROPANE_CHECK propane_status train_run_go(train_run *r, const train_callbacks *callbacks, const atomic_bool *cancel,
                                          bool *restart, propane_error *err);

/* The same, until `step` at the latest; before the last one nothing is finished. */
PROPANE_CHECK propane_status train_run_go_until(train_run *r, int64_t step, const train_callbacks *callbacks,
                                                const atomic_bool *cancel, bool *restart, propane_error *err);

/* What that loop is made of, for callers with a loop of their own. Before a step or an evaluation: programs that
 * contain weights are brought up to date; *restart as above, but nothing is saved. */
PROPANE_CHECK propane_status train_run_ready(train_run *r, bool *restart, propane_error *err);
/* One step, also beyond the last one of the schedule. PROPANE_ERR_CANCELLED: nothing has moved. */
PROPANE_CHECK propane_status train_run_step(train_run *r, train_report *out, propane_error *err);
/* PROPANE_ERR_INVALID: nothing is held out. */
PROPANE_CHECK propane_status train_run_evaluate(train_run *r, train_evaluation *out, propane_error *err);
/* The checkpoint, where there is a folder and it does not hold this step already. */
PROPANE_CHECK propane_status train_run_save(train_run *r, propane_error *err);
/* The checkpoint and what the run was for, into its folder; nothing without one. */
PROPANE_CHECK propane_status train_run_finish(train_run *r, propane_error *err);
/* The tensors that are learnt, `index` from 0: *data is the run's own, to be changed between steps, and then
 * train_run_changed is called. False after the last one. */
typedef struct train_learnt {
    const char *name;
    int rank;
    const int64_t *dim;
    int64_t count;
    float *data;
} train_learnt;
bool train_run_learnt(const train_run *r, int index, train_learnt *out);
/* Copies of the weights follow; the next evaluation and checkpoint are made whatever the step. */
PROPANE_CHECK propane_status train_run_changed(train_run *r, propane_error *err);
/* The flag that stops steps and evaluations from now on; NULL: none. */
void train_run_cancel_by(train_run *r, const atomic_bool *cancel);
/* *save, set from anywhere: the loop writes a checkpoint after its step, clears it and goes on. NULL: no flag. */
void train_run_save_by(train_run *r, atomic_bool *save);

int train_run_workers(const train_run *r); /* that make updates of their own and agree from time to time; 1: none do */
bool train_run_writes(const train_run *r); /* is this the process that writes files? */
/* Step and loss of the best validation; -1: there was none. */
int64_t train_run_best(const train_run *r, double *loss);
bool train_run_keeps_best(const train_run *r); /* its weights are what is written at the end */
bool train_run_is_over(const train_run *r);    /* validations have not become better for as long as `patience` says */
int64_t train_run_steps_done(const train_run *r);
/* As the run has them: what was left to it is decided. */
const train_options *train_run_options(const train_run *r);

#endif
