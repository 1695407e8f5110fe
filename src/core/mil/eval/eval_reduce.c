/* SPDX-License-Identifier: MIT
 * Owns the meanings of reductions, cumulative sums and normalisations. Variances are computed from the deviations from
 * the mean, in two passes. softmax and log_sum_exp subtract the largest element first.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* Assigns each element of x to a group, which is an offset in the result as if reduced dimensions were kept with size
 * 1. */
typedef struct groups {
    int64_t step[MIL_MAX_RANK]; /* 0 along reduced dimensions */
    int64_t count, size;        /* number of groups, and of elements in each */
} groups;

static void eval_reduce_group(const mil_type *x, const bool member[MIL_MAX_RANK], groups *g) {
    g->count = g->size = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        g->step[d] = member[d] ? 0 : g->count;
        *(member[d] ? &g->size : &g->count) *= x->dim[d];
    }
}

/* ---- reductions over any axes --------------------------------------------------------------------------------------- */

typedef double (*join)(double sum, double x);
typedef double (*finish)(double sum, double count);

static propane_status eval_reduce_reduce(const mil_eval_args *a, double start, join f, finish last,
                                         propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    double *out = a->out[0].data;
    bool member[MIL_MAX_RANK];
    groups g;
    mil_walk w;
    PROPANE_TRY(mil_attr_axes(a->op, "axes", x->type.rank, member, err));
    eval_reduce_group(&x->type, member, &g);
    for (int64_t i = 0; i < g.count; i++) out[i] = start;
    mil_walk_begin(&w, x->type.rank, x->type.dim);
    mil_walk_add(&w, g.step);
    for (int64_t i = 0; i < g.count * g.size; i++, mil_walk_next(&w)) out[w.at[0]] = f(out[w.at[0]], x->data[i]);
    for (int64_t i = 0; last && i < g.count; i++) out[i] = last(out[i], (double)g.size);
    return PROPANE_OK;
}

static double eval_reduce_join_sum(double sum, double x) { return sum + x; }
static double eval_reduce_join_max(double best, double x) { return isnan(best) || best > x ? best : x; }
static double eval_reduce_join_min(double best, double x) { return isnan(best) || best < x ? best : x; }
static double eval_reduce_join_product(double sum, double x) { return sum * x; }
static double eval_reduce_join_abs(double sum, double x) { return sum + fabs(x); }
static double eval_reduce_join_square(double sum, double x) { return sum + x * x; }
static double eval_reduce_finish_mean(double sum, double count) { return sum / count; }
static double eval_reduce_finish_root(double sum, double count) { return sqrt(sum); }
static double eval_reduce_finish_log(double sum, double count) { return log(sum); }

#define REDUCE(name, start, join, finish)                                                                              \
    propane_status mil_eval_##name(const mil_eval_args *a, propane_error *err) {                                       \
        return eval_reduce_reduce(a, start, join, finish, err);                                                        \
    }

REDUCE(reduce_sum, 0.0, eval_reduce_join_sum, NULL)
REDUCE(reduce_mean, 0.0, eval_reduce_join_sum, eval_reduce_finish_mean)
REDUCE(reduce_max, -INFINITY, eval_reduce_join_max, NULL)
REDUCE(reduce_min, INFINITY, eval_reduce_join_min, NULL)
REDUCE(reduce_prod, 1.0, eval_reduce_join_product, NULL)
REDUCE(reduce_l1_norm, 0.0, eval_reduce_join_abs, NULL)
REDUCE(reduce_l2_norm, 0.0, eval_reduce_join_square, eval_reduce_finish_root)
REDUCE(reduce_sum_square, 0.0, eval_reduce_join_square, NULL)
REDUCE(reduce_log_sum, 0.0, eval_reduce_join_sum, eval_reduce_finish_log)

propane_status mil_eval_reduce_log_sum_exp(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    double *largest = a->out[0].data;
    bool member[MIL_MAX_RANK];
    groups g;
    mil_walk w;
    PROPANE_TRY(mil_eval_reduce_max(a, err));
    PROPANE_TRY(mil_attr_axes(a->op, "axes", x->type.rank, member, err));
    eval_reduce_group(&x->type, member, &g);
    double *sum = mem_array((size_t)g.count, sizeof *sum);
    if (!sum) return propane_fail_memory(err, (size_t)g.count * sizeof *sum);
    mil_walk_begin(&w, x->type.rank, x->type.dim);
    mil_walk_add(&w, g.step);
    for (int64_t i = 0; i < g.count * g.size; i++, mil_walk_next(&w))
        sum[w.at[0]] += exp(x->data[i] - largest[w.at[0]]);
    for (int64_t i = 0; i < g.count; i++)
        if (!isinf(largest[i])) largest[i] += log(sum[i]);
    mem_free(sum);
    return PROPANE_OK;
}

/* ---- along one axis ------------------------------------------------------------------------------------------------- */

/* Views x as [outer, size, inner]. */
typedef struct line {
    int64_t outer, size, inner;
} line;

static propane_status eval_reduce_axis_line(const mil_eval_args *a, const mil_type *x, line *out, propane_error *err) {
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", x->rank, &axis, err));
    *out = (line){1, x->dim[axis], 1};
    for (int d = 0; d < axis; d++) out->outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) out->inner *= x->dim[d];
    return PROPANE_OK;
}

/* Returns whether v replaces `best`. The first NaN wins, otherwise the first of the best, as in NumPy and PyTorch. */
static bool eval_reduce_beats(double v, double best) { return v > best || (isnan(v) && !isnan(best)); }

static propane_status eval_reduce_arg_best(const mil_eval_args *a, double sign, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    line l;
    PROPANE_TRY(eval_reduce_axis_line(a, &x->type, &l, err));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            const double *at = x->data + o * l.size * l.inner + i;
            int64_t best = 0;
            for (int64_t k = 1; k < l.size; k++)
                if (eval_reduce_beats(sign * at[k * l.inner], sign * at[best * l.inner])) best = k;
            a->out[0].data[o * l.inner + i] = (double)best;
        }
    return PROPANE_OK;
}

propane_status mil_eval_reduce_argmax(const mil_eval_args *a, propane_error *err) {
    return eval_reduce_arg_best(a, 1.0, err);
}
propane_status mil_eval_reduce_argmin(const mil_eval_args *a, propane_error *err) {
    return eval_reduce_arg_best(a, -1.0, err);
}

propane_status mil_eval_cumsum(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    bool exclusive = false, reverse = false;
    line l;
    PROPANE_TRY(eval_reduce_axis_line(a, &x->type, &l, err));
    PROPANE_TRY(mil_attr_bool(a->op, "exclusive", &exclusive, err));
    PROPANE_TRY(mil_attr_bool(a->op, "reverse", &reverse, err));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            double sum = 0.0;
            for (int64_t k = 0; k < l.size; k++) {
                const int64_t at = (o * l.size + (reverse ? l.size - 1 - k : k)) * l.inner + i;
                const double before = sum;
                sum += x->data[at];
                a->out[0].data[at] = exclusive ? before : sum;
            }
        }
    return PROPANE_OK;
}

propane_status mil_eval_softmax(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    line l;
    PROPANE_TRY(eval_reduce_axis_line(a, &x->type, &l, err));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            const double *in = x->data + o * l.size * l.inner + i;
            double *out = a->out[0].data + o * l.size * l.inner + i;
            double largest = in[0], sum = 0.0;
            for (int64_t k = 1; k < l.size; k++) largest = eval_reduce_join_max(largest, in[k * l.inner]);
            for (int64_t k = 0; k < l.size; k++) sum += out[k * l.inner] = exp(in[k * l.inner] - largest);
            for (int64_t k = 0; k < l.size; k++) out[k * l.inner] /= sum;
        }
    return PROPANE_OK;
}

/* ---- normalisation -------------------------------------------------------------------------------------------------- */

/* Computes mean and variance of every group. The caller frees *mean with mem_free, which also frees *variance. */
static propane_status eval_reduce_moments(const mil_tensor *x, const groups *g, double **mean, double **variance,
                                          propane_error *err) {
    double *m = mem_array((size_t)g->count * 2, sizeof *m);
    if (!m) return propane_fail_memory(err, (size_t)g->count * 2 * sizeof *m);
    double *v = m + g->count;
    mil_walk w;
    mil_walk_begin(&w, x->type.rank, x->type.dim);
    mil_walk_add(&w, g->step);
    for (int64_t i = 0; i < g->count * g->size; i++, mil_walk_next(&w)) m[w.at[0]] += x->data[i] / (double)g->size;
    for (int64_t i = 0; i < g->count * g->size; i++, mil_walk_next(&w)) {
        const double off = x->data[i] - m[w.at[0]];
        v[w.at[0]] += off * off / (double)g->size;
    }
    *mean = m, *variance = v;
    return PROPANE_OK;
}

/* Computes (x - mean) / sqrt(variance + epsilon) * gamma + beta. `by` and `scaled` are the strides of the statistics
 * and of gamma and beta. */
static void eval_reduce_normalise(const mil_eval_args *a, const double *mean, const double *variance, const int64_t *by,
                                  const int64_t *scaled, double epsilon) {
    const mil_tensor *x = mil_eval_in(a, "x"), *gamma = mil_eval_in(a, "gamma"), *beta = mil_eval_in(a, "beta");
    const int64_t count = mil_type_count(&x->type);
    mil_walk w;
    mil_walk_begin(&w, x->type.rank, x->type.dim);
    mil_walk_add(&w, by);
    mil_walk_add(&w, scaled);
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) {
        const double y = (x->data[i] - mean[w.at[0]]) / sqrt(variance[w.at[0]] + epsilon);
        a->out[0].data[i] = y * (gamma ? gamma->data[w.at[1]] : 1.0) + (beta ? beta->data[w.at[1]] : 0.0);
    }
}

propane_status mil_eval_layer_norm(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    bool member[MIL_MAX_RANK], rest[MIL_MAX_RANK];
    double epsilon = 0.0, *mean = NULL, *variance = NULL;
    groups over, scale;
    PROPANE_TRY(mil_attr_axes(a->op, "axes", x->type.rank, member, err));
    PROPANE_TRY(mil_attr_float(a->op, "epsilon", &epsilon, err));
    for (int d = 0; d < x->type.rank; d++) rest[d] = !member[d];
    eval_reduce_group(&x->type, member, &over);
    eval_reduce_group(&x->type, rest, &scale); /* gamma and beta have the normalised dimensions */
    PROPANE_TRY(eval_reduce_moments(x, &over, &mean, &variance, err));
    eval_reduce_normalise(a, mean, variance, over.step, scale.step, epsilon);
    mem_free(mean);
    return PROPANE_OK;
}

propane_status mil_eval_instance_norm(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const bool space[MIL_MAX_RANK] = {false, false, true, true, true};
    const int64_t channel[MIL_MAX_RANK] = {0, 1};
    double epsilon = 0.0, *mean = NULL, *variance = NULL;
    groups over;
    PROPANE_TRY(mil_attr_float(a->op, "epsilon", &epsilon, err));
    eval_reduce_group(&x->type, space, &over);
    PROPANE_TRY(eval_reduce_moments(x, &over, &mean, &variance, err));
    eval_reduce_normalise(a, mean, variance, over.step, channel, epsilon);
    mem_free(mean);
    return PROPANE_OK;
}

propane_status mil_eval_batch_norm(const mil_eval_args *a, propane_error *err) {
    const int64_t channel[MIL_MAX_RANK] = {0, 1};
    double epsilon = 0.0;
    PROPANE_TRY(mil_attr_float(a->op, "epsilon", &epsilon, err));
    eval_reduce_normalise(a, mil_eval_in(a, "mean")->data, mil_eval_in(a, "variance")->data, channel, channel, epsilon);
    return PROPANE_OK;
}

/* Divides by sqrt(sum of squares + epsilon), summed over the last three dimensions. */
propane_status mil_eval_l2_norm(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const int rank = x->type.rank;
    const int64_t size = x->type.dim[rank - 1] * x->type.dim[rank - 2] * x->type.dim[rank - 3];
    const int64_t count = mil_type_count(&x->type);
    double epsilon = 0.0;
    PROPANE_TRY(mil_attr_float(a->op, "epsilon", &epsilon, err));
    for (int64_t begin = 0; begin < count; begin += size) {
        double sum = epsilon;
        for (int64_t i = begin; i < begin + size; i++) sum += x->data[i] * x->data[i];
        for (int64_t i = begin; i < begin + size; i++) a->out[0].data[i] = x->data[i] / sqrt(sum);
    }
    return PROPANE_OK;
}
