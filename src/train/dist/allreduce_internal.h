/* SPDX-License-Identifier: MIT
 * Declarations shared by allreduce.c (transfers of buckets, messages between ranks), allreduce_bucket.c (contents of a
 * bucket) and allreduce_shm.c (ranks of one machine, which read each other's pieces in place).
 */
#ifndef TRAIN_DIST_ALLREDUCE_INTERNAL_H
#define TRAIN_DIST_ALLREDUCE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "train/dist/allreduce.h"

enum { ALLREDUCE_SLOTS = 4 }; /* buckets in flight */

typedef struct segment {
    int tensor;
    int64_t begin, count;
} segment;

typedef struct bucket {
    int first, count; /* segments */
    /* elements, and the offsets of its elements and of this rank's piece among those of all buckets */
    int64_t elements, at, own_at;
} bucket;

/* Memory of a bucket in flight. */
typedef struct slot {
    char *send, *receive;                         /* NULL if memory is shared */
    int *sent, *sent_at, *received, *received_at; /* [size] bytes and offsets */
    mpi_transfer transfer;
} slot;

struct allreduce {
    mpi *mpi;
    allreduce_options options;
    int rank, size, count, segment_count, bucket_count;
    int64_t *counts;
    float **gradients;
    bool *ready; /* [tensor] */
    segment *segments;
    bucket *buckets;
    slot slots[ALLREDUCE_SLOTS];
    size_t slot_bytes;
    int next_start, next_finish; /* buckets start and finish in the same order on all ranks */
    float *sums, *widened;       /* the largest piece of this rank in a bucket; one share of it */
    /* int4: rounding errors of messages, bucket by bucket, for shares and for sums; otherwise NULL */
    float *residual, *residual_sums;
    const char **shares; /* [rank], shares of this rank's piece, as received */
    char *const *shared; /* [rank], memory that allreduce_shm.c maps; NULL if messages are used instead */
    int next_sum;        /* the bucket whose shares are added next in shared memory */
    int64_t before;      /* number of buckets before this step's */
};

/* Returns the rank's range among `count` elements. */
void allreduce_piece_of(const allreduce *d, int64_t count, int rank, int64_t *begin, int64_t *end);
/* The elements of a rank's pieces in a bucket, and their bytes in transit, which follow those of the previous rank. */
int64_t allreduce_elements(const allreduce *d, const bucket *b, int rank);
int64_t allreduce_wire_bytes(allreduce_wire wire,
                             int64_t elements); /* bytes for this many consecutive elements, including a scale */
int64_t allreduce_room(const allreduce *d, const bucket *b, int rank);

/* Writes a rank's pieces of a bucket from the gradients, in the wire's format. */
void allreduce_write(const allreduce *d, const bucket *b, int rank, char *target);
/* Sums this rank's piece of a bucket from d->shares into d->sums, in the order of the ranks. */
void allreduce_add(allreduce *d, const bucket *b);
void allreduce_accumulate(float *restrict sums, const float *restrict values, int64_t count);
/* Writes these sums in the wire's format; the other function reads a rank's sums back into the gradients. */
int64_t allreduce_write_sums(const allreduce *d, const bucket *b, char *target); /* bytes */
void allreduce_take(allreduce *d, const bucket *b, int rank, const char *source);
void allreduce_spread(const allreduce *d, const bucket *b, int rank, const float *values);
bool allreduce_is_complete(const allreduce *d, const bucket *b);

/* Opens shared memory if all ranks are on one machine; otherwise d->shared stays NULL. All ranks must call it. */
PROPANE_CHECK propane_status allreduce_shared_open(allreduce *d, propane_error *err);
void allreduce_shared_ready(allreduce *d); /* starts complete buckets and advances the others */
PROPANE_CHECK propane_status allreduce_shared_finish(allreduce *d,
                                                     propane_error *err); /* all buckets must have been started */

#endif
