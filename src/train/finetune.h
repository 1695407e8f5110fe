/* SPDX-License-Identifier: MIT
 * Fine-tuning of an imported program: samples in, a package with new weights out. Resumed from its checkpoint, a run goes on
 * bit for bit as if it had not been interrupted.
 *
 * A run folder holds checkpoint.safetensors (weights under their names, moments as optimizer.1.NAME and optimizer.2.NAME, the
 * run's options and state in the metadata) and, once it is done, model.mlpackage.
 */
#ifndef TRAIN_FINETUNE_H
#define TRAIN_FINETUNE_H

#include "train/import/imported_step.h"
#include "train/trainer.h"

#define IMPORTED_PACKAGE "model.mlpackage"

typedef struct tune_options {
    imported_model_options model;
    int64_t steps, batch, accumulate; /* samples of a step: batch * accumulate */
    double lr, min_lr;
    int64_t warmup;
    double weight_decay, beta1, beta2, epsilon, clip; /* decay: of weights with two dimensions and more; clip 0: none */
    int64_t seed;
    bool shuffle;
    const char *device;
    int64_t eval_interval;       /* 0: at the end only */
    int64_t checkpoint_interval; /* 0: at the end only */
    const char *run_dir;         /* NULL: nothing is written */
    bool resume;
} tune_options;

void tune_options_default(tune_options *o);

typedef struct tune_evaluation {
    int64_t step;
    double loss;
    double accuracy; /* negative: the loss is no cross-entropy */
} tune_evaluation;

/* Each may be NULL. */
typedef struct tune_callbacks {
    void *context;
    void (*on_step)(void *context, const train_report *report); /* tokens are samples */
    void (*on_evaluation)(void *context, const tune_evaluation *evaluation);
    void (*on_checkpoint)(void *context, int64_t step, const char *path);
} tune_callbacks;

typedef struct tune tune;

/* Options, model and source are borrowed until tune_free. */
PROPANE_CHECK propane_status tune_create(const tune_options *options, imported_model *model,
                                         const sample_source *source, tune **out, propane_error *err);
void tune_free(tune *t);
/* Until the last step. *cancel becomes true: the step is finished, a checkpoint written, PROPANE_ERR_CANCELLED returned. A
 * loss that is no number ends the run before the weights are moved: PROPANE_ERR_LIMIT. */
PROPANE_CHECK propane_status tune_run(tune *t, const tune_callbacks *callbacks, const volatile bool *cancel,
                                      propane_error *err);
int64_t tune_steps_done(const tune *t);
imported_step *tune_machine(const tune *t);

/* ---- checkpoints --------------------------------------------------------------------------------------------------------- */

typedef struct tune_state {
    int64_t step;      /* steps done, each of which moved the weights */
    int64_t evaluated; /* step of the last evaluation; -1: none */
} tune_state;

/* Sets the options that the checkpoint's run was made with; their texts are put into the arena. */
PROPANE_CHECK propane_status tune_recall(const char *path, arena *a, tune_options *options, propane_error *err);
/* moments: first and second of each weight. */
PROPANE_CHECK propane_status tune_checkpoint_write(const char *path, const tune_options *options,
                                                   const sample_source *source, const tune_state *state,
                                                   const imported_model *model, const imported_step *step,
                                                   float *const *moments, propane_error *err);
PROPANE_CHECK propane_status tune_checkpoint_read(const char *path, const tune_options *options,
                                                  const sample_source *source, tune_state *state,
                                                  const imported_model *model, const imported_step *step,
                                                  float *const *moments, propane_error *err);

#endif
