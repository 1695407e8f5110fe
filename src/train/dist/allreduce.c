/* SPDX-License-Identifier: MIT
 * Owns the transfers of buckets. A tensor is cut into segments of at most one bucket. A bucket has two transfers: the
 * shares are sent to the owner of each piece, and the sums are sent back to all ranks. At most ALLREDUCE_SLOTS buckets
 * are in flight, so their memory does not grow with the model.
 */
#include "train/dist/allreduce_internal.h"

#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

#define LARGEST_BUCKET (INT64_C(1) << 30)

int allreduce_segment_count(const allreduce *d) { return d->segment_count; }

int allreduce_segment(const allreduce *d, int index, int64_t *begin, int64_t *end) {
    const segment *s = &d->segments[index];
    *begin = s->begin, *end = s->begin + s->count;
    return s->tensor;
}

int allreduce_piece(const allreduce *d, int index, int64_t *begin, int64_t *end) {
    const segment *s = &d->segments[index];
    allreduce_piece_of(d, s->count, d->rank, begin, end);
    *begin += s->begin, *end += s->begin;
    return s->tensor;
}

allreduce_wire allreduce_wire_of(const allreduce *d) { return d->options.wire; }

/* Counts the shares that this rank sends to other ranks, and its sums, which it sends to all others. */
int64_t allreduce_sent_bytes(const allreduce *d) {
    int64_t sum = 0;
    for (int i = 0; i < d->bucket_count; i++) {
        const bucket *b = &d->buckets[i];
        for (int r = 0; r < d->size; r++)
            if (r != d->rank) sum += allreduce_wire_bytes(d->options.wire, allreduce_elements(d, b, r));
        if (!d->options.shard)
            sum += (d->size - 1) * allreduce_wire_bytes(d->options.wire, allreduce_elements(d, b, d->rank));
    }
    return sum;
}

static int64_t allreduce_residual_count(const allreduce *d, int which) {
    const bucket *last = d->buckets + d->bucket_count - 1;
    if (d->bucket_count == 0) return 0;
    return which ? last->own_at + allreduce_elements(d, last, d->rank) : last->at + last->elements;
}

float *allreduce_residual(const allreduce *d, int which, int64_t *count) {
    *count = allreduce_residual_count(d, which);
    return which ? d->residual_sums : d->residual;
}

/* ---- making ------------------------------------------------------------------------------------------------------------- */

static int64_t allreduce_bucket_elements(const allreduce *d) {
    const int64_t bytes = d->options.bucket > 0 ? d->options.bucket : ALLREDUCE_STANDARD_BUCKET;
    const int64_t grains = bytes / (int64_t)sizeof(float) / d->options.grain;
    return max_i64(grains, 1) * d->options.grain;
}

static propane_status allreduce_cut_segments(allreduce *d, const int *order, propane_error *err) {
    int64_t most = allreduce_bucket_elements(d), segments = 0;
    for (int i = 0; i < d->count; i++) segments += (d->counts[i] + most - 1) / most;
    d->segments = mem_array((size_t)segments + 1, sizeof *d->segments);
    d->buckets = mem_array((size_t)segments + 1, sizeof *d->buckets);
    if (!d->segments || !d->buckets) return propane_fail_memory(err, (size_t)segments * sizeof(segment));
    for (int i = 0; i < d->count; i++)
        for (int64_t at = 0, all = d->counts[order[i]]; at < all; at += most)
            d->segments[d->segment_count++] = (segment){order[i], at, all - at < most ? all - at : most};
    return PROPANE_OK;
}

/* Adds neighbouring segments until a bucket is full. */
static void allreduce_fill_buckets(allreduce *d) {
    bucket *b = NULL;
    for (int i = 0; i < d->segment_count; i++) {
        if (!b || b->elements + d->segments[i].count > allreduce_bucket_elements(d)) {
            bucket *before = b;
            b = &d->buckets[d->bucket_count++];
            b->first = i;
            if (before) b->at = before->at + before->elements;
            if (before) b->own_at = before->own_at + allreduce_elements(d, before, d->rank);
        }
        b->count++;
        b->elements += d->segments[i].count;
    }
}

static propane_status allreduce_make_slot(allreduce *d, slot *s, propane_error *err) {
    s->sent = mem_array((size_t)d->size * 4, sizeof *s->sent);
    if (!s->sent) return propane_fail_memory(err, (size_t)d->size * 4 * sizeof *s->sent);
    s->sent_at = s->sent + d->size;
    s->received = s->sent + 2 * d->size;
    s->received_at = s->sent + 3 * d->size;
    if (d->shared) return PROPANE_OK;
    s->send = mem_pages_alloc(d->slot_bytes);
    s->receive = mem_pages_alloc(d->slot_bytes);
    return s->send && s->receive ? PROPANE_OK : propane_fail_memory(err, 2 * d->slot_bytes);
}

static propane_status allreduce_make_residuals(allreduce *d, propane_error *err) {
    const size_t all = (size_t)allreduce_residual_count(d, 0), own = (size_t)allreduce_residual_count(d, 1);
    if (d->options.wire != ALLREDUCE_INT4) return PROPANE_OK;
    d->residual = mem_array(all + 1, sizeof(float));
    d->residual_sums = mem_array(own + 1, sizeof(float));
    return d->residual && d->residual_sums ? PROPANE_OK : propane_fail_memory(err, (all + own) * sizeof(float));
}

static propane_status allreduce_make(allreduce *d, const int64_t *counts, const int *order, propane_error *err) {
    size_t n = (size_t)d->count + 1;
    d->counts = mem_array(n, sizeof *d->counts);
    d->gradients = mem_array(n, sizeof *d->gradients);
    d->ready = mem_array(n, sizeof *d->ready);
    if (!d->counts || !d->gradients || !d->ready) return propane_fail_memory(err, n * 32);
    memcpy(d->counts, counts, (size_t)d->count * sizeof *counts);
    PROPANE_TRY(allreduce_cut_segments(d, order, err));
    allreduce_fill_buckets(d);
    PROPANE_TRY(allreduce_make_residuals(d, err));
    int64_t most = 0;
    for (int i = 0; i < d->bucket_count; i++) {
        int64_t own = allreduce_elements(d, &d->buckets[i], 0); /* rank 0 has the largest pieces */
        most = own > most ? own : most;
    }
    d->slot_bytes = (size_t)d->size * (size_t)(most + 4) * sizeof(float);
    PROPANE_TRY(allreduce_shared_open(d, err));
    for (int i = 0; i < ALLREDUCE_SLOTS; i++) PROPANE_TRY(allreduce_make_slot(d, &d->slots[i], err));
    d->shares = mem_array((size_t)d->size, sizeof *d->shares);
    d->sums = mem_array((size_t)most + 1, sizeof(float));
    d->widened = mem_array((size_t)most + 1, sizeof(float));
    return d->sums && d->widened && d->shares ? PROPANE_OK : propane_fail_memory(err, (size_t)most * sizeof(float));
}

propane_status allreduce_create(mpi *m, const allreduce_options *options, const int64_t *counts, const int *order,
                                int count, allreduce **out, propane_error *err) {
    *out = NULL;
    if (mpi_size(m) > MPI_MOST_RANKS)
        return propane_fail(err, PROPANE_ERR_LIMIT, "%d ranks; the maximum is %d", mpi_size(m), MPI_MOST_RANKS);
    if (options->bucket < 0 || options->bucket > LARGEST_BUCKET)
        return propane_fail(err, PROPANE_ERR_INVALID, "the bucket size is %lld bytes; it must be 0 to %lld",
                            (long long)options->bucket, (long long)LARGEST_BUCKET);
    allreduce *d = mem_alloc(sizeof *d);
    if (!d) return propane_fail_memory(err, sizeof *d);
    *d = (allreduce){.mpi = m, .options = *options, .rank = mpi_rank(m), .size = mpi_size(m), .count = count};
    d->options.grain = max_i64(options->grain, 1);
    propane_status status = allreduce_make(d, counts, order, err);
    if (status == PROPANE_OK)
        *out = d;
    else
        allreduce_free(d);
    return status;
}

void allreduce_free(allreduce *d) {
    if (!d) return;
    for (int i = 0; i < ALLREDUCE_SLOTS; i++) {
        if (d->slots[i].send) mem_pages_free(d->slots[i].send, d->slot_bytes);
        if (d->slots[i].receive) mem_pages_free(d->slots[i].receive, d->slot_bytes);
        mem_free(d->slots[i].sent);
    }
    mem_free(d->counts);
    mem_free(d->gradients);
    mem_free(d->ready);
    mem_free(d->segments);
    mem_free(d->buckets);
    mem_free(d->sums);
    mem_free(d->widened);
    mem_free(d->residual);
    mem_free(d->residual_sums);
    mem_free(d->shares);
    mem_free(d);
}

/* ---- gradients ---------------------------------------------------------------------------------------------------------- */

static propane_status allreduce_start_bucket(allreduce *d, bucket *b, slot *s, propane_error *err) {
    int64_t own = allreduce_wire_bytes(d->options.wire, allreduce_elements(d, b, d->rank)), out_at = 0, in_at = 0;
    for (int r = 0; r < d->size; r++) {
        s->sent[r] = (int)allreduce_wire_bytes(d->options.wire, allreduce_elements(d, b, r)),
        s->sent_at[r] = (int)out_at;
        s->received[r] = (int)own, s->received_at[r] = (int)in_at;
        allreduce_write(d, b, r, s->send + out_at);
        out_at += allreduce_room(d, b, r), in_at += allreduce_room(d, b, d->rank);
    }
    return mpi_exchange(d->mpi, s->send, s->sent, s->sent_at, s->receive, s->received, s->received_at, &s->transfer,
                        err);
}

/* Sends the sums back to all ranks. Every rank, including the owner, uses the sums as they were transmitted, so that
 * all ranks have the same bits. */
static propane_status allreduce_return_sums(allreduce *d, const bucket *b, slot *s, propane_error *err) {
    int bytes = (int)allreduce_write_sums(d, b, s->send);
    PROPANE_TRY(mpi_gather(d->mpi, -1, s->send, bytes, s->receive, s->sent, s->sent_at, &s->transfer, err));
    PROPANE_TRY(mpi_wait(d->mpi, &s->transfer, err));
    for (int r = 0; r < d->size; r++) allreduce_take(d, b, r, s->receive + s->sent_at[r]);
    return PROPANE_OK;
}

static propane_status allreduce_finish_next(allreduce *d, propane_error *err) {
    const bucket *b = &d->buckets[d->next_finish];
    slot *s = &d->slots[d->next_finish % ALLREDUCE_SLOTS];
    PROPANE_TRY(mpi_wait(d->mpi, &s->transfer, err));
    for (int r = 0; r < d->size; r++) d->shares[r] = s->receive + s->received_at[r];
    allreduce_add(d, b);
    if (d->options.shard)
        allreduce_spread(d, b, d->rank, d->sums);
    else
        PROPANE_TRY(allreduce_return_sums(d, b, s, err));
    d->next_finish++;
    return PROPANE_OK;
}

propane_status allreduce_ready(allreduce *d, int tensor, float *gradient, propane_error *err) {
    d->gradients[tensor] = gradient;
    d->ready[tensor] = true;
    if (d->shared) {
        allreduce_shared_ready(d);
        return PROPANE_OK;
    }
    while (d->next_start < d->bucket_count && allreduce_is_complete(d, &d->buckets[d->next_start])) {
        if (d->next_start - d->next_finish == ALLREDUCE_SLOTS) PROPANE_TRY(allreduce_finish_next(d, err));
        PROPANE_TRY(
            allreduce_start_bucket(d, &d->buckets[d->next_start], &d->slots[d->next_start % ALLREDUCE_SLOTS], err));
        d->next_start++;
    }
    for (int i = d->next_finish; i < d->next_start; i++) mpi_progress(d->mpi, &d->slots[i % ALLREDUCE_SLOTS].transfer);
    return PROPANE_OK;
}

propane_status allreduce_finish(allreduce *d, propane_error *err) {
    if (d->next_start != d->bucket_count)
        return propane_fail(err, PROPANE_ERR_INVALID, "rank %d: only %d of %d buckets of gradients are complete",
                            d->rank, d->next_start, d->bucket_count);
    if (d->shared) PROPANE_TRY(allreduce_shared_finish(d, err));
    while (d->next_finish < d->bucket_count) PROPANE_TRY(allreduce_finish_next(d, err));
    d->next_start = d->next_finish = d->next_sum = 0;
    memset(d->ready, 0, (size_t)d->count * sizeof *d->ready);
    return PROPANE_OK;
}

/* ---- weights and single values ------------------------------------------------------------------------------------------- */

propane_status allreduce_gather(allreduce *d, float *const *tensors, int root, propane_error *err) {
    slot *way = &d->slots[0];
    for (int i = 0; i < d->segment_count; i++) {
        const segment *s = &d->segments[i];
        int64_t begin, end;
        if (!tensors[s->tensor]) continue;
        for (int r = 0; r < d->size; r++) {
            allreduce_piece_of(d, s->count, r, &begin, &end);
            way->sent[r] = (int)((end - begin) * 4), way->sent_at[r] = (int)(begin * 4);
        }
        allreduce_piece_of(d, s->count, d->rank, &begin, &end); /* send and receive buffers must not overlap */
        float *whole = tensors[s->tensor] + s->begin;
        memcpy(d->sums, whole + begin, (size_t)(end - begin) * sizeof(float));
        PROPANE_TRY(
            mpi_gather(d->mpi, root, d->sums, way->sent[d->rank], whole, way->sent, way->sent_at, &way->transfer, err));
        PROPANE_TRY(mpi_wait(d->mpi, &way->transfer, err));
    }
    return PROPANE_OK;
}
