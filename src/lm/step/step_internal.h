/* SPDX-License-Identifier: MIT
 * The state of the training step, shared by its files. step_programs.c makes programs; step_buffers.c makes memory and
 * requests; step_execute.c runs them; step_optimiser.c owns gradients and moments; step_units.c, step_update.c and
 * step_early.c update weights; step_outside.c gives other code access to weights, moments and gradients; step.c makes
 * and frees all of this state.
 */
#ifndef LM_STEP_STEP_INTERNAL_H
#define LM_STEP_STEP_INTERNAL_H

#include "lm/step/dataflow.h"
#include "lm/step/embed.h"
#include "lm/step/loss.h"
#include "lm/step/step.h"
#include "lm/step/update_thread.h"
#include "lm/step/weight_packing.h"

typedef struct step_kernel {
    propane_program *program[2]; /* [1] adds to the sums, [0] overwrites them */
    bool baked;                  /* each call has a separate program, with the call's weights as constants */
    /* how the inputs are packed into one buffer, or NULL if each input has a separate buffer */
    packing *packing;
    int64_t calls, ns; /* since the step was made */
    int64_t engine_ns, repeats;
    bool counted; /* engine_ns is provided */
} step_kernel;

enum { STEP_CALL_UNITS = 2 };

typedef struct step_call {
    propane_program *own; /* if baked */
    propane_request *request[2];
    propane_buffer *packed;                /* if its kernel is packed */
    int unit[STEP_CALL_UNITS], unit_count; /* units of the weights that the call reads */
} step_call;

/* Weights that are updated together, because the kernels of one instance read them. */
typedef struct step_unit {
    int instance;        /* -1 for weights that no kernel reads */
    int *updated, count; /* numbers among the trained tensors */
    propane_event *done; /* its value is the number of the unit's last completed update */
    int last[2];   /* on each queue, the last call that reads the weights or writes their gradients; -1 for none */
    bool gathered; /* a table's gradient is complete once the host has added the embedding's share */
    bool locked, pushed; /* the unit's buffers are locked; its job was pushed during the current batch */
} step_unit;

typedef struct step_updates {
    update_thread *thread;
    step_unit *units;
    int unit_count;
    int *unit_of, *order; /* [tensor]; storage of the units' lists */
    uint64_t number;      /* number of the last update that has begun */
    bool begun;           /* the update is part of the current batch and has begun */
} step_updates;

/* Moments in the form that the options select. */
typedef struct step_moment_set {
    void *data[2];
    float *scales[2]; /* form int8; [moment_floats / MOMENT_BLOCK] */
} step_moment_set;

/* A second set of everything that an update changes. While an update is speculative, the set from which it started
 * stays unchanged. */
typedef struct step_early {
    float *weights; /* laid out like the model's, then the adapters'; memory of untrained tensors is never touched */
    size_t bytes;
    step_moment_set moments;
    bool away; /* this second set holds the optimiser's state, and the model's weights are out of date */
    bool open; /* an update was begun and is not confirmed */
    adamw_step speculative;
} step_early;

/* A queue. The calls [head, tail) of `calls` were submitted and not yet waited for. */
typedef struct step_queue {
    propane_device *device;
    propane_event *event;
    uint64_t base; /* the event's value before this run of calls */
    int before;    /* number of earlier calls, all of which are done */
    int *calls;
    int head, tail, depth;
    int64_t busy_ns;
} step_queue;

/* A frozen model that keeps the form of its file (step_base.c). */
typedef struct step_base {
    /* [tensor], index of the tensor's buffer, or -1 if it has masters or no program reads it */
    int *slot;
    propane_buffer **buffers; /* [count]; the tensors of one parameter share a buffer */
    int *made_for;            /* [count], the tensor for which the buffer was made */
    int *holds;               /* [count], the tensor whose weights the buffer holds, or -1 */
    int count;
    int32_t *order; /* 0, 1, 2, ..., the ids of `rows` */
    float *rows;    /* the batch's rows of the tables */
} step_base;

struct train_step {
    train_step_options options;
    model_weights *weights;
    partition *partition;
    dataflow *dataflow;
    step_queue queues[2]; /* device and host; the same device twice if there is one queue */
    bool two_queues;
    step_kernel *kernels;
    step_call *calls;
    propane_buffer **buffers; /* [dataflow.buffer_count] */
    void *block;              /* on one queue, the buffers are parts of it */
    /* [tensor], weights that programs read as inputs; NULL for a tensor that no program reads */
    propane_buffer **copies;
    propane_io *copy_layout; /* [tensor] */
    /* [tensor], the same weights for kernels that use another layout; NULL if no kernel does */
    propane_buffer **others;
    propane_io *other_layout; /* [tensor] */
    float *between;           /* room for the largest tensor of `others` */
    /* weights are also kept in other forms: in `others`, in packed inputs or in patched programs */
    bool forms;
    bool *is_master;            /* [tensor], the programs read the master weights directly */
    step_base *base;            /* NULL unless the frozen model keeps the form of its file */
    propane_buffer **gradients; /* [tensor], entries of `buffers` */
    /* [tensor], what the embedding's gradient has added to a table's sum of squares since its kernel reported the
     * sum */
    double *norm_delta;
    double *norm_scratch;  /* scratch for train_embed */
    bool summed;           /* the gradients have been summed over ranks since the kernels wrote them */
    bool *trained;         /* [tensor] */
    int64_t *moment_at;    /* [tensor], offset in the moments' blocks */
    int64_t moment_floats; /* including the gaps between tensors */
    step_moment_set moments;
    float *moment_copy;          /* room for the largest tensor, or NULL if the moments are fp32 */
    int *updated, updated_count; /* tensors, in the optimiser's order */
    uint64_t dropout;            /* the key whose dropout is in the buffers */
    bool dropout_filled;
    adamw *optimiser;
    adamw *own; /* the optimiser of `pieces`, or NULL if this rank updates everything */
    train_piece *pieces;
    int piece_count;
    step_updates *updates;   /* NULL if an update is a single sweep */
    step_early *early;       /* NULL if no update is speculative */
    adamw_step batch_update; /* the update that is part of the next batch */
    bool batch_update_wanted, batch_update_speculative;
    const train_reduce *reduce;
    bool *reduce_submitted;   /* [tensor], locked for `reduce` */
    bool gradients_clobbered; /* a forward pass has overwritten the gradients */
    double *nats;
    train_loss_sums sums;   /* for a head in several pieces, and for pairs */
    preference *preference; /* NULL for cross-entropy */
    float *scales;          /* [batch], gradient factors of the windows of pairs */
    bool stale;
    int compiles, refresh_compiles; /* refresh_compiles: number of compiles when all baked programs were last rebuilt */
    char sharing[300];              /* how the kernels' programs were made */
    int64_t own_ns;                 /* time in host code that is not a kernel */
    train_simulated simulated;
};

/* step_base.c */
/* Prepares the conversion of a frozen model without fp32 masters, or makes masters if the step cannot convert. */
PROPANE_CHECK propane_status step_base_create(train_step *s, propane_error *err);
void step_base_free(train_step *s);
/* Sets *out to the buffer of a tensor that is converted. Sets *found to false for other tensors. */
PROPANE_CHECK propane_status step_base_find(train_step *s, int tensor, const propane_io *io, propane_buffer **out,
                                            bool *found, propane_error *err);
/* Returns whether the call reads a buffer that must be filled first. Earlier calls may still read that buffer. */
bool step_base_waits(const train_step *s, int call);
PROPANE_CHECK propane_status step_base_fill(train_step *s, int call, propane_error *err);
/* Does the work of train_embed_gather for tables without masters. */
void step_base_gather(train_step *s, const train_embed *e, const model_tensor *table, const model_tensor *positions,
                      const int32_t *ids, void *stream);

/* Returns the number of the head's pieces. */
static inline int step_head_pieces(const train_step *s) { return s->dataflow->instance_count - s->dataflow->head; }
static inline int step_total(const train_step *s) { return model_weights_total(s->weights); }
static inline propane_device *step_device(const train_step *s, bool host) { return s->queues[host].device; }

static inline bool step_is_patched(const train_step *s, int call) {
    return s->options.weights == WEIGHT_MODE_PATCHED && s->kernels[s->dataflow->calls[call].kernel].baked;
}

/* Returns whether the call's program must be made again when the weights have changed. */
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

/* Returns the number of the update that a forward call must wait for. This is never the update of its own batch. */
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

/* Compiles the programs that all calls of a kernel share and, for weights as constants, one program per call. */
PROPANE_CHECK propane_status step_compile(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_bake(train_step *s, propane_error *err);
int step_baked_calls(const train_step *s);
/* Returns whether an update changes constants of programs. With adapters, it never does. */
bool step_bakes_what_is_trained(const train_step *s);

/* ---- step_buffers.c ---------------------------------------------------------------------------------------------- */

/* Makes memory for all values, weights and gradients, and one request per call and form of its program. */
PROPANE_CHECK propane_status step_lay_out(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_make_request(train_step *s, int call, int form, propane_error *err);
/* Allocates memory for step_copy_others. */
PROPANE_CHECK propane_status step_make_between(train_step *s, propane_error *err);
/* Brings weights in a second layout, in packed inputs and in patched programs up to date after the copies have
 * changed. */
PROPANE_CHECK propane_status step_copy_others(train_step *s, propane_error *err);
/* Copies a tensor if it has a second layout. */
PROPANE_CHECK propane_status step_copy_other(train_step *s, int tensor, propane_error *err);
/* Copies a call's weights, or its other inputs, into its single packed input. */
PROPANE_CHECK propane_status step_pack(train_step *s, int call, bool weights, propane_error *err);
/* Overwrites the weights in a call's program that belong to one unit; -1 means all units. */
PROPANE_CHECK propane_status step_patch(train_step *s, int call, int unit, propane_error *err);

/* ---- step_optimiser.c -------------------------------------------------------------------------------------------- */

PROPANE_CHECK propane_status step_make_optimiser(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_make_moments(const train_step *s, step_moment_set *out, propane_error *err);
void step_free_moments(const train_step *s, step_moment_set *set);
size_t step_moment_bytes(const train_step *s); /* bytes of the first or of the second moments, without scales */
moments step_moments_in(const train_step *s, const step_moment_set *set, int which, int tensor);
adamw_state step_state_in(const train_step *s, float *weight, const step_moment_set *set, int tensor);
/* Writes the optimiser's weights to the device's copies of the trained weights. */
PROPANE_CHECK propane_status step_publish_trained(train_step *s, propane_error *err);
PROPANE_CHECK propane_status step_check_gradients(const train_step *s, propane_error *err);
/* Locks, for an update, the gradient and the device's copy of one tensor, or of all of them. Tensors are numbered among
 * the trained ones. */
PROPANE_CHECK propane_status step_lock_tensor(train_step *s, int index, propane_error *err);
void step_unlock_tensor(train_step *s, int index);
PROPANE_CHECK propane_status step_lock_tensors(train_step *s, propane_error *err);
void step_unlock_tensors(train_step *s, int count);

/* ---- step_units.c ------------------------------------------------------------------------------------------------ */

/* Makes the units and the thread if the step's updates can overlap. `run` is step_update_unit, which the thread calls
 * for each unit. */
PROPANE_CHECK propane_status step_make_updates(train_step *s, update_run *run, propane_error *err);
void step_free_updates(train_step *s); /* to be called only after train_step_settle */
/* Waits only for the thread. A speculative update stays open, and the current set of weights does not change. */
PROPANE_CHECK propane_status step_wait_updates(train_step *s, propane_error *err);

/* ---- step_update.c ----------------------------------------------------------------------------------------------- */

propane_status step_update_unit(void *step, int unit, propane_error *err);
/* Completes the update in progress for the rows of a table that the host is about to read. NULL means rows 0 to
 * count-1. */
void step_update_rows(train_step *s, const model_tensor *table, const int32_t *rows, int64_t count);
/* Steps of an update that is part of its batch. They are called before the first backward call, after each submitted
 * call, and at the end of the batch. */
PROPANE_CHECK propane_status step_update_begin_in_batch(train_step *s, propane_error *err);
void step_update_submitted(train_step *s, int call);
PROPANE_CHECK propane_status step_update_end_in_batch(train_step *s, bool failed, propane_error *err);

/* ---- step_early.c ------------------------------------------------------------------------------------------------ */

/* Makes the second set if early updates are possible. They are not possible with packed or baked weights, nor with
 * weights that the device reads from the model's memory. */
PROPANE_CHECK propane_status step_make_early(train_step *s, propane_error *err);
void step_free_early(train_step *s);
/* Called before the optimiser begins a speculative update, which reads the current set and writes the other one. */
void step_early_open(train_step *s, const adamw_step *how);
/* Closes the open speculative update and returns whether it was made with the parameters `how`. */
bool step_early_close(train_step *s, const adamw_step *how);
/* Undoes an open speculative update: weights, moments and the device's copies become what they were before it. */
PROPANE_CHECK propane_status step_early_rollback(train_step *s, propane_error *err);
/* Copies the current set into the model's weights and the step's moments if the current set is the second one. The
 * thread must be idle. */
void step_early_commit(train_step *s);

static inline float *step_early_weights(const train_step *s, int tensor) {
    const model_weights *w = s->weights;
    return s->early->weights + (tensor < w->count ? 0 : w->floats) + w->tensors[tensor].offset;
}

/* Returns the master weights of a tensor, whichever set holds them. */
static inline float *step_master(const train_step *s, int tensor) {
    return s->early && s->early->away && s->trained[tensor]
               ? step_early_weights(s, tensor)
               : model_weights_data(s->weights, &s->weights->tensors[tensor]);
}

#endif
