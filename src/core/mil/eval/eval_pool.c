/* SPDX-License-Identifier: MIT
 * Owns the meanings of pooling, transposed and quantised convolution, and local response normalisation.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* Sets missing spatial dimensions to size 1. */
static void eval_pool_fill_missing(mil_conv *c) {
    for (int d = c->spatial; d < 3; d++) c->in[d] = c->kernel[d] = c->out[d] = c->stride[d] = c->dilation[d] = 1;
}

/* ---- pooling -------------------------------------------------------------------------------------------------------- */

typedef enum pool_kind { POOL_MAX, POOL_AVG, POOL_L2 } pool_kind;

/* Evaluates one window: [from, to) in each dimension inside x. An average divides by `divisor`. */
static double eval_pool_window(const mil_conv *c, const double *plane, const int64_t from[3], const int64_t to[3],
                               pool_kind kind, double divisor) {
    double sum = kind == POOL_MAX ? -INFINITY : 0.0;
    for (int64_t i = from[0]; i < to[0]; i++)
        for (int64_t j = from[1]; j < to[1]; j++)
            for (int64_t k = from[2]; k < to[2]; k++) {
                const double x = plane[(i * c->in[1] + j) * c->in[2] + k];
                if (kind == POOL_MAX)
                    sum = isnan(sum) || sum > x ? sum : x;
                else
                    sum += kind == POOL_L2 ? x * x : x;
            }
    return kind == POOL_AVG ? sum / divisor : kind == POOL_L2 ? sqrt(sum) : sum;
}

static propane_status eval_pool_pool(const mil_eval_args *a, pool_kind kind, bool exclude, propane_error *err) {
    const double *x = mil_eval_in(a, "x")->data;
    double *out = a->out[0].data;
    mil_conv c;
    int64_t at[3], from[3], to[3];
    PROPANE_TRY(mil_pool_read(a->op, &c, err));
    eval_pool_fill_missing(&c);
    for (int64_t plane = 0; plane < c.n * c.c_in; plane++, x += c.in[0] * c.in[1] * c.in[2])
        for (at[0] = 0; at[0] < c.out[0]; at[0]++)
            for (at[1] = 0; at[1] < c.out[1]; at[1]++)
                for (at[2] = 0; at[2] < c.out[2]; at[2]++) {
                    double divisor = 1.0;
                    for (int d = 0; d < 3; d++) {
                        const int64_t begin = at[d] * c.stride[d] - c.before[d], padded = c.in[d] + c.after[d];
                        const int64_t end = begin + c.kernel[d] < padded ? begin + c.kernel[d] : padded;
                        from[d] = begin < 0 ? 0 : begin;
                        to[d] = end < c.in[d] ? end : c.in[d];
                        divisor *= (double)(exclude ? to[d] - from[d] : end - begin);
                    }
                    *out++ = eval_pool_window(&c, x, from, to, kind, divisor);
                }
    return PROPANE_OK;
}

propane_status mil_eval_max_pool(const mil_eval_args *a, propane_error *err) {
    return eval_pool_pool(a, POOL_MAX, false, err);
}
propane_status mil_eval_l2_pool(const mil_eval_args *a, propane_error *err) {
    return eval_pool_pool(a, POOL_L2, false, err);
}
propane_status mil_eval_avg_pool(const mil_eval_args *a, propane_error *err) {
    bool exclude = false;
    PROPANE_TRY(mil_attr_bool(a->op, "exclude_padding_from_average", &exclude, err));
    return eval_pool_pool(a, POOL_AVG, exclude, err);
}

/* ---- convolutions --------------------------------------------------------------------------------------------------- */

/* Multiplies one plane of x by one kernel and adds the products into one plane of the result. */
static void eval_pool_spread_plane(const mil_conv *c, const double *x, const double *weight, double *out) {
    int64_t at[3], k[3], to[3];
    for (at[0] = 0; at[0] < c->out[0]; at[0]++)
        for (at[1] = 0; at[1] < c->out[1]; at[1]++)
            for (at[2] = 0; at[2] < c->out[2]; at[2]++, x++) {
                const double *w = weight;
                for (k[0] = 0; k[0] < c->kernel[0]; k[0]++)
                    for (k[1] = 0; k[1] < c->kernel[1]; k[1]++)
                        for (k[2] = 0; k[2] < c->kernel[2]; k[2]++, w++) {
                            bool inside = true;
                            for (int d = 0; d < 3; d++) {
                                to[d] = at[d] * c->stride[d] + k[d] * c->dilation[d] - c->before[d];
                                inside &= to[d] >= 0 && to[d] < c->in[d];
                            }
                            if (inside) out[(to[0] * c->in[1] + to[1]) * c->in[2] + to[2]] += *x * *w;
                        }
            }
}

propane_status mil_eval_conv_transpose(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *weight = mil_eval_in(a, "weight"), *bias = mil_eval_in(a, "bias");
    mil_conv c;
    PROPANE_TRY(mil_conv_transpose_read(a->op, &c, err));
    eval_pool_fill_missing(&c);
    const int64_t points = c.in[0] * c.in[1] * c.in[2], pixels = c.out[0] * c.out[1] * c.out[2];
    const int64_t taps = c.kernel[0] * c.kernel[1] * c.kernel[2], group_in = c.c_in / c.groups,
                  group_out = c.c_out / c.groups;
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t o = 0; o < c.c_out; o++) {
            double *out = a->out[0].data + (n * c.c_out + o) * points;
            for (int64_t i = 0; i < points; i++) out[i] = bias ? bias->data[o] : 0.0;
            for (int64_t i = 0; i < group_in; i++) {
                const int64_t from = o / group_out * group_in + i;
                eval_pool_spread_plane(&c, x->data + (n * c.c_in + from) * pixels,
                                       weight->data + (from * group_out + o % group_out) * taps, out);
            }
        }
    return PROPANE_OK;
}

/* Computes the weights, quant_scale * weight + quant_bias, and then an ordinary convolution. */
propane_status mil_eval_conv_quantized(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *weight = mil_eval_in(a, "weight"), *scale = mil_eval_in(a, "quant_scale"),
                     *shift = mil_eval_in(a, "quant_bias"), *list[1];
    const int64_t count = mil_type_count(&weight->type), each = count / weight->type.dim[0];
    mil_tensor wide = {weight->type, mem_array((size_t)count, sizeof(double))};
    mil_eval_args with = *a;
    if (!wide.data) return propane_fail_memory(err, (size_t)count * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        wide.data[i] = weight->data[i] * scale->data[scale->type.rank ? i / each % scale->type.dim[0] : 0] +
                       shift->data[shift->type.rank ? i / each % shift->type.dim[0] : 0];
    list[0] = &wide;
    with.in[mil_op_param(a->op->info, "weight")] = list;
    const propane_status status = mil_eval_conv(&with, err);
    mem_free(wide.data);
    return status;
}

/* ---- local response normalisation ------------------------------------------------------------------------------------ */

/* Computes x / (k + alpha / size * sum of the squares of `size` neighbouring channels)^beta. If the size is even, the
 * extra channel is in front. */
propane_status mil_eval_local_response_norm(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const int64_t channels = x->type.dim[1];
    int64_t size = 0, inner = 1;
    double alpha = 0.0, beta = 0.0, k = 0.0;
    PROPANE_TRY(mil_attr_int(a->op, "size", &size, err));
    PROPANE_TRY(mil_attr_float(a->op, "alpha", &alpha, err));
    PROPANE_TRY(mil_attr_float(a->op, "beta", &beta, err));
    PROPANE_TRY(mil_attr_float(a->op, "k", &k, err));
    for (int d = 2; d < x->type.rank; d++) inner *= x->type.dim[d];
    for (int64_t n = 0; n < x->type.dim[0]; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < inner; i++) {
                const int64_t low = c < size / 2 ? 0 : c - size / 2,
                              high = c + (size - 1) / 2 < channels ? c + (size - 1) / 2 : channels - 1;
                double sum = 0.0;
                for (int64_t j = low; j <= high; j++) {
                    const double v = x->data[(n * channels + j) * inner + i];
                    sum += v * v;
                }
                const int64_t at = (n * channels + c) * inner + i;
                a->out[0].data[at] = x->data[at] / pow(k + alpha / (double)size * sum, beta);
            }
    return PROPANE_OK;
}
