/* SPDX-License-Identifier: MIT
 * The parts that the two kinds of runs share, and the table of those that differ. A kind has a train_run as its first
 * member and one train_run_kind. The loop and cancelling are in train_run.c, the checkpoint in checkpoint.c.
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

/* The data of one name in the checkpoint, in fp32. */
struct train_tensor {
    const char *name;
    int rank;
    const int64_t *dim;
    int64_t count;
    float *data; /* NULL if the checkpoint does not hold it */
};

/* A property that a checkpoint's run must share with the run that continues from it, besides the FIXED options. */
typedef struct train_fingerprint {
    const char *key, *value;
    const char *what; /* for the message "PATH was made with WHAT THERE, not HERE" */
} train_fingerprint;

enum {
    TRAIN_FINGERPRINTS = 4,
    TRAIN_BLOCKS = 4, /* weights, first and second moments, the momentum of outer steps */
    TRAIN_OUTER_BLOCK = 3
};

/* The update of a step whose norm is not yet known. */
typedef struct train_ahead {
    adamw_step how;
    /* if true, `update` is still called, to confirm it or to use another; otherwise this is the update */
    bool speculative;
} train_ahead;

typedef struct train_run_kind {
    void (*free)(train_run *r);
    /* Computes the mean loss over all of the step's batches and the norm of its gradient, and advances state.position.
     * If it is stopped between two batches, it returns PROPANE_ERR_CANCELLED and leaves the position unchanged. `ahead`
     * is an update that the last batch includes; if it is NULL, `update` is called afterwards. */
    propane_status (*gradients)(train_run *r, const train_ahead *ahead, double *loss, double *norm, propane_error *err);
    /* how->gradient_scale is the factor of the gradient of the mean loss. */
    propane_status (*update)(train_run *r, adamw_step *how, propane_error *err);
    /* Fills in the device and host time of the step, which took `seconds`, and what was simulated. */
    void (*times)(train_run *r, double seconds, train_report *report);
    /* Completes an update that runs in parallel with the device; called before weights or moments are read. NULL if
     * there are no such updates. */
    propane_status (*settle)(train_run *r, propane_error *err);
    /* Returns whether there is anything to evaluate now. */
    bool (*evaluates)(const train_run *r);
    propane_status (*evaluate)(train_run *r, train_evaluation *out, propane_error *err);
    /* Compiles programs that contain weights again. *over_budget means that a new process must do it. NULL if there are
     * none. */
    propane_status (*refresh)(train_run *r, bool *over_budget, propane_error *err);
    /* Updates the copies of the weights after these were read from a file. NULL if there are none. */
    propane_status (*publish)(train_run *r, propane_error *err);
    /* Returns the name of a weight with non-finite numbers, or NULL if there is none. */
    const char *(*not_finite)(const train_run *r);
    /* Writes a usable result before the run has ended: the current weights are the best so far or, if nothing has been
     * validated, those of the newest checkpoint. NULL if that is not possible. Requires a run folder. */
    propane_status (*draft)(train_run *r, propane_error *err);
    /* Writes the result of the run. Requires a run folder. */
    propane_status (*finish)(train_run *r, propane_error *err);
    /* Writes metadata besides fingerprints, options and state; NULL if there is none. */
    propane_status (*describe)(const train_run *r, safetensors_writer *w, propane_error *err);
    /* Reads that metadata and checks it against this run. */
    propane_status (*recognise)(const train_run *r, const safetensors *file, propane_error *err);
    int (*fingerprints)(const train_run *r, train_fingerprint out[TRAIN_FINGERPRINTS]);
    /* Returns tensor `index` of a block. */
    int (*tensor_count)(const train_run *r);
    train_tensor (*tensor)(const train_run *r, int block, int index);
    /* Returns whether tensor `index` is trained; NULL means that all are. */
    bool (*learns)(const train_run *r, int index);
    /* Takes back a tensor's data, valid until the next call, after it was filled. NULL if the data are the run's
     * memory. */
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
    int64_t lost;       /* consecutive steps whose loss was not a number */
    timeline *timeline; /* NULL without a trace */
    const atomic_bool *cancel;
    atomic_bool *save; /* a checkpoint is requested; NULL without a flag */
    bool ended;        /* the host requests the end (poll.h) */
    bool asked;        /* requested by one of the ranks since the last checkpoint */
    char *checkpoint;  /* NULL without a run folder */
    bool placed;       /* the run folder is known */
    dev_t place_device;
    ino_t place_number;
    const char *refused; /* the folder for the smallest program that the device refuses; NULL if not requested */
    char *best;          /* file of the best evaluation's weights if they are kept, otherwise NULL */
};

/* The first step in making a run: checks and copies the options. `r` must be all zeros; the caller frees it if this
 * fails. */
PROPANE_CHECK propane_status train_run_begin(train_run *r, const train_run_kind *kind, const train_options *options,
                                             propane_error *err);
/* Sets up the schedule once the number of steps is known. */
void train_run_plan(train_run *r);
/* Returns DIR/NAME, or NULL in *out without a run folder. */
PROPANE_CHECK propane_status train_run_path(train_run *r, const char *name, char **out, propane_error *err);
/* Reads these blocks of the checkpoint and, with block 0, the state. */
PROPANE_CHECK propane_status train_run_load(train_run *r, int first, int last, propane_error *err);
/* Returns PROPANE_ERR_CANCELLED if the current work must be abandoned; the caller returns to the end of the last step.
 * If one rank was asked to stop, all stop; if one was asked for a checkpoint, all are informed. */
PROPANE_CHECK propane_status train_run_check_cancel(train_run *r, propane_error *err);

#endif
