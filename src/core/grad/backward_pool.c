/* SPDX-License-Identifier: MIT
 * Owns the gradients of pooling and of transposed convolution. Sums over windows are reversed by a transposed
 * convolution with ones. A maximum passes its adjoint to the first position in the window that holds the maximum.
 *
 * Refuses windows of more than 256 positions if each position needs a separate operation.
 */
#include <float.h>

#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

enum { MAX_PLACES = 256 };

static int64_t backward_pool_places(const mil_conv *c) {
    int64_t count = 1;
    for (int d = 0; d < c->spatial; d++) count *= c->kernel[d];
    return count;
}

static propane_status backward_pool_check_places(const mil_op *op, const mil_conv *c, propane_error *err) {
    if (backward_pool_places(c) <= MAX_PLACES) return PROPANE_OK;
    return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "no gradient for a window of %lld elements; the maximum is %d",
                       (long long)backward_pool_places(c), MAX_PLACES);
}

/* Sets the coordinates of position t in the window. */
static void backward_pool_place(const mil_conv *c, int64_t t, int64_t at[3]) {
    for (int d = c->spatial - 1; d >= 0; d--) {
        at[d] = t % c->kernel[d];
        t /= c->kernel[d];
    }
}

/* Spreads dz to x's shape: every element of x gets the sum of dz over the windows that contain the element. */
static mil_value *backward_pool_spread_windows(grad_context *g, const mil_op *op, const mil_conv *c, mil_value *dz) {
    mil_builder *b = grad_build(g);
    const mil_type x = mil_in(op, "x")->type;
    const int64_t channels = x.dim[1];
    int64_t pad[6], dim[5] = {channels, 1};
    double *ones = mem_array((size_t)(channels * backward_pool_places(c)), sizeof *ones);
    if (!ones) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)(channels * backward_pool_places(c)) * sizeof *ones);
        return NULL;
    }
    for (int64_t i = 0; i < channels * backward_pool_places(c); i++) ones[i] = 1;
    for (int d = 0; d < c->spatial; d++) {
        dim[d + 2] = c->kernel[d];
        pad[2 * d] = c->before[d], pad[2 * d + 1] = c->after[d];
    }
    const mil_type type = mil_type_tensor(x.dtype, c->spatial + 2, dim);
    mil_value *weight = mil_build_const_f64(b, "ones", &type, ones), *amount = mil_build_ints(b, pad, 2 * c->spatial);
    mem_free(ones);
    mil_value *shape = mil_build_ints(b, x.dim, x.rank), *how = mil_build_text(b, "custom"),
              *strides = mil_build_ints(b, c->stride, c->spatial), *groups = mil_build_int(b, (int32_t)channels);
    mil_op *back = mil_build_op(b, MIL_OP_conv_transpose, NULL,
                                (mil_argument[]){{"x", 1, &dz},
                                                 {"weight", 1, &weight},
                                                 {"pad", 1, &amount},
                                                 {"output_shape", 1, &shape},
                                                 {"pad_type", 1, &how},
                                                 {"strides", 1, &strides},
                                                 {"groups", 1, &groups}},
                                7);
    return back ? back->results[0] : NULL;
}

/* Returns, for each result, 1 / the number of elements that count in its window. */
static mil_value *backward_pool_shares(grad_context *g, const mil_op *op, const mil_conv *c, bool exclude) {
    const mil_type *y = &op->results[0]->type;
    mil_type type = *y;
    mil_builder *b = grad_build(g);
    type.dim[0] = type.dim[1] = 1;
    const int64_t count = mil_type_count(&type);
    double *share = mem_array((size_t)count, sizeof *share);
    if (!share) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)count * sizeof *share);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        share[i] = 1;
        for (int d = c->spatial - 1; d >= 0; d--) {
            const int64_t begin = rest % c->out[d] * c->stride[d] - c->before[d], end = begin + c->kernel[d];
            const int64_t top = exclude ? c->in[d] : c->in[d] + c->after[d], low = exclude && begin < 0 ? 0 : begin;
            share[i] /= (double)((end < top ? end : top) - low);
            rest /= c->out[d];
        }
    }
    mil_value *v = mil_build_const_f64(b, "share", &type, share);
    mem_free(share);
    return v;
}

GRADIENT(avg_pool) {
    mil_conv c;
    bool exclude = false;
    PROPANE_TRY(mil_pool_read(op, &c, err));
    PROPANE_TRY(mil_attr_bool(op, "exclude_padding_from_average", &exclude, err));
    mil_value *dz = grad_mul(g, grad_of(g, op, 0), backward_pool_shares(g, op, &c, exclude));
    grad_give(g, op, "x", backward_pool_spread_windows(g, op, &c, dz));
    return PROPANE_OK;
}

/* For y = sqrt(sum of squares), the gradient is x times the sum of dz / y. */
GRADIENT(l2_pool) {
    mil_conv c;
    PROPANE_TRY(mil_pool_read(op, &c, err));
    mil_value *dz = grad_div(g, grad_of(g, op, 0), grad_result(g, op));
    grad_give(g, op, "x", grad_mul(g, grad_arg(g, op, "x"), backward_pool_spread_windows(g, op, &c, dz)));
    return PROPANE_OK;
}

/* Returns the elements that position t of every window reads from the padded `x`: a strided slice of the result's
 * shape. */
static mil_value *backward_pool_seen(grad_context *g, const mil_conv *c, mil_value *x, int64_t n, int64_t channels,
                                     int64_t t) {
    int64_t begin[5] = {0}, end[5] = {n, channels}, stride[5] = {1, 1}, at[3];
    backward_pool_place(c, t, at);
    for (int d = 0; d < c->spatial; d++) {
        begin[d + 2] = at[d] * c->dilation[d];
        end[d + 2] = begin[d + 2] + (c->out[d] - 1) * c->stride[d] + 1;
        stride[d + 2] = c->stride[d];
    }
    return grad_slice_step(g, x, c->spatial + 2, begin, end, stride);
}

/* Reverses backward_pool_seen: puts `part` at position t of every window, in a tensor of dimensions `padded` that is
 * zero elsewhere. */
static mil_value *backward_pool_put_back(grad_context *g, const mil_conv *c, mil_value *part, int64_t n,
                                         int64_t channels, int64_t t, const int64_t *padded) {
    const int rank = c->spatial + 2;
    int64_t dim[5] = {n, channels}, before[5] = {0}, after[5] = {0}, at[3];
    backward_pool_place(c, t, at);
    for (int d = 0; d < c->spatial; d++) dim[d + 2] = c->out[d];
    for (int d = 0; d < c->spatial; d++) {
        part = grad_spread(g, part, rank, dim, d + 2, c->stride[d]);
        before[d + 2] = at[d] * c->dilation[d];
        after[d + 2] = padded[d + 2] - before[d + 2] - dim[d + 2];
    }
    return grad_pad(g, part, rank, before, after);
}

/* Computes the padding that makes every window complete. */
static void backward_pool_whole(const mil_conv *c, const mil_type *x, int64_t padded[5], int64_t before[5],
                                int64_t after[5]) {
    for (int d = 0; d < c->spatial + 2; d++) padded[d] = x->dim[d], before[d] = after[d] = 0;
    for (int d = 0; d < c->spatial; d++) {
        const int64_t reach = (c->out[d] - 1) * c->stride[d] + (c->kernel[d] - 1) * c->dilation[d] + 1;
        const int64_t size = c->in[d] + c->before[d];
        before[d + 2] = c->before[d];
        after[d + 2] = reach > size ? reach - size : 0;
        padded[d + 2] = size + after[d + 2];
    }
}

static mil_value *backward_pool_padded_low(grad_context *g, mil_value *x, int spatial, const int64_t *before,
                                           const int64_t *after, double low) {
    mil_builder *b = grad_build(g);
    int64_t amount[6];
    for (int d = 0; d < spatial; d++) amount[2 * d] = before[d + 2], amount[2 * d + 1] = after[d + 2];
    if (!x) return NULL;
    mil_value *pad = mil_build_ints(b, amount, 2 * spatial), *value = mil_build_scalar(b, x->type.dtype, low);
    mil_op *op = mil_build_op(b, MIL_OP_pad, NULL,
                              (mil_argument[]){{"x", 1, &x}, {"pad", 1, &pad}, {"constant_val", 1, &value}}, 3);
    return op ? op->results[0] : NULL;
}

GRADIENT(max_pool) {
    mil_conv c;
    PROPANE_TRY(mil_pool_read(op, &c, err));
    PROPANE_TRY(backward_pool_check_places(op, &c, err));
    const mil_type type = mil_in(op, "x")->type;
    const mil_dtype dtype = type.dtype;
    const int64_t n = type.dim[0], channels = type.dim[1];
    int64_t padded[5], before[5], after[5], end[5];
    backward_pool_whole(&c, &type, padded, before, after);
    for (int d = 0; d < type.rank; d++) end[d] = before[d] + type.dim[d];
    mil_value *x = backward_pool_padded_low(g, grad_arg(g, op, "x"), c.spatial, before, after,
                                            dtype == MIL_fp16 ? -65504 : -FLT_MAX);
    mil_value *y = grad_result(g, op), *left = grad_of(g, op, 0), *sum = NULL;
    for (int64_t t = 0; t < backward_pool_places(&c);
         t++) { /* `left` is the part of dz that no earlier position has received */
        mil_value *here =
            mil_build_binary(grad_build(g), MIL_OP_equal, backward_pool_seen(g, &c, x, n, channels, t), y);
        mil_value *part = grad_select(g, here, left, grad_zero(g, dtype));
        left = grad_minus(g, left, part);
        part = backward_pool_put_back(g, &c, part, n, channels, t, padded);
        sum = sum ? grad_plus(g, sum, part) : part;
    }
    grad_give(g, op, "x", grad_slice_step(g, sum, type.rank, before, end, NULL));
    return PROPANE_OK;
}

/* ---- transposed convolution -------------------------------------------------------------------------------------- */

/* Returns dz with its cropped edges restored as zeros, which has the shape of the whole transposed convolution. */
static mil_value *backward_pool_uncut(grad_context *g, const mil_op *op, const mil_conv *c) {
    const int rank = c->spatial + 2;
    int64_t before[5] = {0}, after[5] = {0}, begin[5] = {0}, end[5];
    mil_value *dz = grad_of(g, op, 0);
    const mil_type *type = &op->results[0]->type;
    for (int d = 0; d < rank; d++) end[d] = type->dim[d];
    for (int d = 0; d < c->spatial; d++) {
        before[d + 2] = c->before[d];
        after[d + 2] = c->after[d] > 0 ? c->after[d] : 0;
        if (c->after[d] < 0) end[d + 2] += c->after[d]; /* rows that no element reaches */
    }
    return grad_pad(g, grad_slice_step(g, dz, rank, begin, end, NULL), rank, before, after);
}

static void backward_pool_give_input(grad_context *g, const mil_op *op, const mil_conv *c, mil_value *dz) {
    mil_builder *b = grad_build(g);
    mil_value *weight = grad_arg(g, op, "weight"), *strides = mil_build_ints(b, c->stride, c->spatial),
              *dilations = mil_build_ints(b, c->dilation, c->spatial), *groups = mil_build_int(b, (int32_t)c->groups);
    mil_op *back = mil_build_op(b, MIL_OP_conv, NULL,
                                (mil_argument[]){{"x", 1, &dz},
                                                 {"weight", 1, &weight},
                                                 {"strides", 1, &strides},
                                                 {"dilations", 1, &dilations},
                                                 {"groups", 1, &groups}},
                                5);
    grad_give(g, op, "x", back ? back->results[0] : NULL);
}

/* Builds one matrix product of x and a slice of dz per kernel position. */
static propane_status backward_pool_give_weight(grad_context *g, const mil_op *op, const mil_conv *c, mil_value *dz,
                                                propane_error *err) {
    PROPANE_TRY(backward_pool_check_places(op, c, err));
    const mil_type type = mil_in(op, "weight")->type;
    const int64_t in = c->c_in / c->groups, out = c->c_out / c->groups;
    int64_t points = 1;
    mil_value *parts[MAX_PLACES];
    for (int d = 0; d < c->spatial; d++) points *= c->out[d];
    mil_value *x = grad_reshape(g, grad_arg(g, op, "x"), 4, (int64_t[]){c->n, c->groups, in, points});
    for (int64_t t = 0; t < backward_pool_places(c); t++) {
        mil_value *part = backward_pool_seen(g, c, dz, c->n, c->c_out, t);
        part = grad_reshape(g, part, 4, (int64_t[]){c->n, c->groups, out, points});
        part = grad_sum(g, mil_build_matmul(grad_build(g), x, part, false, true), (int64_t[]){0}, 1);
        parts[t] = grad_reshape(g, part, 2, (int64_t[]){c->c_in, out});
    }
    mil_value *all = grad_join(g, MIL_OP_stack, parts, (int)backward_pool_places(c), 2);
    grad_give(g, op, "weight", grad_reshape_as(g, all, &type));
    return PROPANE_OK;
}

GRADIENT(conv_transpose) {
    mil_conv c;
    PROPANE_TRY(mil_conv_transpose_read(op, &c, err));
    mil_value *dz = backward_pool_uncut(g, op, &c);
    if (grad_wants(g, op, "x")) backward_pool_give_input(g, op, &c, dz);
    if (grad_wants(g, op, "weight")) PROPANE_TRY(backward_pool_give_weight(g, op, &c, dz, err));
    if (!grad_wants(g, op, "bias")) return PROPANE_OK;
    const int64_t axes[] = {0, 2, 3, 4}, channels[] = {c.c_out};
    grad_give(g, op, "bias", grad_reshape(g, grad_sum(g, grad_of(g, op, 0), axes, c.spatial + 1), 1, channels));
    return PROPANE_OK;
}

/* ---- local response normalization -------------------------------------------------------------------------------- */

/* Sums each element with `before` neighbours below and `after` above it along the channels. */
static mil_value *backward_pool_neighbours(grad_context *g, mil_value *x, const mil_type *type, int64_t before,
                                           int64_t after) {
    const int64_t pre = type->dim[0], n = type->dim[1], post = grad_product(type->dim, 2, type->rank);
    if (before > n - 1) before = n - 1;
    if (after > n - 1) after = n - 1;
    x = grad_reshape(g, x, 3, (int64_t[]){pre, n, post});
    x = grad_pad(g, x, 3, (int64_t[]){0, before, 0}, (int64_t[]){0, after, 0});
    mil_value *sum = NULL;
    for (int64_t k = 0; k <= before + after; k++) {
        mil_value *part = grad_slice_step(g, x, 3, (int64_t[]){0, k, 0}, (int64_t[]){pre, k + n, post}, NULL);
        sum = sum ? grad_plus(g, sum, part) : part;
    }
    return grad_reshape_as(g, sum, type);
}

/* Here z = x s^-beta with s = k + alpha/size * the sum of squares in the window. The part of the gradient that flows
 * through s is summed over the mirrored window. */
GRADIENT(local_response_norm) {
    const mil_type type = mil_in(op, "x")->type;
    mil_builder *b = grad_build(g);
    int64_t size = 0;
    double alpha = 0, beta = 0, k = 0;
    PROPANE_TRY(mil_attr_int(op, "size", &size, err));
    PROPANE_TRY(mil_attr_float(op, "alpha", &alpha, err));
    PROPANE_TRY(mil_attr_float(op, "beta", &beta, err));
    PROPANE_TRY(mil_attr_float(op, "k", &k, err));
    if (size > 256)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                           "no gradient for windows of %lld channels; the maximum is 256", (long long)size);
    mil_value *x = grad_arg(g, op, "x"), *dz = grad_of(g, op, 0);
    mil_value *s = backward_pool_neighbours(g, grad_mul(g, x, x), &type, size / 2, (size - 1) / 2);
    s = grad_shift(g, grad_scale(g, s, alpha / (double)size), k);
    mil_value *direct = grad_mul(g, dz, mil_build_binary_scalar(b, MIL_OP_pow, s, -beta));
    mil_value *through = grad_div(g, grad_mul(g, direct, x), s);
    through = backward_pool_neighbours(g, through, &type, (size - 1) / 2, size / 2);
    grad_give(g, op, "x",
              grad_plus(g, direct, grad_mul(g, x, grad_scale(g, through, -2 * alpha * beta / (double)size))));
    return PROPANE_OK;
}
