/* SPDX-License-Identifier: MIT
 * The state that all kinds of runs share, and the table of functions in which they differ. A kind of run is a struct
 * whose first member is a train_run, and one train_run_kind. train_run.c owns the loop and cancelling, and checkpoint.c
 * the checkpoint.
 */
#ifndef TRAIN_TRAIN_RUN_INTERNAL_H
#define TRAIN_TRAIN_RUN_INTERNAL_H

#include <sys/types.h>

#include "core/base/arena.h"
#include "core/base/timeline.h"
#include "core/files/safetensors.h"
#include "train/checkpoint.h"
#include "train/dist/group.h"
#include "train/dist/workers.h"
#include "train/optim/adamw.h"
#include "train/optim/scaler.h"
#include "train/optim/schedule.h"
#include "train/train_run.h"

/* The state that changes from step to step, besides weights and moments. */
struct train_state {
    int64_t step;      /* steps done */
    int64_t updates;   /* steps that changed the weights */
    int64_t position;  /* windows or samples drawn from the data */
    int64_t evaluated; /* step of the last evaluation, or -1 */
    int64_t best;      /* step of the best evaluation, or -1 */
    int64_t stale;     /* evaluations since the best one */
    double best_loss;
    double norm; /* norm of the last finite gradient; 0 if there was none */
    train_scaler scaler;
};

/* A tensor of the checkpoint, in fp32. */
struct train_tensor {
    const char *name;
    int rank;
    const int64_t *dim;
    int64_t count;
    float *data; /* NULL if the checkpoint does not hold it */
};

/* A property, in addition to the FIXED options, that must be the same in a checkpoint and in the run that continues
 * from it. */
typedef struct train_fingerprint {
    const char *key, *value;
    const char *what; /* for the message "PATH was made with WHAT THERE, not HERE" */
} train_fingerprint;

enum {
    TRAIN_FINGERPRINTS = 4,
    TRAIN_BLOCKS = 4, /* weights, first and second moments, the momentum of outer steps */
    TRAIN_OUTER_BLOCK = 3
};

/* The update of a step whose gradient norm is not known yet. */
typedef struct train_ahead {
    adamw_step how;
    /* if true, `update` is called afterwards and confirms or corrects this update; otherwise this update is final */
    bool speculative;
} train_ahead;

typedef struct train_run_kind {
    void (*free)(train_run *r);
    /* Computes the mean loss over all of the step's batches and the norm of its gradient, and advances state.position.
     * If it is stopped between two batches, it returns PROPANE_ERR_CANCELLED and leaves the position unchanged. `ahead`
     * is an update that is part of the last batch. If it is NULL, `update` is called afterwards. */
    propane_status (*gradients)(train_run *r, const train_ahead *ahead, double *loss, double *norm, propane_error *err);
    /* how->gradient_scale is the factor of the gradient of the mean loss. */
    propane_status (*update)(train_run *r, adamw_step *how, propane_error *err);
    /* Sets the device and host times of the step, which took `seconds`, and its simulated values in the report. */
    void (*times)(train_run *r, double seconds, train_report *report);
    /* Completes an update that runs in parallel with the device. Called before weights or moments are read. NULL if
     * there are no such updates. */
    propane_status (*settle)(train_run *r, propane_error *err);
    /* Returns whether there is anything to evaluate now. */
    bool (*evaluates)(const train_run *r);
    propane_status (*evaluate)(train_run *r, train_evaluation *out, propane_error *err);
    /* Compiles programs that contain weights again. Sets *over_budget if a new process must do so. NULL if no program
     * contains weights. */
    propane_status (*refresh)(train_run *r, bool *over_budget, propane_error *err);
    /* Updates the device's copies of the weights after the weights were changed. NULL if there are no copies. */
    propane_status (*publish)(train_run *r, propane_error *err);
    /* Returns the name of a weight with non-finite numbers, or NULL if there is none. */
    const char *(*not_finite)(const train_run *r);
    /* Writes a usable result before the run has ended. It is called when the current weights are the best so far or,
     * before any validation, those of the newest checkpoint. NULL if there is no such result. Requires a run folder. */
    propane_status (*draft)(train_run *r, propane_error *err);
    /* Writes the result of the run. Requires a run folder. */
    propane_status (*finish)(train_run *r, propane_error *err);
    /* Writes the metadata other than fingerprints, options and state. NULL if there is none. */
    propane_status (*describe)(const train_run *r, safetensors_writer *w, propane_error *err);
    /* Checks that metadata in a checkpoint against this run. NULL if there is none. */
    propane_status (*recognise)(const train_run *r, const safetensors *file, propane_error *err);
    int (*fingerprints)(const train_run *r, train_fingerprint out[TRAIN_FINGERPRINTS]);
    /* Return the number of tensors of a block, and tensor `index` of a block. */
    int (*tensor_count)(const train_run *r);
    train_tensor (*tensor)(const train_run *r, int block, int index);
    /* Returns whether tensor `index` is trained; NULL means that all are. */
    bool (*learns)(const train_run *r, int index);
    /* Stores a tensor's data after they were filled in; `data` from `tensor` is then a copy that is valid until the
     * next call. NULL if `data` is the run's own memory. */
    void (*keep)(train_run *r, int block, int index);
} train_run_kind;

struct train_run {
    const train_run_kind *kind;
    arena *arena;
    train_options options; /* texts in the arena */
    train_state state;
    train_schedule schedule;
    workers who;
    train_group *group; /* NULL for a single process */
    int64_t units;      /* tokens or samples per step */
    int64_t saved;      /* step of the newest checkpoint, or -1 */
    int64_t lost;       /* consecutive steps whose loss was not finite */
    timeline *timeline; /* NULL without a trace */
    const atomic_bool *cancel;
    atomic_bool *save; /* a checkpoint is requested; NULL without a flag */
    bool ended;        /* the host program has requested a stop (poll.h) */
    bool asked;        /* one of the ranks has requested a checkpoint since the last one */
    char *checkpoint;  /* NULL without a run folder */
    bool placed;       /* place_device and place_number identify the run's folder */
    dev_t place_device;
    ino_t place_number;
    /* the folder that receives the smallest program that the device refuses; NULL if not requested */
    const char *refused;
    char *best; /* file of the best evaluation's weights if they are kept, otherwise NULL */
};

/* Begins to create a run: checks and copies the options. `r` must be all zeros; the caller frees it if this fails. */
PROPANE_CHECK propane_status train_run_begin(train_run *r, const train_run_kind *kind, const train_options *options,
                                             propane_error *err);
/* Sets up the schedule once the number of steps is known. */
void train_run_plan(train_run *r);
/* Sets *out to DIR/NAME, or to NULL without a run folder. */
PROPANE_CHECK propane_status train_run_path(train_run *r, const char *name, char **out, propane_error *err);
/* Reads these blocks of the checkpoint and, with block 0, the state. */
PROPANE_CHECK propane_status train_run_load(train_run *r, int first, int last, propane_error *err);
/* Returns PROPANE_ERR_CANCELLED if the current work must be abandoned; the caller then restores the state after the
 * last step. If one rank was asked to stop, all ranks stop. If one rank was asked for a checkpoint, r->asked becomes
 * true on all ranks. */
PROPANE_CHECK propane_status train_run_check_cancel(train_run *r, propane_error *err);

#endif
