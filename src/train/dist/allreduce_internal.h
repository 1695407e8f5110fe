/* SPDX-License-Identifier: MIT
 * What allreduce.c (buckets' way, messages between ranks), allreduce_bucket.c (what lies in one) and allreduce_shm.c
 * (ranks of one machine, which read each other's pieces where they lie) have in common.
 */
#ifndef TRAIN_DIST_ALLREDUCE_INTERNAL_H
#define TRAIN_DIST_ALLREDUCE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "train/dist/allreduce.h"

enum { ALLREDUCE_SLOTS = 4 }; /* buckets under way */

typedef struct segment {
    int tensor;
    int64_t begin, count;
} segment;

typedef struct bucket {
    int first, count;             /* segments */
    int64_t elements, at, own_at; /* where its elements, and those of this rank's piece, begin among all buckets' */
} bucket;

/* Memory of a bucket under way. */
typedef struct slot {
    char *send, *receive;                         /* NULL where memory is shared */
    int *sent, *sent_at, *received, *received_at; /* [size] bytes and offsets */
    mpi_transfer transfer;
} slot;

struct allreduce {
    mpi *mpi;
    allreduce_options options;
    int rank, size, count, segment_count, bucket_count;
    int64_t *counts;
    float **gradients;
    bool *told; /* [tensor] */
    segment *segments;
    bucket *buckets;
    slot slots[ALLREDUCE_SLOTS];
    size_t slot_bytes;
    int next_start, next_finish;     /* buckets start and finish in one order on all ranks */
    float *sums, *widened;           /* the largest own piece of a bucket; one share of it */
    float *residual, *residual_sums; /* int4: what messages left out, bucket by bucket; of shares, of sums; else NULL */
    const char **shares;             /* [rank] of the own piece, as they travelled */
    char *const *shared;             /* [rank] what allreduce_shm.c keeps; NULL: messages travel instead */
    int next_sum;                    /* bucket whose shares are added next, there, */
    int64_t before;                  /* and how many buckets went before this step's */
};

/* Of `count` elements, the rank's. */
void allreduce_piece_of(const allreduce *d, int64_t count, int rank, int64_t *begin, int64_t *end);
/* Elements of a rank's pieces in a bucket, and the bytes that they take after those of the rank before, as they
 * travel. */
int64_t allreduce_elements(const allreduce *d, const bucket *b, int rank);
int64_t allreduce_wire_bytes(allreduce_wire wire,
                             int64_t elements); /* of so many in a row, a scale before them included */
int64_t allreduce_room(const allreduce *d, const bucket *b, int rank);

/* A rank's pieces of a bucket, from the gradients, as they travel. */
void allreduce_write(const allreduce *d, const bucket *b, int rank, char *target);
/* d->sums: of a bucket's own piece, from d->shares, in the order of the ranks. */
void allreduce_add(allreduce *d, const bucket *b);
void allreduce_accumulate(float *restrict sums, const float *restrict values, int64_t count);
/* These sums as they travel, and a rank's back from there into the gradients. */
int64_t allreduce_write_sums(const allreduce *d, const bucket *b, char *target); /* bytes */
void allreduce_take(allreduce *d, const bucket *b, int rank, const char *source);
void allreduce_spread(const allreduce *d, const bucket *b, int rank, const float *values);
bool allreduce_is_complete(const allreduce *d, const bucket *b);

/* Opens the memory where all ranks are on one machine; d->shared stays NULL where not. All ranks call it. */
PROPANE_CHECK propane_status allreduce_shared_open(allreduce *d, propane_error *err);
void allreduce_shared_ready(allreduce *d); /* starts what has become complete, lets the rest go on */
PROPANE_CHECK propane_status allreduce_shared_finish(allreduce *d,
                                                     propane_error *err); /* all buckets have been started */

#endif
