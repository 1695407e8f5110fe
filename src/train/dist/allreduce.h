/* SPDX-License-Identifier: MIT
 * Data-parallel training over the ranks of an mpirun: the gradients of all ranks are added up. A tensor is cut into as
 * many pieces as there are ranks (a large one first into segments); a rank gets everybody's share of its own piece and
 * adds them in the order of the ranks, so each sum is made once, in fp32, and is the same bits for all. Tensors travel
 * in buckets, which start on their way as soon as the backward pass has made their gradients: as messages, or, where
 * all ranks are on one machine, through memory that they share.
 *
 * With `shard` (ZeRO stage 1) the summed pieces stay where they are: each rank updates its own and the weights are
 * gathered instead of the gradients, so moments exist once among all ranks.
 */
#ifndef TRAIN_DIST_ALLREDUCE_H
#define TRAIN_DIST_ALLREDUCE_H

#include <stdint.h>

#include "train/dist/mpi.h"

typedef enum allreduce_wire {
    ALLREDUCE_FP32,
    ALLREDUCE_BF16,
    ALLREDUCE_FP16,
    ALLREDUCE_INT4,
    ALLREDUCE_WIRES
} allreduce_wire;
const char *allreduce_wire_name(allreduce_wire wire); /* "fp32", "bf16", "fp16", "int4" */
/* ALLREDUCE_WIRES: there is no such form. */
allreduce_wire allreduce_wire_find(const char *name);

#define ALLREDUCE_STANDARD_BUCKET (INT64_C(4) << 20)

typedef struct allreduce allreduce;

typedef struct allreduce_options {
    /* how gradients travel; sums are fp32. fp16: each piece scaled by a power of two to fit. int4: 64 values share a
     * scale, and what a message leaves out goes with the next (error feedback) */
    allreduce_wire wire;
    bool shard;
    int64_t bucket; /* bytes of fp32 gradients; 0: 4 MB */
    /* a rank's piece begins and ends at multiples of so many elements of its tensor, or at its end; 0: any */
    int64_t grain;
} allreduce_options;

/* counts[i]: elements of tensor i. `order` [count]: the tensors as the backward pass makes their gradients. */
PROPANE_CHECK propane_status allreduce_create(mpi *m, const allreduce_options *options, const int64_t *counts,
                                              const int *order, int count, allreduce **out, propane_error *err);
void allreduce_free(allreduce *d);

allreduce_wire allreduce_wire_of(const allreduce *d);
/* Bytes that this rank sends for one sum. */
int64_t allreduce_sent_bytes(const allreduce *d);
/* What int4 messages left out so far, [*count] of shares (0) and of sums (1); NULL with another wire. */
float *allreduce_residual(const allreduce *d, int which, int64_t *count);

/* Tensors are cut into segments; this rank owns a piece of each. Both return the tensor. */
int allreduce_segment_count(const allreduce *d);
int allreduce_segment(const allreduce *d, int index, int64_t *begin, int64_t *end);
int allreduce_piece(const allreduce *d, int index, int64_t *begin, int64_t *end);
/* The tensor's gradient is there and stays untouched until allreduce_finish; every rank announces every tensor once, in any
 * order. Starts what has become complete and lets the rest go on. */
PROPANE_CHECK propane_status allreduce_ready(allreduce *d, int tensor, float *gradient, propane_error *err);
/* Sums are in the tensors that were announced: everywhere, or with `shard` in this rank's pieces only. */
PROPANE_CHECK propane_status allreduce_finish(allreduce *d, propane_error *err);
/* Every rank's piece of each tensor to all ranks (`root` -1) or to one, in fp32: weights after a sharded update.
 * Tensors that are NULL, on all ranks alike, are left out. */
PROPANE_CHECK propane_status allreduce_gather(allreduce *d, float *const *tensors, int root, propane_error *err);

#endif
