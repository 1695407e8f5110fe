/* SPDX-License-Identifier: MIT
 * Data-parallel training over the ranks of an mpirun: the gradients of all ranks are summed. A tensor is cut into
 * segments, and each segment into one piece per rank. A rank receives the shares of all ranks in its piece and adds
 * them in the order of the ranks, so each sum is computed once, in fp32, and has the same bits on all ranks. Tensors
 * are sent in buckets as soon as the backward pass has made their gradients. Buckets are sent as messages or, if all
 * ranks are on one machine, through shared memory.
 *
 * With `shard` (ZeRO stage 1), the sums are not sent back. Each rank updates only its pieces, and the updated weights
 * are gathered instead. Each moment therefore exists on only one rank.
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
    /* format of the gradients in transit; sums are computed in fp32. With fp16, a power of two scales each rank's
     * pieces of a bucket to fit. With int4, 64 values share a scale, and the rounding error of a message is added to
     * the next one (error feedback) */
    allreduce_wire wire;
    bool shard;
    int64_t bucket; /* bytes of fp32 gradients; 0 means 4 MB */
    /* pieces begin and end at multiples of this many elements of their tensor, or at the tensor's end; 0 means at any
     * element */
    int64_t grain;
} allreduce_options;

/* Creates the sums over the ranks of `m`. counts[i] is the number of elements of tensor i. `order` [count] lists the
 * tensors in the order in which the backward pass makes their gradients. All ranks must call it. */
PROPANE_CHECK propane_status allreduce_create(mpi *m, const allreduce_options *options, const int64_t *counts,
                                              const int *order, int count, allreduce **out, propane_error *err);
void allreduce_free(allreduce *d);

allreduce_wire allreduce_wire_of(const allreduce *d);
/* Returns the bytes that this rank sends for one sum. */
int64_t allreduce_sent_bytes(const allreduce *d);
/* Returns the rounding errors [*count] of earlier int4 messages, for shares (`which` 0) or for sums (1). Returns NULL
 * for other formats. */
float *allreduce_residual(const allreduce *d, int which, int64_t *count);

/* Segments of the tensors. This rank owns a piece of each segment. allreduce_segment and allreduce_piece set the range
 * of elements and return the tensor. */
int allreduce_segment_count(const allreduce *d);
int allreduce_segment(const allreduce *d, int index, int64_t *begin, int64_t *end);
int allreduce_piece(const allreduce *d, int index, int64_t *begin, int64_t *end);
/* Announces that the tensor's gradient is complete; it must not change until allreduce_finish. Every rank announces
 * every tensor once, in any order. Starts buckets that are complete and advances those in flight. */
PROPANE_CHECK propane_status allreduce_ready(allreduce *d, int tensor, float *gradient, propane_error *err);
/* Waits for all buckets. Afterwards the announced tensors hold the sums or, with `shard`, hold them only in this rank's
 * pieces. */
PROPANE_CHECK propane_status allreduce_finish(allreduce *d, propane_error *err);
/* Sends every rank's piece of each tensor to all ranks (`root` -1) or to one rank, in fp32, for example weights after a
 * sharded update. Tensors that are NULL are left out; they must be NULL on all ranks. */
PROPANE_CHECK propane_status allreduce_gather(allreduce *d, float *const *tensors, int root, propane_error *err);

#endif
