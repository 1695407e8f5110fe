/* SPDX-License-Identifier: MIT
 * The dataflow of a step: every kernel of the plan for every layer, in order (the calls), and which memory each of
 * their inputs and results is. Values and gradients that never live at the same time share memory: on one queue all lie
 * in one block, so that a layer's gradients take what the layers above it have left. Two queues (device and host) run
 * their calls in order; what a call of one needs from the other becomes a number to wait for.
 */
#ifndef LM_STEP_DATAFLOW_H
#define LM_STEP_DATAFLOW_H

#include "lm/step/partition.h"

typedef enum dataflow_kind { DATAFLOW_VALUE, DATAFLOW_WEIGHT, DATAFLOW_GRADIENT } dataflow_kind;

/* What a name of a kernel stands for in one call. */
typedef struct dataflow_ref {
    dataflow_kind kind;
    int index; /* of dataflow.values, or of the model's tensors */
} dataflow_ref;

typedef struct dataflow_value {
    int instance;
    const char *name;
    bool again;      /* made a second time, for the backward pass */
    int first, last; /* calls that touch it; -1 and call_count: the host's own code before and after */
    size_t bytes;
    propane_io io; /* how all kernels lay it out */
    int buffer;    /* after dataflow_place */
} dataflow_value;

/* Of a tensor that is learnt. Without accumulation nothing is in its memory before the call `first`. */
typedef struct dataflow_gradient {
    bool wanted;
    int first;   /* the first call that writes it, or before which the host clears it */
    int made;    /* the last call that writes it; both are call_count where the host does, at the end */
    int squares; /* the value that is the sum of its squares; -1: no kernel makes it */
    size_t bytes;
    int buffer; /* after dataflow_place */
} dataflow_gradient;

typedef struct dataflow_call {
    int kernel;   /* of plan.kernels */
    int instance; /* 0, 1, ...: attn 0, ffn 0, attn 1, ..., the pieces of the head */
    bool host;    /* runs on the host's queue */
    bool again;   /* a forward call whose values the backward pass needs and that were not kept */
    int ordinal;  /* 1, 2, ... among the calls of its queue */
    int wait;     /* ordinal on the other queue that must be done before; 0: none */
} dataflow_call;

/* A piece of the head: calls [begin, middle) are its forward pass, [middle, end) its backward pass. */
typedef struct dataflow_piece {
    int begin, middle, end;
} dataflow_piece;

typedef struct dataflow {
    arena *arena;
    const partition *plan;
    const model_weights *weights;
    int instance_count, head; /* instances from `head` on are pieces of the head */
    int call_count;
    dataflow_piece *pieces; /* layers forward, one piece after the other, layers backward */
    const bool *trained;    /* [tensor]; NULL: all */
    bool recompute; /* only the blocks' inputs are kept; what a backward pass needs is computed again before it */
    int lowest;     /* the first instance whose backward pass runs; instance_count: none */
    dataflow_call *calls;
    int value_count, value_room;
    dataflow_value *values;       /* [0] is the embedded batch */
    dataflow_gradient *gradients; /* [tensor] */
    int buffer_count;
    size_t *buffer_bytes;
    size_t *buffer_offset; /* in a block of block_bytes; NULL: each buffer is memory of its own */
    size_t block_bytes;
} dataflow;

/* `trained` [tensor] (NULL: all of them) must outlive the dataflow: backward calls that serve none are left out. */
PROPANE_CHECK propane_status dataflow_create(const partition *p, const model_weights *weights, const bool *trained,
                                             bool recompute, dataflow **out, propane_error *err);
bool dataflow_trains_embedding(const dataflow *w);
void dataflow_free(dataflow *w);
int dataflow_layer(const dataflow *w, int instance);
/* The value of that name in an instance, seen through the joints between blocks (x is the previous block's out); -1. */
int dataflow_find(const dataflow *w, int instance, const char *name);
/* A gradient that is not wanted, but which kernels of several layers compute anyway, is a value. */
dataflow_ref dataflow_resolve(const dataflow *w, const dataflow_call *call, const char *name);
/* Tells how a kernel lays out a value; two kernels that differ are an error. */
PROPANE_CHECK propane_status dataflow_layout(dataflow *w, const dataflow_call *call, const propane_io *io,
                                             propane_error *err);
/* After all layouts: gives buffers. On one queue they are parts of one block. With `two_queues` they are memory of
 * their own, values of one size take turns and rest as long as possible in between, and there are waits. `accumulate`:
 * gradients live on from one batch to the next; without it they are gone when the next forward pass begins. */
PROPANE_CHECK propane_status dataflow_place(dataflow *w, bool two_queues, bool accumulate, propane_error *err);
/* What the buffers take beyond the gradients. */
size_t dataflow_value_bytes(const dataflow *w);

#endif
