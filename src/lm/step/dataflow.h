/* SPDX-License-Identifier: MIT
 * The dataflow of a step: every kernel of the plan for every layer, in order (the calls), and the memory that holds
 * each of their inputs and results. Values and gradients that are never live at the same time share memory. On one
 * queue all buffers are parts of one block, so a layer's gradients reuse the memory that the layers above it have
 * freed. Two queues (device and host) run their calls in order; when a call needs a result from the other queue, it
 * waits for that call's number.
 */
#ifndef LM_STEP_DATAFLOW_H
#define LM_STEP_DATAFLOW_H

#include "lm/step/partition.h"

typedef enum dataflow_kind { DATAFLOW_VALUE, DATAFLOW_WEIGHT, DATAFLOW_GRADIENT } dataflow_kind;

/* What the name of a kernel's input or result refers to in one call. */
typedef struct dataflow_ref {
    dataflow_kind kind;
    int index; /* index into dataflow.values or into the model's tensors */
} dataflow_ref;

typedef struct dataflow_value {
    int instance;
    const char *name;
    bool again; /* computed again for the backward pass */
    /* first and last call that touch it; -1 and call_count mean the host's code before and after the calls */
    int first, last;
    size_t bytes;
    propane_io io; /* the layout that all kernels use for it */
    int buffer;    /* set by dataflow_place */
} dataflow_value;

/* The gradient of a trained tensor. Without accumulation, its memory is undefined before the call `first`. */
typedef struct dataflow_gradient {
    bool wanted;
    int first;   /* the first call that writes the gradient, or the call before which the host clears it */
    int made;    /* the last call that writes it; `first` and `made` are call_count if the host writes it at the end */
    int squares; /* the value that holds the sum of its squares, or -1 if no kernel computes this sum */
    size_t bytes;
    int buffer; /* set by dataflow_place */
} dataflow_gradient;

typedef struct dataflow_call {
    int kernel;   /* index into plan.kernels */
    int instance; /* 0, 1, ... for attn 0, ffn 0, attn 1, ..., then the pieces of the head */
    bool host;    /* runs on the host's queue */
    bool again;   /* a forward call whose values the backward pass needs but which were not kept */
    int ordinal;  /* 1, 2, ... among the calls of its queue */
    int wait;     /* ordinal of the call on the other queue that must be done first; 0 means none */
} dataflow_call;

/* A piece of the head. Calls [begin, middle) are its forward pass, [middle, end) its backward pass. */
typedef struct dataflow_piece {
    int begin, middle, end;
} dataflow_piece;

typedef struct dataflow {
    arena *arena;
    const partition *plan;
    const model_weights *weights;
    int instance_count, head; /* instances with an index of at least `head` are pieces of the head */
    int call_count;
    dataflow_piece *pieces; /* order: layers forward, one piece after the other, layers backward */
    const bool *trained;    /* [tensor], or NULL if all are trained */
    bool recompute; /* only the blocks' inputs are kept; values that a backward pass needs are recomputed before it */
    int lowest;     /* the first instance with a backward pass; instance_count if there is none */
    dataflow_call *calls;
    int value_count, value_room;
    dataflow_value *values;       /* [0] is the embedded batch */
    dataflow_gradient *gradients; /* [tensor] */
    int buffer_count;
    size_t *buffer_bytes;
    size_t *buffer_offset; /* offsets in a block of block_bytes, or NULL if each buffer has separate memory */
    size_t block_bytes;
} dataflow;

/* Creates the calls and values of a step. `trained` [tensor] must outlive the dataflow; NULL means that all tensors are
 * trained. Backward calls that serve no trained tensor are left out. */
PROPANE_CHECK propane_status dataflow_create(const partition *p, const model_weights *weights, const bool *trained,
                                             bool recompute, dataflow **out, propane_error *err);
bool dataflow_trains_embedding(const dataflow *w);
void dataflow_free(dataflow *w);
/* Returns the value with that name in an instance, or -1 if there is none. Names are followed across block boundaries:
 * x is the previous block's out. */
int dataflow_find(const dataflow *w, int instance, const char *name);
/* Resolves a name in a call. A gradient that is not wanted, but which kernels shared by several layers compute anyway,
 * is resolved as a value. */
dataflow_ref dataflow_resolve(const dataflow *w, const dataflow_call *call, const char *name);
/* Records how a kernel lays out a value. Returns PROPANE_ERR_UNSUPPORTED if another kernel has given the value a
 * different layout. */
PROPANE_CHECK propane_status dataflow_layout(dataflow *w, const dataflow_call *call, const propane_io *io,
                                             propane_error *err);
/* Assigns buffers; call it after all layouts are known. On one queue the buffers are parts of one block. With
 * `two_queues` each buffer is separate memory, values of equal size share buffers that are reused as late as possible,
 * and calls wait for the other queue. With `accumulate`, gradients live from one batch to the next; without it, the
 * next forward pass overwrites them. */
PROPANE_CHECK propane_status dataflow_place(dataflow *w, bool two_queues, bool accumulate, propane_error *err);
/* Returns the bytes of the buffers in addition to the gradients. */
size_t dataflow_value_bytes(const dataflow *w);

#endif
