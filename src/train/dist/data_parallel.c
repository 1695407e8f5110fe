/* SPDX-License-Identifier: MIT
 * Owns what a trainer does with the other ranks: it ties allreduce.c to the step's gradients, pieces and moments.
 */
#include "train/dist/data_parallel.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

struct data_parallel {
    mpi *mpi;
    allreduce *allreduce;
    allreduce_options options;
    outer_options outer_options;
    outer *outer; /* NULL: gradients are added up */
    train_step *step;
    model_weights *weights;
    train_reduce reduce;
    float **tensors; /* [learnt]: of what is gathered; tensors are numbered as they are learnt */
};

bool data_parallel_writes(const mpi *m) { return data_parallel_rank(m) == 0; }
int data_parallel_rank(const mpi *m) { return m ? mpi_rank(m) : 0; }

propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err) {
    int size = m ? mpi_size(m) : 1;
    *share = batch / size;
    if (batch % size == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--batch %lld cannot be shared out among %d ranks; give a multiple",
                        (long long)batch, size);
}

static propane_status data_parallel_ready(void *context, int tensor, float *gradient, propane_error *err) {
    const data_parallel *g = context;
    return allreduce_ready(g->allreduce, tensor, gradient, err);
}

static propane_status data_parallel_finish(void *context, propane_error *err) {
    const data_parallel *g = context;
    return allreduce_finish(g->allreduce, err);
}

static propane_status data_parallel_own_pieces(data_parallel *g, propane_error *err) {
    int count = allreduce_segment_count(g->allreduce);
    train_piece *pieces = mem_array((size_t)count + 1, sizeof *pieces);
    if (!pieces) return propane_fail_memory(err, (size_t)count * sizeof *pieces);
    for (int i = 0; i < count; i++)
        pieces[i].tensor = allreduce_piece(g->allreduce, i, &pieces[i].begin, &pieces[i].end);
    propane_status status = train_step_own(g->step, pieces, count, err);
    mem_free(pieces);
    return status;
}

static propane_status data_parallel_make(data_parallel *g, propane_error *err) {
    size_t n = (size_t)train_step_learnt_count(g->step);
    int64_t *counts = mem_array(n, sizeof *counts);
    int *order = mem_array(n, sizeof *order);
    g->tensors = mem_array(n, sizeof *g->tensors);
    propane_status status = counts && order && g->tensors ? PROPANE_OK : propane_fail_memory(err, n * 16);
    if (status == PROPANE_OK) {
        for (size_t i = 0; i < n; i++) counts[i] = g->weights->tensors[train_step_learnt(g->step, (int)i)].count;
        train_step_gradient_order(g->step, order);
        status = allreduce_create(g->mpi, &g->options, counts, order, (int)n, &g->allreduce, err);
    }
    mem_free(counts);
    mem_free(order);
    if (status == PROPANE_OK && g->outer_options.every > 0 && mpi_size(g->mpi) > 1)
        status = outer_create(g->allreduce, mpi_size(g->mpi), &g->outer_options, g->step, g->weights, &g->outer, err);
    return status == PROPANE_OK && g->options.shard ? data_parallel_own_pieces(g, err) : status;
}

propane_status data_parallel_create(mpi *m, const allreduce_options *options, const outer_options *agree,
                                    train_step *step, model_weights *weights, data_parallel **out, propane_error *err) {
    *out = NULL;
    if (!m) return PROPANE_OK;
    data_parallel *g = mem_alloc(sizeof *g);
    if (!g) return propane_fail_memory(err, sizeof *g);
    *g = (data_parallel){.mpi = m, .options = *options, .outer_options = *agree, .step = step, .weights = weights};
    g->reduce = (train_reduce){g, data_parallel_ready, data_parallel_finish};
    propane_status status = data_parallel_make(g, err);
    if (status == PROPANE_OK)
        *out = g;
    else
        data_parallel_free(g);
    return status;
}

void data_parallel_free(data_parallel *g) {
    if (!g) return;
    outer_free(g->outer);
    allreduce_free(g->allreduce);
    mem_free(g->tensors);
    mem_free(g);
}

void data_parallel_listen(data_parallel *g) {
    if (g && !g->outer) train_step_reduce(g->step, &g->reduce);
}

void data_parallel_rest(data_parallel *g) {
    if (g) train_step_reduce(g->step, NULL);
}

/* ---- outer steps -------------------------------------------------------------------------------------------------------- */

bool data_parallel_is_outer(const data_parallel *g) { return g && g->outer; }
outer *data_parallel_outer(const data_parallel *g) { return g ? g->outer : NULL; }
allreduce *data_parallel_allreduce(const data_parallel *g) { return g ? g->allreduce : NULL; }

bool data_parallel_agrees(const data_parallel *g, int64_t step, int64_t steps) {
    return !data_parallel_is_outer(g) || step >= steps || step % g->outer_options.every == 0;
}

propane_status data_parallel_agree(data_parallel *g, int64_t step, int64_t steps, int64_t *bytes, propane_error *err) {
    *bytes = 0;
    if (!data_parallel_is_outer(g) || !data_parallel_agrees(g, step, steps)) return PROPANE_OK;
    *bytes = allreduce_sent_bytes(g->allreduce);
    return outer_agree(g->outer, err);
}

/* ---- sums ----------------------------------------------------------------------------------------------------------------- */

propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err) {
    return g ? mpi_sum(g->mpi, values, count, err) : PROPANE_OK;
}

propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err) {
    PROPANE_TRY(train_step_gradient_norm(step, norm, err));
    if (!g || !g->options.shard) return PROPANE_OK;
    double square = *norm * *norm;
    PROPANE_TRY(mpi_sum(g->mpi, &square, 1, err));
    *norm = sqrt(square);
    return PROPANE_OK;
}

/* `which` 0: the weights; 1 and 2: their moments. */
static propane_status data_parallel_gather(data_parallel *g, int which, int root, propane_error *err) {
    for (int i = 0; i < train_step_learnt_count(g->step); i++) {
        int tensor = train_step_learnt(g->step, i);
        g->tensors[i] = which == 0 ? model_weights_data(g->weights, &g->weights->tensors[tensor])
                                   : train_step_moment(g->step, which, tensor);
    }
    return allreduce_gather(g->allreduce, g->tensors, root, err);
}

propane_status data_parallel_updated(data_parallel *g, propane_error *err) {
    if (!g || !g->options.shard) return PROPANE_OK;
    PROPANE_TRY(data_parallel_gather(g, 0, -1, err));
    return train_step_publish(g->step, err);
}

propane_status data_parallel_collect(data_parallel *g, propane_error *err) {
    if (!g || !g->options.shard) return PROPANE_OK;
    for (int which = 1; which <= 2; which++) PROPANE_TRY(data_parallel_gather(g, which, 0, err));
    return PROPANE_OK;
}

static void data_parallel_discard(data_parallel *g, int tensor, int64_t begin, int64_t end) {
    for (int which = 1; which <= 2; which++)
        mem_pages_discard(train_step_moment(g->step, which, train_step_learnt(g->step, tensor)) + begin,
                          (size_t)(end - begin) * sizeof(float));
}

/* The moments of others are nothing but memory in use: their pages go back. */
void data_parallel_release(data_parallel *g) {
    if (!g || !g->options.shard) return;
    for (int i = 0; i < allreduce_segment_count(g->allreduce); i++) {
        int64_t begin, end, own_begin, own_end;
        int tensor = allreduce_segment(g->allreduce, i, &begin, &end);
        (void)allreduce_piece(g->allreduce, i, &own_begin, &own_end);
        data_parallel_discard(g, tensor, begin, own_begin);
        data_parallel_discard(g, tensor, own_end, end);
    }
}
