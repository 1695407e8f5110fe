/* SPDX-License-Identifier: MIT
 * Owns what the ranks had in common after the last outer step, and the momentum. The difference to it is made where the
 * weights lie, so the sum over the ranks needs no further memory.
 */
#include "train/dist/outer.h"

#include <string.h>

#include "base/memory.h"

struct outer {
    allreduce *reduce;
    outer_options options;
    float ranks;
    train_step *step;
    model_weights *weights;
    int count;       /* of learnt tensors */
    int64_t *at;     /* [count + 1]: where each begins in the arrays below, in elements */
    float *common;   /* NULL: the mean of the weights is enough */
    float *momentum; /* NULL: none */
};

static const model_tensor *outer_tensor(const outer *o, int i) {
    return &o->weights->tensors[train_step_learnt(o->step, i)];
}

static float *outer_weights(const outer *o, int i) { return model_weights_data(o->weights, outer_tensor(o, i)); }

static size_t outer_bytes(const outer *o) { return (size_t)o->at[o->count] * sizeof(float); }

/* ---- making --------------------------------------------------------------------------------------------------------------- */

static propane_status outer_make(outer *o, propane_error *err) {
    o->count = train_step_learnt_count(o->step);
    o->at = mem_array((size_t)o->count + 1, sizeof *o->at);
    if (!o->at) return propane_fail_memory(err, (size_t)o->count * sizeof *o->at);
    for (int i = 0; i < o->count; i++) o->at[i + 1] = o->at[i] + outer_tensor(o, i)->count;
    if (outer_is_mean(&o->options, allreduce_wire_of(o->reduce))) return PROPANE_OK;
    o->common = mem_pages_alloc(outer_bytes(o));
    if (o->options.momentum > 0) o->momentum = mem_pages_alloc(outer_bytes(o));
    if (!o->common || (o->options.momentum > 0 && !o->momentum)) return propane_fail_memory(err, outer_bytes(o));
    outer_begin(o);
    return PROPANE_OK;
}

propane_status outer_create(allreduce *reduce, int ranks, const outer_options *options, train_step *step,
                            model_weights *weights, outer **out, propane_error *err) {
    *out = NULL;
    outer *o = mem_alloc(sizeof *o);
    if (!o) return propane_fail_memory(err, sizeof *o);
    *o = (outer){.reduce = reduce, .options = *options, .ranks = (float)ranks, .step = step, .weights = weights};
    const propane_status status = outer_make(o, err);
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
    mem_free(o->at);
    mem_free(o);
}

void outer_begin(outer *o) {
    for (int i = 0; o->common && i < o->count; i++)
        memcpy(o->common + o->at[i], outer_weights(o, i), (size_t)(o->at[i + 1] - o->at[i]) * sizeof(float));
}

float *outer_momentum(const outer *o, int learnt) { return o->momentum ? o->momentum + o->at[learnt] : NULL; }

/* ---- the outer step --------------------------------------------------------------------------------------------------------- */

/* What the rank moved, in the weights' place. */
static void outer_subtract(const outer *o, int i) {
    float *restrict w = outer_weights(o, i);
    const float *restrict c = o->common + o->at[i];
    for (int64_t k = 0, n = o->at[i + 1] - o->at[i]; k < n; k++) w[k] = c[k] - w[k];
}

static void outer_divide(const outer *o, int i) {
    float *w = outer_weights(o, i);
    for (int64_t k = 0, n = o->at[i + 1] - o->at[i]; k < n; k++) w[k] /= o->ranks;
}

/* v = mu v + g; theta0 -= lr (g + mu v), where g is the mean of the differences. */
static void outer_move(const outer *o, int i) {
    const float lr = (float)o->options.lr, mu = (float)o->options.momentum;
    float *restrict w = outer_weights(o, i), *restrict c = o->common + o->at[i];
    float *restrict v = outer_momentum(o, i);
    for (int64_t k = 0, n = o->at[i + 1] - o->at[i]; k < n; k++) {
        const float g = w[k] / o->ranks;
        if (v) v[k] = mu * v[k] + g;
        c[k] -= lr * (v ? g + mu * v[k] : g);
        w[k] = c[k];
    }
}

propane_status outer_agree(outer *o, propane_error *err) {
    PROPANE_TRY(train_step_settle(o->step, err));
    for (int i = 0; o->common && i < o->count; i++) outer_subtract(o, i);
    for (int i = 0; i < o->count; i++) PROPANE_TRY(allreduce_ready(o->reduce, i, outer_weights(o, i), err));
    PROPANE_TRY(allreduce_finish(o->reduce, err));
    for (int i = 0; i < o->count; i++)
        if (o->common)
            outer_move(o, i);
        else
            outer_divide(o, i);
    return train_step_publish(o->step, err);
}
