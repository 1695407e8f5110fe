/* SPDX-License-Identifier: MIT
 * Data-parallel training over the ranks of an mpirun: the gradients of all ranks are summed. A tensor is cut into one
 * piece per rank (a large one first into segments). A rank receives everyone's share of its piece and adds the shares
 * in the order of the ranks, so each sum is computed once, in fp32, and has the same bits everywhere. Tensors travel in
 * buckets, which are sent as soon as the backward pass has made their gradients: as messages or, if all ranks are on
 * one machine, through shared memory.
 *
 * With `shard` (ZeRO stage 1) the summed pieces stay where they are. Each rank updates its pieces, and the weights are
 * gathered instead of the gradients, so moments exist only once among all ranks.
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
/* Returns ALLREDUCE_WIRES if there is no such format. */
allreduce_wire allreduce_wire_find(const char *name);

#define ALLREDUCE_STANDARD_BUCKET (INT64_C(4) << 20)

typedef struct allreduce allreduce;

typedef struct allreduce_options {
    /* format of the gradients in transit; sums are fp32. fp16: each piece is scaled by a power of two to fit. int4: 64
     * values share a scale, and the rounding error of a message is added to the next one (error feedback) */
    allreduce_wire wire;
    bool shard;
    int64_t bucket; /* bytes of fp32 gradients; 0 means 4 MB */
    /* a rank's piece begins and ends at multiples of this many elements of its tensor, or at its end; 0 means
     * anywhere */
    int64_t grain;
} allreduce_options;

/* counts[i] is the number of elements of tensor i. `order` [count] lists the tensors in the order in which the backward
 * pass makes their gradients. */
PROPANE_CHECK propane_status allreduce_create(mpi *m, const allreduce_options *options, const int64_t *counts,
                                              const int *order, int count, allreduce **out, propane_error *err);
void allreduce_free(allreduce *d);

allreduce_wire allreduce_wire_of(const allreduce *d);
/* Returns the bytes that this rank sends for one sum. */
int64_t allreduce_sent_bytes(const allreduce *d);
/* Returns the rounding errors of earlier int4 messages, [*count] for shares (0) or for sums (1); NULL for other
 * formats. */
float *allreduce_residual(const allreduce *d, int which, int64_t *count);

/* Tensors are cut into segments, and this rank owns a piece of each. Both functions return the tensor. */
int allreduce_segment_count(const allreduce *d);
int allreduce_segment(const allreduce *d, int index, int64_t *begin, int64_t *end);
int allreduce_piece(const allreduce *d, int index, int64_t *begin, int64_t *end);
/* Announces that the tensor's gradient is complete; it must not change until allreduce_finish. Every rank announces
 * every tensor once, in any order. Starts complete buckets and advances the others. */
PROPANE_CHECK propane_status allreduce_ready(allreduce *d, int tensor, float *gradient, propane_error *err);
/* Afterwards the announced tensors hold sums: everywhere or, with `shard`, only in this rank's pieces. */
PROPANE_CHECK propane_status allreduce_finish(allreduce *d, propane_error *err);
/* Sends every rank's piece of each tensor to all ranks (`root` -1) or to one, in fp32, such as weights after a sharded
 * update. Tensors that are NULL, which must be so on all ranks, are left out. */
PROPANE_CHECK propane_status allreduce_gather(allreduce *d, float *const *tensors, int root, propane_error *err);

#endif
