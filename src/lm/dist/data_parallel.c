/* SPDX-License-Identifier: MIT
 * Owns a run's exchanges with the other ranks. This file connects allreduce.c with the step's gradients, pieces and
 * moments.
 */
#include "lm/dist/data_parallel.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/dist/worker_state.h"

struct data_parallel {
    train_group group;
    const workers *who;
    allreduce *gradients; /* sums within a worker; NULL if the worker is one rank */
    allreduce *movements; /* sums between workers; NULL without outer steps */
    mpi *together;        /* all ranks, for `warm` */
    allreduce *warm;      /* sums of gradients over all ranks; NULL except during a warm-up */
    allreduce_options options;
    outer_options outer_options;
    outer *outer; /* NULL if there is one worker */
    train_step *step;
    model_weights *weights;
    train_reduce reduce;
    train_piece *pieces; /* this rank's pieces in a worker of several ranks, in the order of the segments */
    int piece_count;
    float **tensors; /* [trained tensor], scratch for the tensors to gather */
};

propane_status data_parallel_share(const mpi *m, int64_t batch, int64_t *share, propane_error *err) {
    int size = m ? mpi_size(m) : 1;
    *share = batch / size;
    if (batch % size == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--batch %lld cannot be divided among %d ranks; give a multiple",
                        (long long)batch, size);
}

static propane_status data_parallel_ready(void *context, int tensor, float *gradient, propane_error *err) {
    const data_parallel *g = context;
    return allreduce_ready(g->warm ? g->warm : g->gradients, tensor, gradient, err);
}

static propane_status data_parallel_finish(void *context, propane_error *err) {
    const data_parallel *g = context;
    return allreduce_finish(g->warm ? g->warm : g->gradients, err);
}

/* ---- making ---------------------------------------------------------------------------------------------------------------- */

static int64_t data_parallel_count_of(const data_parallel *g, int updated) {
    return g->weights->tensors[train_step_updated(g->step, updated)].count;
}

/* Creates an all-reduce over whole tensors. */
static propane_status data_parallel_make_sums(const data_parallel *g, mpi *ranks, const allreduce_options *how,
                                              const int *order, allreduce **out, propane_error *err) {
    const int n = train_step_updated_count(g->step);
    int64_t *counts = mem_array((size_t)n, sizeof *counts);
    if (!counts) return propane_fail_memory(err, (size_t)n * sizeof *counts);
    for (int i = 0; i < n; i++) counts[i] = data_parallel_count_of(g, i);
    const propane_status status = allreduce_create(ranks, how, counts, order, n, out, err);
    mem_free(counts);
    return status;
}

/* Creates the all-reduce within the worker. With outer steps, the wire format applies only between workers, because the
 * ranks of a worker are close to each other. */
static propane_status data_parallel_make_gradients(data_parallel *g, const int *order, propane_error *err) {
    allreduce_options how = g->options;
    if (!g->who->inside) return PROPANE_OK;
    if (g->who->count > 1) how.wire = ALLREDUCE_FP32;
    if (how.shard) how.grain = MOMENT_BLOCK; /* a block with one scale must belong to one rank */
    PROPANE_TRY(data_parallel_make_sums(g, g->who->inside, &how, order, &g->gradients, err));
    g->piece_count = allreduce_segment_count(g->gradients);
    g->pieces = mem_array((size_t)g->piece_count + 1, sizeof *g->pieces);
    if (!g->pieces) return propane_fail_memory(err, (size_t)g->piece_count * sizeof *g->pieces);
    for (int i = 0; i < g->piece_count; i++)
        g->pieces[i].tensor = allreduce_piece(g->gradients, i, &g->pieces[i].begin, &g->pieces[i].end);
    return g->options.shard ? train_step_own(g->step, g->pieces, g->piece_count, err) : PROPANE_OK;
}

/* Creates the all-reduce of the warm-up. It is not sharded: every rank receives all sums, whichever moments the rank
 * keeps. Gradients are sent with at least 16 bits, because with 4 bits each step's rounding errors would be applied one
 * step late. */
static propane_status data_parallel_make_warm(data_parallel *g, const int *order, propane_error *err) {
    allreduce_options how = {.wire = g->options.wire, .bucket = g->options.bucket};
    if (how.wire == ALLREDUCE_INT4) how.wire = ALLREDUCE_BF16;
    PROPANE_TRY(mpi_split(g->who->all, 0, &g->together, err));
    return data_parallel_make_sums(g, g->together, &how, order, &g->warm, err);
}

static void data_parallel_drop_warm(data_parallel *g) {
    allreduce_free(g->warm);
    mpi_release(g->together);
    g->warm = NULL;
    g->together = NULL;
}

/* Creates the all-reduce of the workers' movements, over this rank's pieces or over whole tensors. */
static propane_status data_parallel_make_movements(data_parallel *g, int *order, propane_error *err) {
    const int n = g->pieces ? g->piece_count : train_step_updated_count(g->step);
    const allreduce_options how = {.wire = g->options.wire, .bucket = g->options.bucket};
    int64_t *counts = mem_array((size_t)n + 1, sizeof *counts);
    int *own_order = g->pieces ? mem_array((size_t)n + 1, sizeof *own_order) : order;
    propane_status status = counts && own_order ? PROPANE_OK : propane_fail_memory(err, (size_t)n * sizeof *counts);
    for (int i = 0; i < n && status == PROPANE_OK; i++) {
        counts[i] = g->pieces ? g->pieces[i].end - g->pieces[i].begin : data_parallel_count_of(g, i);
        if (g->pieces) own_order[i] = i;
    }
    if (status == PROPANE_OK)
        status = allreduce_create(g->who->between, &how, counts, own_order, n, &g->movements, err);
    if (own_order != order) mem_free(own_order);
    mem_free(counts);
    return status;
}

static propane_status data_parallel_make(data_parallel *g, int64_t done, propane_error *err) {
    const size_t n = (size_t)train_step_updated_count(g->step);
    int *order = mem_array(n, sizeof *order);
    g->tensors = mem_array(n, sizeof *g->tensors);
    propane_status status = order && g->tensors ? PROPANE_OK : propane_fail_memory(err, n * 16);
    if (status == PROPANE_OK) {
        train_step_gradient_order(g->step, order);
        status = data_parallel_make_gradients(g, order, err);
    }
    if (status == PROPANE_OK && g->who->between) status = data_parallel_make_movements(g, order, err);
    if (status == PROPANE_OK && g->who->between)
        status = outer_create(g->who->between, g->movements, g->pieces, g->piece_count, &g->outer_options, g->step,
                              g->weights, &g->outer, err);
    if (status == PROPANE_OK && g->who->between && done < g->outer_options.first)
        status = data_parallel_make_warm(g, order, err);
    mem_free(order);
    return status;
}

static const train_group_calls data_parallel_calls;
static void data_parallel_free(data_parallel *g);

propane_status data_parallel_create(const workers *who, const data_parallel_options *options, train_step *step,
                                    model_weights *weights, data_parallel **out, propane_error *err) {
    *out = NULL;
    if (!who->all) return PROPANE_OK;
    data_parallel *g = mem_alloc(sizeof *g);
    if (!g) return propane_fail_memory(err, sizeof *g);
    *g = (data_parallel){.group = {&data_parallel_calls},
                         .who = who,
                         .options = options->sums,
                         .outer_options = options->outer,
                         .step = step,
                         .weights = weights};
    if (!who->inside) g->options.shard = false;
    g->reduce = (train_reduce){g, data_parallel_ready, data_parallel_finish};
    propane_status status = data_parallel_make(g, options->done, err);
    if (status == PROPANE_OK)
        *out = g;
    else
        data_parallel_free(g);
    return status;
}

train_group *data_parallel_group(data_parallel *g) { return g ? &g->group : NULL; }

static data_parallel *data_parallel_of(train_group *g) { return (data_parallel *)(void *)g; }
static const data_parallel *data_parallel_in(const train_group *g) { return (const data_parallel *)(const void *)g; }

static void data_parallel_free(data_parallel *g) {
    if (!g) return;
    data_parallel_drop_warm(g);
    outer_free(g->outer);
    allreduce_free(g->movements);
    allreduce_free(g->gradients);
    mem_free(g->pieces);
    mem_free(g->tensors);
    mem_free(g);
}

void data_parallel_listen(data_parallel *g) {
    if (g && (g->warm || g->gradients)) train_step_reduce(g->step, &g->reduce);
}

void data_parallel_rest(data_parallel *g) {
    if (g) train_step_reduce(g->step, NULL);
}

/* ---- sums ----------------------------------------------------------------------------------------------------------------- */

propane_status data_parallel_sum(const data_parallel *g, double *values, int count, propane_error *err) {
    return g ? mpi_sum(g->who->all, values, count, err) : PROPANE_OK;
}

propane_status data_parallel_sum_inside(const data_parallel *g, double *values, int count, propane_error *err) {
    if (data_parallel_warms(g)) return data_parallel_sum(g, values, count, err);
    return g && g->who->inside ? mpi_sum(g->who->inside, values, count, err) : PROPANE_OK;
}

propane_status data_parallel_norm(data_parallel *g, train_step *step, double *norm, propane_error *err) {
    PROPANE_TRY(train_step_gradient_norm(step, norm, err));
    if (!g || !g->options.shard) return PROPANE_OK;
    double square = *norm * *norm;
    PROPANE_TRY(mpi_sum(g->who->inside, &square, 1, err));
    *norm = sqrt(square);
    return PROPANE_OK;
}

/* ---- data that the ranks of a worker keep for each other --------------------------------------------------------- */

enum { WEIGHTS, MOMENTUM };

/* Returns a trained tensor's weights or momentum, or NULL if there is no momentum. */
static float *data_parallel_at(const data_parallel *g, int what, int updated) {
    const int tensor = train_step_updated(g->step, updated);
    if (what == WEIGHTS) return model_weights_data(g->weights, &g->weights->tensors[tensor]);
    return g->outer ? outer_momentum(g->outer, updated) : NULL;
}

static propane_status data_parallel_gather(data_parallel *g, int what, int root, propane_error *err) {
    for (int i = 0; i < train_step_updated_count(g->step); i++) {
        g->tensors[i] = data_parallel_at(g, what, i);
        if (!g->tensors[i]) return PROPANE_OK;
    }
    return allreduce_gather(g->gradients, g->tensors, root, err);
}

/* Gathers moments tensor by tensor, because for moments of fewer bits there is room for only one fp32 copy. */
static propane_status data_parallel_gather_moments(data_parallel *g, int which, propane_error *err) {
    const int n = train_step_updated_count(g->step);
    memset(g->tensors, 0, (size_t)n * sizeof *g->tensors);
    PROPANE_TRY(train_step_settle(g->step, err));
    for (int i = 0; i < n; i++) {
        const int tensor = train_step_updated(g->step, i);
        g->tensors[i] = train_step_moment(g->step, which, tensor);
        PROPANE_TRY(allreduce_gather(g->gradients, g->tensors, 0, err));
        if (g->who->place == 0) train_step_moment_keep(g->step, which, tensor);
        g->tensors[i] = NULL;
    }
    return PROPANE_OK;
}

propane_status data_parallel_updated(data_parallel *g, propane_error *err) {
    if (!g || !g->options.shard) return PROPANE_OK;
    PROPANE_TRY(data_parallel_gather(g, WEIGHTS, -1, err));
    return train_step_publish(g->step, err);
}

static propane_status data_parallel_collect(data_parallel *g, propane_error *err) {
    if (!g->gradients) return PROPANE_OK;
    for (int which = 1; g->options.shard && which <= 2; which++)
        PROPANE_TRY(data_parallel_gather_moments(g, which, err));
    return g->outer ? data_parallel_gather(g, MOMENTUM, 0, err) : PROPANE_OK;
}

static void data_parallel_discard(const data_parallel *g, int updated, int64_t begin, int64_t end) {
    const int tensor = train_step_updated(g->step, updated);
    for (int which = 1; g->options.shard && which <= 2; which++)
        train_step_moment_discard(g->step, which, tensor, begin, end);
    float *momentum = data_parallel_at(g, MOMENTUM, updated);
    if (momentum) mem_pages_discard(momentum + begin, (size_t)(end - begin) * sizeof(float));
}

/* Returns the pages of other ranks' parts to the system, because this rank does not use them. */
void data_parallel_release(data_parallel *g) {
    for (int i = 0; g && i < g->piece_count; i++) {
        int64_t begin, end;
        const int updated = allreduce_segment(g->gradients, i, &begin, &end);
        data_parallel_discard(g, updated, begin, g->pieces[i].begin);
        data_parallel_discard(g, updated, g->pieces[i].end, end);
    }
}

/* ---- outer steps -------------------------------------------------------------------------------------------------------- */

outer *data_parallel_outer(const data_parallel *g) { return g ? g->outer : NULL; }

bool data_parallel_warms(const data_parallel *g) { return g && g->warm; }

static bool data_parallel_is_alike(const data_parallel *g, int64_t step) {
    return !g->outer || g->warm || step <= g->outer_options.first;
}

static int64_t data_parallel_stride(const train_group *group, int64_t step) {
    const data_parallel *g = data_parallel_in(group);
    return data_parallel_is_alike(g, step) ? 1 : g->outer_options.every;
}

static int64_t data_parallel_since(const train_group *group, int64_t step, int64_t steps) {
    const data_parallel *g = data_parallel_in(group);
    if (!g->outer) return -1;
    return step >= steps ? 0 : (step - g->outer_options.first) % data_parallel_stride(group, step);
}

/* Ends the warm-up: the current weights become the common weights of all workers. */
static propane_status data_parallel_end_warmup(data_parallel *g, propane_error *err) {
    PROPANE_TRY(train_step_settle(g->step, err));
    data_parallel_drop_warm(g);
    outer_begin(g->outer);
    return PROPANE_OK;
}

static propane_status data_parallel_synchronise(train_group *group, int64_t step, int64_t steps, int64_t *bytes,
                                                propane_error *err) {
    data_parallel *g = data_parallel_of(group);
    if (!g->outer) return PROPANE_OK;
    if (g->warm) *bytes = allreduce_sent_bytes(g->warm);
    if (g->warm) return step < g->outer_options.first ? PROPANE_OK : data_parallel_end_warmup(g, err);
    const int64_t own = step - g->outer_options.first;
    if (step < steps && own % g->outer_options.every != 0) return PROPANE_OK;
    *bytes = allreduce_sent_bytes(g->movements);
    PROPANE_TRY(outer_synchronise(g->outer, own, err));
    /* each rank has changed only its own pieces */
    if (g->gradients) PROPANE_TRY(data_parallel_gather(g, WEIGHTS, -1, err));
    return train_step_publish(g->step, err);
}

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

/* Returns whether ranks have different states. During the warm-up, the first rank's state is valid for all ranks. */
static bool data_parallel_has_own_state(const data_parallel *g) { return g->outer && !g->warm; }

static propane_status data_parallel_save(train_group *group, train_run *r, propane_error *err) {
    data_parallel *g = data_parallel_of(group);
    PROPANE_TRY(data_parallel_collect(g, err));
    return data_parallel_has_own_state(g) ? worker_state_write(g->movements, r, err) : PROPANE_OK;
}

static propane_status data_parallel_saved(train_group *group, train_run *r, propane_error *err) {
    data_parallel *g = data_parallel_of(group);
    if (data_parallel_has_own_state(g)) PROPANE_TRY(worker_state_sweep(r, err));
    data_parallel_release(g);
    return PROPANE_OK;
}

static propane_status data_parallel_load(train_group *group, train_run *r, propane_error *err) {
    data_parallel *g = data_parallel_of(group);
    return data_parallel_has_own_state(g) ? worker_state_read(g->movements, r, err) : PROPANE_OK;
}

static void data_parallel_free_group(train_group *group) { data_parallel_free(data_parallel_of(group)); }

static const train_group_calls data_parallel_calls = {
    .free = data_parallel_free_group,
    .since = data_parallel_since,
    .stride = data_parallel_stride,
    .synchronise = data_parallel_synchronise,
    .save = data_parallel_save,
    .saved = data_parallel_saved,
    .load = data_parallel_load,
};
