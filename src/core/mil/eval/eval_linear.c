/* SPDX-License-Identifier: MIT
 * Owns the meanings of matrix products: matmul, linear, conv, einsum and attention, written as their defining sums.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* Adds `count` products to `sum`. Products of integers may cancel and exceed what a double holds exactly, so y is split
 * into 65536 * high + low, and the sums of both parts are exact. */
static double eval_linear_sum(double sum, const double *x, int64_t x_step, const double *y, int64_t y_step,
                              int64_t count, bool whole) {
    if (!whole) {
        for (int64_t k = 0; k < count; k++) sum += x[k * x_step] * y[k * y_step];
        return sum;
    }
    double low = 0.0, high = 0.0; /* each product is below 2^47, so 64 of them are exact */
    for (int64_t k = 0; k < count; k++) {
        const double top = floor(y[k * y_step] / 65536.0);
        low += x[k * x_step] * (y[k * y_step] - 65536.0 * top);
        high += x[k * x_step] * top;
        if (k % 32 < 31) continue;
        const double carry = floor(low / 65536.0); /* keeps low small */
        high += carry;
        low -= 65536.0 * carry;
    }
    return 65536.0 * high + low + sum;
}

static bool eval_linear_whole(const mil_tensor *x, const mil_tensor *y) {
    return !mil_dtype_is_float(x->type.dtype) && !mil_dtype_is_float(y->type.dtype);
}

propane_status mil_eval_matmul(const mil_eval_args *a, propane_error *err) {
    const double *x = mil_eval_in(a, "x")->data, *y = mil_eval_in(a, "y")->data;
    const bool whole = eval_linear_whole(mil_eval_in(a, "x"), mil_eval_in(a, "y"));
    double *out = a->out[0].data;
    mil_matmul m;
    mil_walk w;
    int64_t batches = 1;
    PROPANE_TRY(mil_matmul_read(a->op, &m, err));
    mil_walk_begin(&w, m.batch_rank, m.batch);
    mil_walk_add(&w, m.x_step);
    mil_walk_add(&w, m.y_step);
    for (int d = 0; d < m.batch_rank; d++) batches *= m.batch[d];
    for (int64_t b = 0; b < batches; b++, mil_walk_next(&w))
        for (int64_t i = 0; i < m.m; i++)
            for (int64_t j = 0; j < m.n; j++) {
                const double *row = x + w.at[0] + i * m.x_row, *col = y + w.at[1] + j * m.y_col;
                *out++ = eval_linear_sum(0.0, row, m.x_col, col, m.y_row, m.k, whole);
            }
    return PROPANE_OK;
}

propane_status mil_eval_linear(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *weight = mil_eval_in(a, "weight"), *bias = mil_eval_in(a, "bias");
    const bool whole = eval_linear_whole(x, weight);
    const int64_t outputs = weight->type.dim[0], inputs = weight->type.dim[1], rows = mil_type_count(&x->type) / inputs;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < outputs; o++) {
            a->out[0].data[r * outputs + o] = eval_linear_sum(bias ? bias->data[o] : 0.0, x->data + r * inputs, 1,
                                                              weight->data + o * inputs, 1, inputs, whole);
        }
    return PROPANE_OK;
}

/* ---- conv ----------------------------------------------------------------------------------------------------------- */

/* Sums over the kernel for one input channel at output position `at`. Missing dimensions count as size 1. */
static double eval_linear_conv_patch(const mil_conv *c, const double *x, const double *weight, const int64_t at[3]) {
    double sum = 0.0;
    for (int64_t k0 = 0; k0 < c->kernel[0]; k0++)
        for (int64_t k1 = 0; k1 < c->kernel[1]; k1++)
            for (int64_t k2 = 0; k2 < c->kernel[2]; k2++) {
                const int64_t i0 = at[0] * c->stride[0] + k0 * c->dilation[0] - c->before[0];
                const int64_t i1 = at[1] * c->stride[1] + k1 * c->dilation[1] - c->before[1];
                const int64_t i2 = at[2] * c->stride[2] + k2 * c->dilation[2] - c->before[2];
                const double w = *weight++;
                if (i0 < 0 || i0 >= c->in[0] || i1 < 0 || i1 >= c->in[1] || i2 < 0 || i2 >= c->in[2]) continue;
                sum += w * x[(i0 * c->in[1] + i1) * c->in[2] + i2];
            }
    return sum;
}

propane_status mil_eval_conv(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *weight = mil_eval_in(a, "weight"), *bias = mil_eval_in(a, "bias");
    double *out = a->out[0].data;
    mil_conv c;
    PROPANE_TRY(mil_conv_read(a->op, &c, err));
    for (int d = c.spatial; d < 3; d++) c.in[d] = c.kernel[d] = c.out[d] = c.stride[d] = c.dilation[d] = 1;
    const int64_t in = c.in[0] * c.in[1] * c.in[2], kernel = c.kernel[0] * c.kernel[1] * c.kernel[2];
    const int64_t group_in = c.c_in / c.groups, group_out = c.c_out / c.groups;
    int64_t at[3];
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t o = 0; o < c.c_out; o++) {
            const double *plane = x->data + (n * c.c_in + o / group_out * group_in) * in;
            const double *w = weight->data + o * group_in * kernel;
            for (at[0] = 0; at[0] < c.out[0]; at[0]++)
                for (at[1] = 0; at[1] < c.out[1]; at[1]++)
                    for (at[2] = 0; at[2] < c.out[2]; at[2]++) {
                        double sum = bias ? bias->data[o] : 0.0;
                        for (int64_t i = 0; i < group_in; i++)
                            sum += eval_linear_conv_patch(&c, plane + i * in, w + i * kernel, at);
                        *out++ = sum;
                    }
        }
    return PROPANE_OK;
}

/* ---- einsum --------------------------------------------------------------------------------------------------------- */

propane_status mil_eval_einsum(const mil_eval_args *a, propane_error *err) {
    const int values = mil_op_param(a->op->info, "values");
    const mil_tensor *const *in = a->in[values];
    double *out = a->out[0].data;
    const int64_t results = mil_type_count(&a->out[0].type);
    int64_t terms = 1;
    mil_einsum e;
    mil_walk w;
    PROPANE_TRY(mil_einsum_read(a->op, &e, err));
    for (int l = e.result_rank; l < e.label_count; l++) terms *= e.size[l];
    mil_walk_begin(&w, e.label_count, e.size); /* the result's labels vary slowest */
    for (int k = 0; k < e.operand_count; k++) mil_walk_add(&w, e.step[k]);
    for (int64_t i = 0; i < results; i++)
        for (int64_t t = 0; t < terms; t++, mil_walk_next(&w)) {
            double product = 1.0;
            for (int k = 0; k < e.operand_count; k++) product *= in[k]->data[w.at[k]];
            out[i] += product;
        }
    return PROPANE_OK;
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

/* Sets scores[s] of one query row: q.k / sqrt(e) plus the mask, or -infinity where a bool mask is false. */
static void eval_linear_attention_scores(const mil_sdpa *p, const double *query, const double *keys,
                                         const mil_tensor *mask, int64_t mask_at, int64_t mask_step, double *scores) {
    for (int64_t s = 0; s < p->s; s++) {
        double sum = 0.0;
        for (int64_t e = 0; e < p->e; e++) sum += query[e] * keys[s * p->e + e];
        sum /= sqrt((double)p->e);
        if (mask) {
            const double m = mask->data[mask_at + s * mask_step];
            sum = mask->type.dtype != MIL_bool ? sum + m : m != 0.0 ? sum : -INFINITY;
        }
        scores[s] = sum;
    }
}

static void eval_linear_softmax_in_place(double *scores, int64_t count) {
    double largest = scores[0], sum = 0.0;
    for (int64_t s = 1; s < count; s++) largest = scores[s] > largest ? scores[s] : largest;
    for (int64_t s = 0; s < count; s++) sum += scores[s] = exp(scores[s] - largest);
    for (int64_t s = 0; s < count; s++) scores[s] /= sum;
}

/* Sets the step of an operand for each dimension of the scores. The operand advances over the batch, and over the rows
 * only if it has the rows of a query. */
static void eval_linear_batch_steps(const mil_type *type, const mil_type *scores, bool rows, int64_t *step) {
    int64_t own[MIL_MAX_RANK];
    mil_strides(type, own);
    for (int d = 0; d < scores->rank; d++)
        step[d] = d < scores->rank - 2 ? (type->dim[d] == 1 ? 0 : own[d]) : d == scores->rank - 2 && rows ? own[d] : 0;
}

propane_status mil_eval_sdpa(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *query = mil_eval_in(a, "query"), *key = mil_eval_in(a, "key"), *value = mil_eval_in(a, "value"),
                     *mask = mil_eval_in(a, "attn_mask");
    int64_t mask_step[MIL_MAX_RANK] = {0}, step[3][MIL_MAX_RANK];
    mil_sdpa p;
    mil_walk w;
    PROPANE_TRY(mil_sdpa_read(a->op, &p, err));
    double *scores = mem_array((size_t)p.s, sizeof *scores);
    if (!scores) return propane_fail_memory(err, (size_t)p.s * sizeof *scores);
    if (mask) mil_broadcast_strides(&mask->type, &p.scores, mask_step);
    eval_linear_batch_steps(&query->type, &p.scores, true, step[0]);
    eval_linear_batch_steps(&key->type, &p.scores, false, step[1]);
    eval_linear_batch_steps(&value->type, &p.scores, false, step[2]);
    mil_walk_begin(&w, p.scores.rank - 1, p.scores.dim); /* batch and query rows */
    mil_walk_add(&w, mask_step);
    for (int k = 0; k < 3; k++) mil_walk_add(&w, step[k]);
    for (int64_t row = 0; row < p.batch * p.l; row++, mil_walk_next(&w)) {
        eval_linear_attention_scores(&p, query->data + w.at[1], key->data + w.at[2], mask, w.at[0],
                                     mask_step[p.scores.rank - 1], scores);
        eval_linear_softmax_in_place(scores, p.s);
        double *out = a->out[0].data + row * p.v;
        for (int64_t s = 0; s < p.s; s++)
            for (int64_t v = 0; v < p.v; v++) out[v] += scores[s] * value->data[w.at[3] + s * p.v + v];
    }
    mem_free(scores);
    return PROPANE_OK;
}
