/* SPDX-License-Identifier: MIT
 * What the files of the training step share: its state. step_programs.c makes programs, step_buffers.c the memory and
 * the requests, step_execute.c runs them, step_optimiser.c has gradients and moments, step_units.c, step_update.c and
 * step_early.c move weights, step_outside.c shows them, step.c makes and frees all of it.
 */
#ifndef LM_STEP_STEP_INTERNAL_H
#define LM_STEP_STEP_INTERNAL_H

#include "lm/step/dataflow.h"
#include "lm/step/loss.h"
#include "lm/step/step.h"
#include "lm/step/update_thread.h"
#include "lm/step/weight_packing.h"

typedef struct step_kernel {
    propane_program *program[2]; /* [1]: the form that adds to the sums */
    bool baked;                  /* each call has a program of its own, with its weights as constants */
    packing *packing;            /* the form in which the program gets its inputs; NULL: one buffer each */
    int64_t calls, ns;           /* since the step was made */
    int64_t engine_ns, repeats;
    bool counted; /* engine_ns is given */
} step_kernel;

enum { STEP_CALL_UNITS = 2 };

typedef struct step_call {
    propane_program *own; /* baked */
    propane_request *request[2];
    propane_buffer *packed;                /* its kernel is packed */
    int unit[STEP_CALL_UNITS], unit_count; /* of weights that it reads */
} step_call;

/* Weights that are updated at a time: what one instance's kernels read. */
typedef struct step_unit {
    int instance;        /* -1: what no kernel reads */
    int *learnt, count;  /* tensors, numbered as they are learnt */
    propane_event *done; /* its value: the number of the last update that is over */
    int last[2];         /* the last call of each queue that reads the weights or writes their gradients; -1: none */
    bool gathered;       /* a table's gradient is complete when the host has added the embedding's share */
    bool locked, pushed; /* its buffers; in the update beside the batch at hand */
} step_unit;

typedef struct step_updates {
    update_thread *thread;
    step_unit *units;
    int unit_count;
    int *unit_of, *order; /* [tensor]; memory of the units' lists */
    uint64_t number;      /* of the update that was begun last */
    bool begun;           /* beside the batch at hand */
} step_updates;

/* In the form of the options. */
typedef struct step_moment_set {
    void *data[2];
    float *scales[2]; /* form int8; [moment_floats / MOMENT_BLOCK] */
} step_moment_set;

/* A second set of what an update moves: while one is guessed, the other is what it started from. */
typedef struct step_early {
    float *weights; /* laid out as the model's, then the adapters'; memory of what is not learnt is never touched */
    size_t bytes;
    step_moment_set moments;
    bool away; /* the optimiser's state is this one, and the model's weights are not up to date */
    bool open; /* an update was begun and is not confirmed */
    adamw_step guess;
} step_early;

/* Calls that were submitted to a queue and not waited for yet: [head, tail) of `calls`. */
typedef struct step_queue {
    propane_device *device;
    propane_event *event;
    uint64_t base; /* the event's value before this run of calls */
    int before;    /* ordinals of calls before it, which are done */
    int *calls;
    int head, tail, depth;
    int64_t busy_ns;
} step_queue;

struct train_step {
    train_step_options options;
    model_weights *weights;
    partition *partition;
    dataflow *dataflow;
    step_queue queues[2]; /* device, host: the same device twice if there is one queue */
    bool two_queues;
    step_kernel *kernels;
    step_call *calls;
    propane_buffer **buffers; /* [dataflow.buffer_count] */
    void *block;              /* on one queue they lie in it */
    propane_buffer **copies;  /* [tensor]: weights that programs read as inputs; NULL: none does */
    propane_io *copy_layout;  /* [tensor] */
    /* [tensor]: the same values for kernels that lay them out in another way; NULL: none does */
    propane_buffer **others;
    propane_io *other_layout;   /* [tensor] */
    float *between;             /* the largest tensor of `others` */
    bool forms;                 /* there are `others`, or packed calls */
    bool *is_master;            /* [tensor]: the programs read the master weights themselves */
    propane_buffer **gradients; /* [tensor]: of `buffers` */
    /* [tensor]: what the embedding's share has added to the squares of a table, beyond those that its kernel says. */
    double *norm_delta;
    double *norm_scratch;  /* scratch of train_embed */
    bool summed;           /* the gradients have been handed over and changed since */
    bool *trained;         /* [tensor] */
    int64_t *moment_at;    /* [tensor]: in the moments' blocks */
    int64_t moment_floats; /* with those between tensors */
    step_moment_set moments;
    float *moment_copy;        /* of the largest tensor; NULL: the moments are fp32 */
    int *learnt, learnt_count; /* tensors, in the optimiser's order */
    uint64_t dropout;          /* the key of what is in the dropout buffers */
    bool dropout_filled;
    adamw *optimiser;
    adamw *own; /* over `pieces`; NULL: the optimiser is over all */
    train_piece *pieces;
    int piece_count;
    step_updates *updates; /* NULL: an update is one sweep */
    step_early *early;     /* NULL: no update is guessed */
    adamw_step beside;     /* the update that the next batch brings with it */
    bool beside_wanted, beside_guessed;
    const train_reduce *reduce;
    bool *reduce_submitted;   /* [tensor]: locked for `reduce` */
    bool gradients_clobbered; /* a forward pass has run over the gradients */
    double *nats;
    train_loss_sums sums;   /* of a head in several pieces, and of pairs */
    preference *preference; /* NULL: cross-entropy */
    float *scales;          /* [batch]: of the pairs' windows */
    bool stale;
    int compiles, refresh_compiles; /* the second: what compiling all baked programs again took last time */
    char sharing[300];              /* how the kernels' programs were made */
    int64_t own_ns;                 /* host code that is not a kernel */
    train_simulated simulated;
};

/* Of the head. */
static inline int step_head_pieces(const train_step *s) { return s->dataflow->instance_count - s->dataflow->head; }
static inline int step_total(const train_step *s) { return model_weights_total(s->weights); }
static inline propane_device *step_device(const train_step *s, bool host) { return s->queues[host].device; }

static inline bool step_is_patched(const train_step *s, int call) {
    return s->options.weights == WEIGHT_MODE_PATCHED && s->kernels[s->dataflow->calls[call].kernel].baked;
}

/* Its program must be made again when the weights have changed. */
static inline bool step_is_baked(const train_step *s, int call) {
    return s->kernels[s->dataflow->calls[call].kernel].baked && s->options.weights != WEIGHT_MODE_PATCHED;
}

static inline propane_program *step_program(const train_step *s, int call, int form) {
    const step_kernel *k = &s->kernels[s->dataflow->calls[call].kernel];
    return k->baked ? form == 0 ? s->calls[call].own : NULL : k->program[form];
}

static inline const step_unit *step_call_unit(const train_step *s, int call, int index) {
    return &s->updates->units[s->calls[call].unit[index]];
}

/* The update that a forward call must find done: not the one that its own batch brings. */
static inline uint64_t step_update_awaited(const train_step *s) { return s->updates->number - s->updates->begun; }

static inline const packing *step_packing(const train_step *s, int call) {
    return s->kernels[s->dataflow->calls[call].kernel].packing;
}

static inline propane_status step_lock_value(train_step *s, int value, bool write, void **out, propane_error *err) {
    return propane_buffer_lock(s->buffers[s->dataflow->values[value].buffer], write, out, err);
}

static inline void step_unlock_value(train_step *s, int value) {
    propane_buffer_unlock(s->buffers[s->dataflow->values[value].buffer]);
}

/* ---- step_programs.c --------------------------------------------------------------------------------------------- */

/* The programs that all calls of a kernel share; those with weights as constants, each call's own. */
PROPANE_CHECK propane_status step_compile(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_bake(train_step *s, propane_error *err);
int step_baked_calls(const train_step *s);

/* ---- step_buffers.c ---------------------------------------------------------------------------------------------- */

/* Memory for all values, weights and gradients, and a request for each call. */
PROPANE_CHECK propane_status step_lay_out(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_make_request(train_step *s, int call, int form, propane_error *err);
/* Room for step_copy_others. */
PROPANE_CHECK propane_status step_make_between(train_step *s, propane_error *err);
/* After the weights on the device have changed: those that are laid out in a second way, and packed ones. */
PROPANE_CHECK propane_status step_copy_others(train_step *s, propane_error *err);
/* A tensor, if it is laid out in a second way. */
PROPANE_CHECK propane_status step_copy_other(train_step *s, int tensor, propane_error *err);
/* The weights of a call, or what it reads besides: into its one input. */
PROPANE_CHECK propane_status step_pack(train_step *s, int call, bool weights, propane_error *err);
/* Overwrites the weights of a call: those of an update's unit; -1: all. */
PROPANE_CHECK propane_status step_patch(train_step *s, int call, int unit, propane_error *err);

/* ---- step_optimiser.c -------------------------------------------------------------------------------------------- */

PROPANE_CHECK propane_status step_make_optimiser(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_make_moments(const train_step *s, step_moment_set *out, propane_error *err);
void step_free_moments(const train_step *s, step_moment_set *set);
size_t step_moment_bytes(const train_step *s); /* of one of the two */
moments step_moments_in(const train_step *s, const step_moment_set *set, int which, int tensor);
adamw_state step_state_in(const train_step *s, float *weight, const step_moment_set *set, int tensor);
/* The device's copies of what is learnt follow the optimiser's state. */
PROPANE_CHECK propane_status step_publish_learnt(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_check_gradients(const train_step *s, propane_error *err);
/* For an update: where the gradient and the device's copy of a tensor, or of all of them, are. By their numbers among
 * those that are learnt. */
PROPANE_CHECK propane_status step_lock_tensor(train_step *s, int index, propane_error *err);
void step_unlock_tensor(train_step *s, int index);
PROPANE_CHECK propane_status step_lock_tensors(train_step *s, propane_error *err);
void step_unlock_tensors(train_step *s, int count);

/* ---- step_units.c ------------------------------------------------------------------------------------------------ */

/* `run` is step_update_unit: what its thread does with a unit. */
PROPANE_CHECK propane_status step_make_updates(train_step *s, update_run *run, propane_error *err);
void step_free_updates(train_step *s); /* when it is settled */
/* For the thread alone: a guess stays open, the weights stay where they are. */
PROPANE_CHECK propane_status step_wait_updates(train_step *s, propane_error *err);

/* ---- step_update.c ----------------------------------------------------------------------------------------------- */

propane_status step_update_unit(void *step, int unit, propane_error *err);
/* Before the host reads rows of a table: what is left to do for them of an update that is under way. NULL: 0 to count -
 * 1. */
void step_update_rows(train_step *s, const model_tensor *table, const int32_t *rows, int64_t count);
/* Of a batch that brings its update with it: before the first backward call, after each that was submitted, at the
 * end. */
PROPANE_CHECK propane_status step_update_begin_beside(train_step *s, propane_error *err);
void step_update_submitted(train_step *s, int call);
PROPANE_CHECK propane_status step_update_end_beside(train_step *s, bool failed, propane_error *err);

/* ---- step_early.c ------------------------------------------------------------------------------------------------ */

/* Where they can be had: not with weights that the device reads from the model's memory, and not packed. */
PROPANE_CHECK propane_status step_make_early(train_step *s, propane_error *err);
void step_free_early(train_step *s);
/* Before the optimiser begins a guessed update, which goes from the state that counts to the other one. */
void step_early_open(train_step *s, const adamw_step *how);
/* Is the open guess this update? It is open no more. */
bool step_early_close(train_step *s, const adamw_step *how);
/* An open guess was none: weights, moments and the device's copies are what they were before it. */
PROPANE_CHECK propane_status step_early_rollback(train_step *s, propane_error *err);
/* What counts is copied to the model's weights and the step's moments, if it is not there. The thread is idle. */
void step_early_commit(train_step *s);

static inline float *step_early_weights(const train_step *s, int tensor) {
    const model_weights *w = s->weights;
    return s->early->weights + (tensor < w->count ? 0 : w->floats) + w->tensors[tensor].offset;
}

/* The master weights of a tensor, wherever they are. */
static inline float *step_master(const train_step *s, int tensor) {
    return s->early && s->early->away && s->trained[tensor]
               ? step_early_weights(s, tensor)
               : model_weights_data(s->weights, &s->weights->tensors[tensor]);
}

#endif
