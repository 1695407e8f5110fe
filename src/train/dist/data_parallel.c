/* SPDX-License-Identifier: MIT
 * Owns what a trainer does with the other ranks: it ties allreduce.c to the step's gradients, pieces and moments.
 */
#include "train/dist/data_parallel.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

struct train_group {
    mpi *mpi;
    distribute *distribute;
    distribute_options options;
    train_step *step;
    model_weights *weights;
    train_reduce reduce;
    float **tensors; /* [learnt]: of what is gathered; tensors are numbered as they are learnt */
};

bool train_group_writes(const mpi *m) { return train_group_rank(m) == 0; }
int train_group_rank(const mpi *m) { return m ? mpi_rank(m) : 0; }

propane_status train_group_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err) {
    int size = m ? mpi_size(m) : 1;
    *share = batch / size;
    if (batch % size == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--batch %lld cannot be shared out among %d ranks; give a multiple",
                        (long long)batch, size);
}

static propane_status ready(void *context, int tensor, float *gradient, propane_error *err) {
    const train_group *g = context;
    return distribute_ready(g->distribute, tensor, gradient, err);
}

static propane_status finish(void *context, propane_error *err) {
    const train_group *g = context;
    return distribute_finish(g->distribute, err);
}

static propane_status own_pieces(train_group *g, propane_error *err) {
    int count = distribute_segment_count(g->distribute);
    train_piece *pieces = mem_array((size_t)count + 1, sizeof *pieces);
    if (!pieces) return propane_fail_memory(err, (size_t)count * sizeof *pieces);
    for (int i = 0; i < count; i++)
        pieces[i].tensor = distribute_piece(g->distribute, i, &pieces[i].begin, &pieces[i].end);
    propane_status status = train_step_own(g->step, pieces, count, err);
    mem_free(pieces);
    return status;
}

static propane_status make(train_group *g, propane_error *err) {
    size_t n = (size_t)train_step_learnt_count(g->step);
    int64_t *counts = mem_array(n, sizeof *counts);
    int *order = mem_array(n, sizeof *order);
    g->tensors = mem_array(n, sizeof *g->tensors);
    propane_status status = counts && order && g->tensors ? PROPANE_OK : propane_fail_memory(err, n * 16);
    if (status == PROPANE_OK) {
        for (size_t i = 0; i < n; i++) counts[i] = g->weights->tensors[train_step_learnt(g->step, (int)i)].count;
        train_step_gradient_order(g->step, order);
        status = distribute_create(g->mpi, &g->options, counts, order, (int)n, &g->distribute, err);
    }
    mem_free(counts);
    mem_free(order);
    return status == PROPANE_OK && g->options.shard ? own_pieces(g, err) : status;
}

propane_status train_group_create(mpi *m, const distribute_options *options, train_step *step, model_weights *weights,
                                  train_group **out, propane_error *err) {
    *out = NULL;
    if (!m) return PROPANE_OK;
    train_group *g = mem_alloc(sizeof *g);
    if (!g) return propane_fail_memory(err, sizeof *g);
    *g = (train_group){.mpi = m, .options = *options, .step = step, .weights = weights};
    g->reduce = (train_reduce){g, ready, finish};
    propane_status status = make(g, err);
    if (status == PROPANE_OK)
        *out = g;
    else
        train_group_free(g);
    return status;
}

void train_group_free(train_group *g) {
    if (!g) return;
    distribute_free(g->distribute);
    mem_free(g->tensors);
    mem_free(g);
}

void train_group_listen(train_group *g) {
    if (g) train_step_reduce(g->step, &g->reduce);
}

void train_group_rest(train_group *g) {
    if (g) train_step_reduce(g->step, NULL);
}

propane_status train_group_sum(const train_group *g, double *values, int count, propane_error *err) {
    return g ? mpi_sum(g->mpi, values, count, err) : PROPANE_OK;
}

propane_status train_group_norm(train_group *g, train_step *step, double *norm, propane_error *err) {
    PROPANE_TRY(train_step_gradient_norm(step, norm, err));
    if (!g || !g->options.shard) return PROPANE_OK;
    double square = *norm * *norm;
    PROPANE_TRY(mpi_sum(g->mpi, &square, 1, err));
    *norm = sqrt(square);
    return PROPANE_OK;
}

/* `which` 0: the weights; 1 and 2: their moments. */
static propane_status gather(train_group *g, int which, int root, propane_error *err) {
    for (int i = 0; i < train_step_learnt_count(g->step); i++) {
        int tensor = train_step_learnt(g->step, i);
        g->tensors[i] = which == 0 ? model_weights_data(g->weights, &g->weights->tensors[tensor])
                                   : train_step_moment(g->step, which, tensor);
    }
    return distribute_gather(g->distribute, g->tensors, root, err);
}

propane_status train_group_updated(train_group *g, propane_error *err) {
    if (!g || !g->options.shard) return PROPANE_OK;
    PROPANE_TRY(gather(g, 0, -1, err));
    return train_step_publish(g->step, err);
}

propane_status train_group_collect(train_group *g, propane_error *err) {
    if (!g || !g->options.shard) return PROPANE_OK;
    for (int which = 1; which <= 2; which++) PROPANE_TRY(gather(g, which, 0, err));
    return PROPANE_OK;
}

static void discard(train_group *g, int tensor, int64_t begin, int64_t end) {
    for (int which = 1; which <= 2; which++)
        mem_pages_discard(train_step_moment(g->step, which, train_step_learnt(g->step, tensor)) + begin,
                          (size_t)(end - begin) * sizeof(float));
}

/* The moments of others are nothing but memory in use: their pages go back. */
void train_group_release(train_group *g) {
    if (!g || !g->options.shard) return;
    for (int i = 0; i < distribute_segment_count(g->distribute); i++) {
        int64_t begin, end, own_begin, own_end;
        int tensor = distribute_segment(g->distribute, i, &begin, &end);
        (void)distribute_piece(g->distribute, i, &own_begin, &own_end);
        discard(g, tensor, begin, own_begin);
        discard(g, tensor, own_end, end);
    }
}
