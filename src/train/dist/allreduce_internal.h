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
    /* number of elements; offset of the first among the elements of all buckets, and offset of this rank's pieces among
     * its pieces in all buckets */
    int64_t elements, at, own_at;
} bucket;

/* Memory of a bucket in flight. */
typedef struct slot {
    char *send, *receive;                         /* NULL if the ranks share memory */
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
    float *sums, *widened;       /* scratch for this rank's pieces of a bucket: their sums, and one rank's share */
    /* int4: rounding errors of messages, bucket by bucket, for shares and for sums; otherwise NULL */
    float *residual, *residual_sums;
    const char **shares; /* [rank], shares of this rank's piece, as received */
    /* [rank], memory of each rank, which allreduce_shm.c uses; NULL if the ranks exchange messages */
    char *const *shared;
    int next_sum;   /* with shared memory, the bucket whose shares are added next */
    int64_t before; /* with shared memory, number of buckets in all earlier sums */
};

/* Sets [*begin, *end) to the rank's piece of a segment of `count` elements. */
void allreduce_piece_of(const allreduce *d, int64_t count, int rank, int64_t *begin, int64_t *end);
/* Returns the number of elements in a rank's pieces of a bucket. */
int64_t allreduce_elements(const allreduce *d, const bucket *b, int rank);
/* Returns the bytes in transit of `elements` consecutive elements, including scales. */
int64_t allreduce_wire_bytes(allreduce_wire wire, int64_t elements);
/* Returns the room for a rank's pieces of a bucket in transit: their bytes, rounded up to a multiple of 4. */
int64_t allreduce_room(const allreduce *d, const bucket *b, int rank);

/* Writes a rank's pieces of a bucket from the gradients, in the wire's format. */
void allreduce_write(const allreduce *d, const bucket *b, int rank, char *target);
/* Sums the shares of this rank's pieces of a bucket from d->shares into d->sums, in the order of the ranks. */
void allreduce_add(allreduce *d, const bucket *b);
void allreduce_accumulate(float *restrict sums, const float *restrict values, int64_t count);
/* allreduce_write_sums writes d->sums in the wire's format and returns the bytes. allreduce_take reads a rank's sums
 * from that format into the gradients, and allreduce_spread copies them from fp32. */
int64_t allreduce_write_sums(const allreduce *d, const bucket *b, char *target); /* bytes */
void allreduce_take(allreduce *d, const bucket *b, int rank, const char *source);
void allreduce_spread(const allreduce *d, const bucket *b, int rank, const float *values);
bool allreduce_is_complete(const allreduce *d, const bucket *b);

/* Opens shared memory if all ranks are on one machine; otherwise leaves d->shared NULL. All ranks must call it. */
PROPANE_CHECK propane_status allreduce_shared_open(allreduce *d, propane_error *err);
/* Starts buckets that are complete and advances those in flight. */
void allreduce_shared_ready(allreduce *d);
/* Waits for all buckets, which must have been started. */
PROPANE_CHECK propane_status allreduce_shared_finish(allreduce *d, propane_error *err);

#endif
