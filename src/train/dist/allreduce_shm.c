/* SPDX-License-Identifier: MIT
 * Owns the sum of gradients over the ranks of one machine, through shared memory and without messages. A rank writes
 * its shares of the other ranks' pieces, sums its own piece from their shares, puts the sums in place of its own share,
 * and reads the other ranks' sums. Counters that only grow record each rank's progress. A rank waits only when a slot
 * is needed again, and at the end.
 *
 * In fp32, a rank reads its own share from the gradient and writes the sums into the gradient directly.
 */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/int_math.h"
#include "train/dist/allreduce_internal.h"

enum { CHUNK = 2048 };

/* A rank's progress: its shares are written, its own piece is summed, the other ranks' sums are read. */
typedef enum stage { WRITTEN, ADDED, TAKEN, STAGES } stage;

/* Stored in front of a rank's slots: the number of buckets that the rank has brought to each stage since the beginning,
 * with each count in a separate cache line. */
typedef struct shared_head {
    struct {
        _Alignas(64) atomic_int_fast64_t buckets;
    } done[STAGES];
} shared_head;

static atomic_int_fast64_t *allreduce_shm_count_of(const allreduce *d, int rank, stage at) {
    return &((shared_head *)(void *)d->shared[rank])->done[at].buckets;
}

static char *allreduce_shm_slot_of(const allreduce *d, int rank, int64_t number) {
    return d->shared[rank] + sizeof(shared_head) + (size_t)(number % ALLREDUCE_SLOTS) * d->slot_bytes;
}

/* Returns whether all ranks have brought bucket `number` to the stage `at`. */
static bool allreduce_shm_reached(const allreduce *d, stage at, int64_t number) {
    for (int r = 0; r < d->size; r++)
        if (atomic_load_explicit(allreduce_shm_count_of(d, r, at), memory_order_acquire) <= number) return false;
    return true;
}

static void allreduce_shm_signal(const allreduce *d, stage at, int64_t number) {
    atomic_store_explicit(allreduce_shm_count_of(d, d->rank, at), number + 1, memory_order_release);
}

static void allreduce_shm_write_shares(const allreduce *d, const bucket *b, int64_t number) {
    char *at = allreduce_shm_slot_of(d, d->rank, number);
    for (int r = 0; r < d->size; at += allreduce_room(d, b, r++))
        if (r != d->rank || d->options.wire != ALLREDUCE_FP32) allreduce_write(d, b, r, at);
    allreduce_shm_signal(d, WRITTEN, number);
}

/* Sums a tensor's piece, whose shares begin at offset `at`, in the order of the ranks. The sum is computed in parts
 * that stay in L1. */
static void allreduce_shm_add_piece(const allreduce *d, float *gradient, int64_t count, int64_t number, int64_t at) {
    float sums[CHUNK];
    for (int64_t i = 0; i < count; i += CHUNK, at += CHUNK * (int64_t)sizeof(float)) {
        const int64_t n = min_i64(CHUNK, count - i);
        const size_t bytes = (size_t)n * sizeof(float);
        for (int r = 0; r < d->size; r++) {
            const void *share = r == d->rank ? (const void *)(gradient + i) : allreduce_shm_slot_of(d, r, number) + at;
            if (r == 0)
                memcpy(sums, share, bytes);
            else
                allreduce_accumulate(sums, share, n);
        }
        memcpy(gradient + i, sums, bytes);
        if (!d->options.shard) memcpy(allreduce_shm_slot_of(d, d->rank, number) + at, sums, bytes);
    }
}

static void allreduce_shm_add_fp32(const allreduce *d, const bucket *b, int64_t number, int64_t at) {
    for (int i = b->first; i < b->first + b->count; i++) {
        const segment *s = &d->segments[i];
        int64_t begin, end;
        allreduce_piece_of(d, s->count, d->rank, &begin, &end);
        allreduce_shm_add_piece(d, d->gradients[s->tensor] + s->begin + begin, end - begin, number, at);
        at += (end - begin) * (int64_t)sizeof(float);
    }
}

/* Sums this rank's pieces of a bucket. In every format, the sums replace this rank's own share, which no other rank
 * reads. */
static void allreduce_shm_add_shares(allreduce *d, const bucket *b, int64_t number) {
    int64_t at = 0;
    for (int r = 0; r < d->rank; r++) at += allreduce_room(d, b, r);
    if (d->options.wire == ALLREDUCE_FP32)
        allreduce_shm_add_fp32(d, b, number, at);
    else {
        for (int r = 0; r < d->size; r++) d->shares[r] = allreduce_shm_slot_of(d, r, number) + at;
        allreduce_add(d, b);
        if (d->options.shard)
            allreduce_spread(d, b, d->rank, d->sums);
        else
            (void)allreduce_write_sums(d, b, allreduce_shm_slot_of(d, d->rank, number) + at);
    }
    allreduce_shm_signal(d, ADDED, number);
}

static void allreduce_shm_take_sums(allreduce *d, const bucket *b, int64_t number) {
    int64_t at = 0;
    for (int r = 0; r < d->size && !d->options.shard; at += allreduce_room(d, b, r++)) {
        const char *sums = allreduce_shm_slot_of(d, r, number) + at;
        if (d->options.wire != ALLREDUCE_FP32)
            allreduce_take(d, b, r, sums);
        else if (r != d->rank)
            allreduce_spread(d, b, r, (const float *)(const void *)sums);
    }
    allreduce_shm_signal(d, TAKEN, number);
}

/* Returns a bucket's number among all buckets since the beginning. */
static int64_t allreduce_shm_number(const allreduce *d, int index) { return d->before + index; }

/* Adds shares and takes sums of all buckets for which this is possible without waiting. */
static void allreduce_shm_go_on(allreduce *d) {
    for (bool more = true; more;) {
        more = d->next_sum < d->next_start && allreduce_shm_reached(d, WRITTEN, allreduce_shm_number(d, d->next_sum));
        if (more) {
            allreduce_shm_add_shares(d, &d->buckets[d->next_sum], allreduce_shm_number(d, d->next_sum));
            d->next_sum++;
        }
        if (d->next_finish < d->next_sum && allreduce_shm_reached(d, ADDED, allreduce_shm_number(d, d->next_finish))) {
            allreduce_shm_take_sums(d, &d->buckets[d->next_finish], allreduce_shm_number(d, d->next_finish));
            d->next_finish++;
            more = true;
        }
    }
}

/* Returns whether the slot of bucket `number` is free. Other ranks may still be reading its previous bucket. */
static bool allreduce_shm_is_free(const allreduce *d, int64_t number) {
    return number < ALLREDUCE_SLOTS || allreduce_shm_reached(d, TAKEN, number - ALLREDUCE_SLOTS);
}

void allreduce_shared_ready(allreduce *d) {
    while (d->next_start < d->bucket_count && allreduce_is_complete(d, &d->buckets[d->next_start])) {
        const int64_t number = allreduce_shm_number(d, d->next_start);
        for (allreduce_shm_go_on(d); !allreduce_shm_is_free(d, number); allreduce_shm_go_on(d)) {
            (void)sched_yield();
        }
        allreduce_shm_write_shares(d, &d->buckets[d->next_start++], number);
    }
    allreduce_shm_go_on(d);
}

propane_status allreduce_shared_finish(allreduce *d, propane_error *err) {
    for (allreduce_shm_go_on(d); d->next_finish < d->bucket_count; allreduce_shm_go_on(d)) {
        (void)sched_yield();
    }
    d->before += d->bucket_count;
    return PROPANE_OK;
}

propane_status allreduce_shared_open(allreduce *d, propane_error *err) {
    return mpi_share(d->mpi, sizeof(shared_head) + ALLREDUCE_SLOTS * d->slot_bytes, &d->shared, err);
}
