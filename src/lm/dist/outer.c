/* SPDX-License-Identifier: MIT
 * Owns what the workers had in common after the last outer step, the momentum, and what is under way. Without fragments the
 * difference to it is made where the weights lie, so the sum over the ranks needs no further memory; streamed, or where a rank
 * may be lost before the sum is complete, it is made aside, in pages that go back once the result was taken.
 */
#include "lm/dist/outer.h"

#include <pthread.h>
#include <string.h>

#include "core/base/int_math.h"
#include "core/base/memory.h"

/* What was sent and not taken yet. One at a time: a turn's result is taken before the next turn sends. */
typedef struct flight {
    int64_t step; /* where it was sent; -1: there is none */
    int64_t fragment;
    bool running; /* a thread is at it */
    pthread_t thread;
    propane_status status; /* of the thread, once it was joined */
    propane_error err;
    double told; /* workers that are asked to stop */
} flight;

struct outer {
    mpi *ranks;
    allreduce *reduce;
    outer_options options;
    float workers;
    train_step *step;
    model_weights *weights;
    int count;           /* of learnt tensors */
    int64_t *at;         /* [count + 1]: where each begins in the arrays below, in elements */
    train_piece *pieces; /* [piece_count]: the tensors of `reduce` */
    int piece_count;
    float *common;   /* NULL: the mean of the weights is enough */
    float *momentum; /* NULL: none */
    float *staged;   /* differences, then their sum; NULL: they are made where the weights are */
    int64_t closed;  /* streamed: fragments that were agreed on after the last step */
    bool shown;      /* weights and `common` have changed places */
    bool told;
    flight flight;
};

static const model_tensor *outer_tensor(const outer *o, int i) {
    return &o->weights->tensors[train_step_learnt(o->step, i)];
}

static float *outer_weights(const outer *o, int i) { return model_weights_data(o->weights, outer_tensor(o, i)); }

static size_t outer_bytes(const outer *o) { return (size_t)o->at[o->count] * sizeof(float); }

static bool outer_is_streamed(const outer *o) { return outer_streams(&o->options); }

/* A sum that fails for the loss of a rank leaves the weights as they were. */
static bool outer_is_staged(const outer *o) { return outer_is_streamed(o) || mpi_sheds(o->ranks); }

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
    o->count = train_step_learnt_count(o->step);
    o->at = mem_array((size_t)o->count + 1, sizeof *o->at);
    if (!o->at) return propane_fail_memory(err, (size_t)o->count * sizeof *o->at);
    for (int i = 0; i < o->count; i++) o->at[i + 1] = o->at[i] + outer_tensor(o, i)->count;
    PROPANE_TRY(outer_take_pieces(o, pieces, count, err));
    if (outer_is_staged(o) && !(o->staged = mem_pages_alloc(outer_bytes(o))))
        return propane_fail_memory(err, outer_bytes(o));
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
    *o = (outer){.ranks = ranks,
                 .reduce = reduce,
                 .options = *options,
                 .workers = (float)mpi_size(ranks),
                 .step = step,
                 .weights = weights,
                 .flight = {.step = -1}};
    if (o->options.fragments < 1) o->options.fragments = 1;
    const propane_status status = outer_make(o, pieces, count, err);
    if (status == PROPANE_OK)
        *out = o;
    else
        outer_free(o);
    return status;
}

void outer_abandon(outer *o) {
    mpi_revoke(o->ranks);
    if (o->flight.running) (void)pthread_join(o->flight.thread, NULL);
    o->flight = (flight){.step = -1};
}

void outer_regroup(outer *o, mpi *ranks, allreduce *reduce) {
    o->ranks = ranks;
    o->reduce = reduce;
    o->workers = (float)mpi_size(ranks);
}

void outer_free(outer *o) {
    if (!o) return;
    if (o->flight.running) {
        mpi_stop(o->ranks); /* nobody will take it; others may be gone */
        (void)pthread_join(o->flight.thread, NULL);
    }
    if (o->common) mem_pages_free(o->common, outer_bytes(o));
    if (o->momentum) mem_pages_free(o->momentum, outer_bytes(o));
    if (o->staged) mem_pages_free(o->staged, outer_bytes(o));
    mem_free(o->pieces);
    mem_free(o->at);
    mem_free(o);
}

/* ---- the arithmetic -------------------------------------------------------------------------------------------------------- */

/* A run of numbers that is agreed on: the weights, and the same place in the arrays. */
typedef struct span {
    float *w, *c, *v, *sum; /* sum: where differences and then their sum lie */
    int64_t n;
} span;

static span outer_span(const outer *o, const train_piece *p, int64_t begin, int64_t end) {
    const int64_t at = p->begin + begin, in = o->at[p->tensor] + at;
    float *w = outer_weights(o, p->tensor) + at;
    return (span){w, o->common ? o->common + in : NULL, o->momentum ? o->momentum + in : NULL,
                  o->staged ? o->staged + in : w, end - begin};
}

static span outer_segment(const outer *o, int index) {
    int64_t begin, end;
    const int piece = allreduce_segment(o->reduce, index, &begin, &end);
    return outer_span(o, &o->pieces[piece], begin, end);
}

static span outer_piece(const outer *o, int index) {
    return outer_span(o, &o->pieces[index], 0, o->pieces[index].end - o->pieces[index].begin);
}

void outer_begin(outer *o) {
    o->shown = false;
    for (int i = 0; o->common && i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        memcpy(s.c, s.w, (size_t)s.n * sizeof *s.c);
    }
}

/* What the worker moved; for a mean its weights. */
static void outer_subtract(const span *s) {
    if (!s->c && s->sum != s->w) memcpy(s->sum, s->w, (size_t)s->n * sizeof *s->w);
    for (int64_t k = 0; s->c && k < s->n; k++) s->sum[k] = s->c[k] - s->w[k];
}

static void outer_divide(const outer *o, const span *s) {
    for (int64_t k = 0; k < s->n; k++) s->w[k] = s->sum[k] / o->workers;
}

/* v = fall mu v + g; theta0 -= lr (g + mu v), where g is the mean of the differences. */
static void outer_move(const outer *o, const span *s, double fall) {
    const float lr = (float)o->options.lr, mu = (float)o->options.momentum, kept = (float)(fall * o->options.momentum);
    float *restrict c = s->c, *restrict v = s->v;
    const float *restrict sum = s->sum;
    for (int64_t k = 0; k < s->n; k++) {
        const float g = sum[k] / o->workers;
        if (v) v[k] = kept * v[k] + g;
        c[k] -= lr * (v ? g + mu * v[k] : g);
    }
}

/* Without a delay the worker has made no step since it sent. */
static void outer_mix(const outer *o, const span *s, bool last) {
    const float own = o->options.delay > 0 && !last ? (float)o->options.mix : 0;
    for (int64_t k = 0; k < s->n; k++) s->w[k] = own > 0 ? own * s->w[k] + (1 - own) * s->c[k] : s->c[k];
}

/* ---- rounds and their rates -------------------------------------------------------------------------------------------------- */

static int64_t outer_interval(const outer_options *o) { return o->every / (o->fragments > 1 ? o->fragments : 1); }

/* Whose turn it is after `step`, which is a multiple of the interval. */
static int64_t outer_turn_of(const outer_options *o, int64_t step) {
    return (step / outer_interval(o) - 1) % (o->fragments > 1 ? o->fragments : 1);
}

/* The step of the fragment's newest turn before `step`; 0: the beginning. */
static int64_t outer_turn_before(const outer_options *o, int64_t fragment, int64_t step) {
    const int64_t first = (fragment + 1) * outer_interval(o);
    return step <= first ? 0 : first + (step - first - 1) / o->every * o->every;
}

static double outer_rates(const outer_options *o, int64_t from, int64_t to) {
    double sum = 0;
    for (int64_t step = from; step < to; step++) sum += train_schedule_at(o->schedule, o->first + step);
    return sum;
}

/* What the workers could move in the round that ends after `step`, in parts of the one before. */
static double outer_fall(const outer_options *o, int64_t fragment, int64_t step) {
    const int64_t begin = outer_turn_before(o, fragment, step), before = outer_turn_before(o, fragment, begin);
    const double then = o->schedule && begin > 0 && o->momentum > 0 ? outer_rates(o, before, begin) : 0;
    return then > 0 ? outer_rates(o, begin, step) / then : 1;
}

/* ---- everything at once ----------------------------------------------------------------------------------------------------- */

static propane_status outer_sum(outer *o, propane_error *err) {
    for (int i = 0; i < o->piece_count; i++) PROPANE_TRY(allreduce_ready(o->reduce, i, outer_piece(o, i).sum, err));
    return allreduce_finish(o->reduce, err);
}

propane_status outer_agree(outer *o, int64_t step, propane_error *err) {
    const double fall = outer_fall(&o->options, 0, step);
    PROPANE_TRY(train_step_settle(o->step, err));
    for (int i = 0; i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        outer_subtract(&s);
    }
    PROPANE_TRY(mpi_confirm(o->ranks, outer_sum(o, err), err));
    for (int i = 0; i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        if (o->common) {
            outer_move(o, &s, fall);
            outer_mix(o, &s, true);
        } else {
            outer_divide(o, &s);
        }
        if (o->staged) mem_pages_discard(s.sum, (size_t)s.n * sizeof *s.sum);
    }
    return PROPANE_OK;
}

/* ---- fragments that take turns ----------------------------------------------------------------------------------------------- */

/* The step of the newest turn before or at `step` of which the result was taken by then; 0: the beginning. */
static int64_t outer_last_turn(const outer_options *o, int64_t fragment, int64_t step) {
    const int64_t first = (fragment + 1) * outer_interval(o);
    return step - o->delay < first ? 0 : first + (step - o->delay - first) / o->every * o->every;
}

int64_t outer_staleness(const outer_options *o, int64_t step) {
    int64_t oldest = step;
    for (int64_t f = 0; f < (o->fragments > 1 ? o->fragments : 1); f++)
        oldest = min_i64(oldest, outer_last_turn(o, f, step));
    return step - oldest;
}

/* The thread's work. */
static void *outer_fly(void *context) {
    outer *o = context;
    flight *f = &o->flight;
    f->status = outer_sum(o, &f->err);
    if (f->status == PROPANE_OK) f->status = mpi_sum(o->ranks, &f->told, 1, &f->err);
    return NULL;
}

static void outer_send(outer *o, int64_t fragment, int64_t step, bool stop, int64_t *bytes) {
    int first, end;
    allreduce_part(o->reduce, o->options.fragments, fragment, &first, &end);
    allreduce_limit(o->reduce, o->options.fragments, fragment);
    *bytes += allreduce_sent_bytes(o->reduce);
    for (int i = first; i < end; i++) {
        const span s = outer_segment(o, i);
        outer_subtract(&s);
    }
    o->flight = (flight){.step = step, .fragment = fragment, .told = stop};
    o->flight.running = o->options.delay > 0 && pthread_create(&o->flight.thread, NULL, outer_fly, o) == 0;
    if (!o->flight.running) (void)outer_fly(o);
}

propane_status outer_settle(outer *o, propane_error *err) {
    flight *f = &o->flight;
    if (f->running) (void)pthread_join(f->thread, NULL);
    f->running = false;
    if (f->step >= 0 && f->status != PROPANE_OK && err) *err = f->err;
    return f->step >= 0 ? f->status : PROPANE_OK;
}

static propane_status outer_land(outer *o, bool last, propane_error *err) {
    int first, end;
    PROPANE_TRY(mpi_confirm(o->ranks, outer_settle(o, err), err));
    allreduce_part(o->reduce, o->options.fragments, o->flight.fragment, &first, &end);
    const double fall = outer_fall(&o->options, o->flight.fragment, o->flight.step);
    for (int i = first; i < end; i++) {
        const span s = outer_segment(o, i);
        outer_move(o, &s, fall);
        outer_mix(o, &s, last);
        mem_pages_discard(s.sum, (size_t)s.n * sizeof *s.sum);
    }
    o->told = o->told || o->flight.told > 0;
    o->flight.step = -1;
    return PROPANE_OK;
}

/* After the last step: what is under way is taken, then each fragment has its turn. */
static propane_status outer_close(outer *o, int64_t step, int64_t *bytes, propane_error *err) {
    PROPANE_TRY(train_step_settle(o->step, err));
    if (o->flight.step >= 0) PROPANE_TRY(outer_land(o, false, err));
    for (; o->closed < o->options.fragments; o->closed++) {
        outer_send(o, o->closed, step, false, bytes);
        PROPANE_TRY(outer_land(o, true, err));
    }
    o->closed = 0; /* more steps may follow */
    return PROPANE_OK;
}

static propane_status outer_stream(outer *o, int64_t step, bool stop, int64_t *bytes, bool *moved, propane_error *err) {
    const bool due = o->flight.step >= 0 && step >= o->flight.step + o->options.delay;
    const bool turn = step % outer_interval(&o->options) == 0, at_once = turn && o->options.delay == 0;
    if (due || turn) PROPANE_TRY(train_step_settle(o->step, err));
    if (due) PROPANE_TRY(outer_land(o, false, err));
    if (turn) outer_send(o, outer_turn_of(&o->options, step), step, stop, bytes);
    if (at_once) PROPANE_TRY(outer_land(o, false, err));
    *moved = due || at_once;
    return PROPANE_OK;
}

propane_status outer_turn(outer *o, int64_t step, int64_t steps, bool stop, int64_t *bytes, bool *moved,
                          propane_error *err) {
    *bytes = 0;
    *moved = step >= steps || step % o->options.every == 0;
    if (outer_is_streamed(o))
        return step < steps ? outer_stream(o, step, stop, bytes, moved, err) : outer_close(o, step, bytes, err);
    if (!*moved) return PROPANE_OK;
    *bytes = allreduce_sent_bytes(o->reduce);
    return outer_agree(o, step, err);
}

bool outer_is_told(const outer *o) { return o->told; }

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

float *outer_momentum(const outer *o, int learnt) { return o->momentum ? o->momentum + o->at[learnt] : NULL; }

float *outer_aside(const outer *o, int learnt) { return outer_is_streamed(o) ? o->common + o->at[learnt] : NULL; }

void outer_show(outer *o, bool common) {
    if (!outer_is_streamed(o) || o->shown == common) return;
    for (int i = 0; i < o->piece_count; i++) {
        const span s = outer_piece(o, i);
        for (int64_t k = 0; k < s.n; k++) {
            const float w = s.w[k];
            s.w[k] = s.c[k];
            s.c[k] = w;
        }
    }
    o->shown = common;
}

bool outer_is_shown(const outer *o) { return o->shown; }

int64_t outer_flight_step(const outer *o) { return o->flight.step; }

float *outer_flight(const outer *o, int learnt) {
    int first, end;
    if (o->flight.step < 0) return NULL;
    allreduce_part(o->reduce, o->options.fragments, o->flight.fragment, &first, &end);
    for (int i = first; i < end; i++) {
        int64_t from, to;
        if (o->pieces[allreduce_segment(o->reduce, i, &from, &to)].tensor == learnt) return o->staged + o->at[learnt];
    }
    return NULL;
}

void outer_restore_flight(outer *o, int64_t step) {
    o->flight = (flight){.step = step};
    if (step >= 0) o->flight.fragment = outer_turn_of(&o->options, step);
}

void outer_restore_aside(outer *o) { o->shown = true; }
