/* SPDX-License-Identifier: MIT
 * Owns the workers' common weights after the last outer step, and the momentum. The difference between the common and
 * the current weights overwrites the current ones, so the sum over the ranks needs no extra memory.
 */
#include "lm/dist/outer.h"

#include <string.h>

#include "core/base/memory.h"

struct outer {
    allreduce *reduce;
    outer_options options;
    float workers;
    train_step *step;
    model_weights *weights;
    int count;           /* number of trained tensors */
    int64_t *at;         /* [count + 1], element at which each tensor begins in `common` and `momentum` */
    train_piece *pieces; /* [piece_count], the pieces that are the tensors of `reduce` */
    int piece_count;
    float *common;   /* NULL if the mean of the weights is enough */
    float *momentum; /* NULL without momentum */
};

static const model_tensor *outer_tensor(const outer *o, int i) {
    return &o->weights->tensors[train_step_updated(o->step, i)];
}

static float *outer_weights(const outer *o, int i) { return model_weights_data(o->weights, outer_tensor(o, i)); }

static size_t outer_bytes(const outer *o) { return (size_t)o->at[o->count] * sizeof(float); }

/* ---- making --------------------------------------------------------------------------------------------------------------- */

static propane_status outer_take_pieces(outer *o, const train_piece *pieces, int count, propane_error *err) {
    o->piece_count = pieces ? count : o->count;
    o->pieces = mem_array((size_t)o->piece_count + 1, sizeof *o->pieces);
    if (!o->pieces) return propane_fail_memory(err, (size_t)o->piece_count * sizeof *o->pieces);
    for (int i = 0; i < o->piece_count; i++)
        o->pieces[i] = pieces ? pieces[i] : (train_piece){i, 0, outer_tensor(o, i)->count};
    return PROPANE_OK;
}

static propane_status outer_make(outer *o, const train_piece *pieces, int count, propane_error *err) {
    o->count = train_step_updated_count(o->step);
    o->at = mem_array((size_t)o->count + 1, sizeof *o->at);
    if (!o->at) return propane_fail_memory(err, (size_t)o->count * sizeof *o->at);
    for (int i = 0; i < o->count; i++) o->at[i + 1] = o->at[i] + outer_tensor(o, i)->count;
    PROPANE_TRY(outer_take_pieces(o, pieces, count, err));
    if (outer_is_mean(&o->options, allreduce_wire_of(o->reduce))) return PROPANE_OK;
    o->common = mem_pages_alloc(outer_bytes(o));
    if (o->options.momentum > 0) o->momentum = mem_pages_alloc(outer_bytes(o));
    if (!o->common || (o->options.momentum > 0 && !o->momentum)) return propane_fail_memory(err, outer_bytes(o));
    outer_begin(o);
    return PROPANE_OK;
}

propane_status outer_create(mpi *ranks, allreduce *reduce, const train_piece *pieces, int count,
                            const outer_options *options, train_step *step, model_weights *weights, outer **out,
                            propane_error *err) {
    *out = NULL;
    outer *o = mem_alloc(sizeof *o);
    if (!o) return propane_fail_memory(err, sizeof *o);
    *o = (outer){
        .reduce = reduce, .options = *options, .workers = (float)mpi_size(ranks), .step = step, .weights = weights};
    const propane_status status = outer_make(o, pieces, count, err);
    if (status == PROPANE_OK)
        *out = o;
    else
        outer_free(o);
    return status;
}

void outer_free(outer *o) {
    if (!o) return;
    if (o->common) mem_pages_free(o->common, outer_bytes(o));
    if (o->momentum) mem_pages_free(o->momentum, outer_bytes(o));
    mem_free(o->pieces);
    mem_free(o->at);
    mem_free(o);
}

/* ---- the arithmetic -------------------------------------------------------------------------------------------------------- */

/* A range of numbers to synchronise: the weights `w`, which become the difference and then the sum of the differences,
 * and the same range of the common weights `c` and of the momentum `v`. */
typedef struct span {
    float *w, *c, *v;
    int64_t n;
} span;

static span outer_piece(const outer *o, int index) {
    const train_piece *p = &o->pieces[index];
    const int64_t in = o->at[p->tensor] + p->begin;
    return (span){outer_weights(o, p->tensor) + p->begin, o->common ? o->common + in : NULL,
                  o->momentum ? o->momentum + in : NULL, p->end - p->begin};
}

void outer_begin(outer *o) {
    for (int i = 0; o->common && i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        memcpy(s.c, s.w, (size_t)s.n * sizeof *s.c);
    }
}

/* Replaces the weights by the worker's movement. For a plain mean, leaves the weights unchanged. */
static void outer_subtract(const span *s) {
    for (int64_t k = 0; s->c && k < s->n; k++) s->w[k] = s->c[k] - s->w[k];
}

static void outer_divide(const outer *o, const span *s) {
    for (int64_t k = 0; k < s->n; k++) s->w[k] /= o->workers;
}

/* Computes v = fall mu v + g and theta0 -= lr (g + mu v), where g is the mean of the differences. The weights become
 * theta0. */
static void outer_move(const outer *o, const span *s, double fall) {
    const float lr = (float)o->options.lr, mu = (float)o->options.momentum, kept = (float)(fall * o->options.momentum);
    float *restrict c = s->c, *restrict v = s->v, *restrict w = s->w;
    for (int64_t k = 0; k < s->n; k++) {
        const float g = w[k] / o->workers;
        if (v) v[k] = kept * v[k] + g;
        c[k] -= lr * (v ? g + mu * v[k] : g);
        w[k] = c[k];
    }
}

/* ---- rounds and their rates -------------------------------------------------------------------------------------------------- */

static double outer_rates(const outer_options *o, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t step = from; step < to; step++) sum += train_schedule_at(o->schedule, o->first + step);
    return sum;
}

/* Returns the start of the round that ends after `step`. */
static int64_t outer_round_begin(const outer_options *o, int64_t step) {
    return step > 0 ? (step - 1) / o->every * o->every : 0;
}

/* Returns how far the workers could move in the round that ends after `step`, relative to the previous round. */
static double outer_fall(const outer_options *o, int64_t step) {
    const int64_t begin = outer_round_begin(o, step), before = outer_round_begin(o, begin);
    const double then = o->schedule && begin > 0 && o->momentum > 0 ? outer_rates(o, before, begin) : 0;
    return then > 0 ? outer_rates(o, begin, step) / then : 1;
}

/* ---- the outer step ------------------------------------------------------------------------------------------------------- */

static propane_status outer_sum(outer *o, propane_error *err) {
    for (int i = 0; i < o->piece_count; i++) PROPANE_TRY(allreduce_ready(o->reduce, i, outer_piece(o, i).w, err));
    return allreduce_finish(o->reduce, err);
}

propane_status outer_synchronise(outer *o, int64_t step, propane_error *err) {
    const double fall = outer_fall(&o->options, step);
    PROPANE_TRY(train_step_settle(o->step, err));
    for (int i = 0; i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        outer_subtract(&s);
    }
    PROPANE_TRY(outer_sum(o, err));
    for (int i = 0; i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        if (o->common)
            outer_move(o, &s, fall);
        else
            outer_divide(o, &s);
    }
    return PROPANE_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

float *outer_momentum(const outer *o, int updated) { return o->momentum ? o->momentum + o->at[updated] : NULL; }
