/* SPDX-License-Identifier: MIT
 * What the two kinds of runs share and where they differ. A kind has a train_run as its first member and one
 * train_run_kind; the loop, the checkpoint and the cancelling are train_run.c's and checkpoint.c's.
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

/* What changes from step to step beside weights and moments. */
struct train_state {
    int64_t step;      /* steps done */
    int64_t updates;   /* of them, how many moved the weights */
    int64_t position;  /* windows or samples drawn from the data */
    int64_t evaluated; /* step of the last evaluation; -1: none */
    int64_t best;      /* step of the best one; -1: none */
    int64_t stale;     /* evaluations since then */
    double best_loss;
    double norm; /* of the last gradient that was finite; 0: there was none */
    train_scaler scaler;
};

/* Of one name in the checkpoint; fp32. */
struct train_tensor {
    const char *name;
    int rank;
    const int64_t *dim;
    int64_t count;
    float *data; /* NULL: the checkpoint does not hold it */
};

/* What a checkpoint's run must have in common with the one that goes on from it, beside the FIXED options. */
typedef struct train_fact {
    const char *key, *value;
    const char *what; /* for the message "PATH was made with WHAT THERE, not HERE" */
} train_fact;

enum {
    TRAIN_FACTS = 4,
    TRAIN_BLOCKS = 4, /* weights, first and second moments, the momentum of outer steps */
    TRAIN_OUTER_BLOCK = 3
};

/* The update of a step whose norm is not known yet. */
typedef struct train_ahead {
    adamw_step how;
    bool guessed; /* `update` follows and confirms it, or says another; else it is the update */
} train_ahead;

typedef struct train_run_kind {
    void (*free)(train_run *r);
    /* Over all of the step's batches: the mean loss and the length of its gradient; moves state.position. Stopped
     * between two batches, the position is where it was: PROPANE_ERR_CANCELLED. `ahead`: an update, which the last
     * batch brings with it; NULL: update follows. */
    propane_status (*gradients)(train_run *r, const train_ahead *ahead, double *loss, double *norm, propane_error *err);
    /* how->gradient_scale: what the gradient of the mean loss is multiplied by. */
    propane_status (*update)(train_run *r, adamw_step *how, propane_error *err);
    /* Device and host time of the step, which took `seconds`, and what was simulated. */
    void (*times)(train_run *r, double seconds, train_report *report);
    /* An update that goes on beside the device is over when it returns: before weights or moments are looked at. NULL:
     * none does. */
    propane_status (*settle)(train_run *r, propane_error *err);
    /* Is there anything to evaluate now? */
    bool (*evaluates)(const train_run *r);
    propane_status (*evaluate)(train_run *r, train_evaluation *out, propane_error *err);
    /* Programs that contain weights are made again; *over_budget: that is for a new process. NULL: there are none. */
    propane_status (*refresh)(train_run *r, bool *over_budget, propane_error *err);
    /* The weights were read from a file: copies of them follow. NULL: there are none. */
    propane_status (*publish)(train_run *r, propane_error *err);
    /* The name of a weight with numbers that are none; NULL: there is no such weight. */
    const char *(*not_finite)(const train_run *r);
    /* Writes what can be used before the run has ended: the weights now are the best so far, or the newest checkpoint's
     * where nothing has been validated. NULL: nothing can. There is a run folder. */
    propane_status (*draft)(train_run *r, propane_error *err);
    /* Writes what the run was for. There is a run folder. */
    propane_status (*finish)(train_run *r, propane_error *err);
    /* Metadata besides facts, options and state; NULL: none. */
    propane_status (*describe)(const train_run *r, safetensors_writer *w, propane_error *err);
    /* The reverse, against this run. */
    propane_status (*recognise)(const train_run *r, const safetensors *file, propane_error *err);
    int (*facts)(const train_run *r, train_fact out[TRAIN_FACTS]);
    /* Tensor `index` of a block. */
    int (*tensor_count)(const train_run *r);
    train_tensor (*tensor)(const train_run *r, int block, int index);
    /* Is tensor `index` learnt? NULL: all are. */
    bool (*learns)(const train_run *r, int index);
    /* Its data, which lasts until the next call, has been filled. NULL: it is what the run itself has. */
    void (*keep)(train_run *r, int block, int index);
} train_run_kind;

struct train_run {
    const train_run_kind *kind;
    arena *arena;
    train_options options; /* texts in the arena */
    train_state state;
    train_schedule schedule;
    workers who;
    train_group *group; /* NULL: alone */
    int64_t units;      /* tokens or samples of a step */
    int64_t saved;      /* step of the newest checkpoint; -1: none */
    int64_t lost;       /* steps in a row whose loss was not a number */
    timeline *timeline; /* NULL: no trace */
    const atomic_bool *cancel;
    atomic_bool *save; /* a checkpoint is wanted; NULL: no flag */
    bool ended;        /* the host wants it (poll.h) */
    bool asked;        /* by one of the ranks, since the last one */
    char *checkpoint;  /* NULL without a run folder */
    bool placed;       /* the run folder is known: */
    dev_t place_device;
    ino_t place_number;
    const char *refused; /* the folder for the smallest program that the device refuses; NULL: not asked for */
    char *best;          /* the weights of the best evaluation, if they are kept; else NULL */
};

/* First thing in making a run: checks and copies the options. `r` is all zeros; it is freed by the caller if this
 * fails. */
PROPANE_CHECK propane_status train_run_begin(train_run *r, const train_run_kind *kind, const train_options *options,
                                             propane_error *err);
/* The schedule, once the number of steps is known. */
void train_run_plan(train_run *r);
/* DIR/NAME; NULL in *out without a run folder. */
PROPANE_CHECK propane_status train_run_path(train_run *r, const char *name, char **out, propane_error *err);
/* Reads these blocks of the checkpoint, and with block 0 the state. */
PROPANE_CHECK propane_status train_run_load(train_run *r, int first, int last, propane_error *err);
/* PROPANE_ERR_CANCELLED: the work at hand is given up, the caller goes back to the end of the last step. All ranks stop
 * where one was told to, and learn that one was asked for a checkpoint. */
PROPANE_CHECK propane_status train_run_check_cancel(train_run *r, propane_error *err);

#endif
