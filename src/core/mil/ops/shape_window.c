/* SPDX-License-Identifier: MIT
 * Owns the geometry of pooling and of transposed convolution: the window of x that an element of the result reads, or
 * the elements of the result to which an element of x contributes. The padding modes are the same as for conv.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

/* ---- pooling -------------------------------------------------------------------------------------------------------- */

/* In ceil mode an incomplete last window counts too, unless it begins after x and the padding in front of x. */
static propane_status shape_window_pool_ceil(const mil_op *op, mil_conv *c, propane_error *err) {
    for (int d = 0; d < c->spatial; d++) {
        if (c->before[d] != c->after[d])
            return BAD(
                "ceil_mode is true, but dimension %d is padded by %lld and %lld; it needs the same on both sides", d,
                (long long)c->before[d], (long long)c->after[d]);
        const int64_t room = c->in[d] + 2 * c->before[d] - c->kernel[d];
        c->out[d] = (room + c->stride[d] - 1) / c->stride[d] + 1;
        if ((c->out[d] - 1) * c->stride[d] >= c->in[d] + c->before[d]) c->out[d]--;
    }
    return PROPANE_OK;
}

propane_status mil_pool_read(const mil_op *op, mil_conv *out, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type;
    char text[160];
    bool ceil_mode = false;
    if (x->rank < 3 || x->rank > 5)
        return BAD("x is %s; pooling takes [n, c, d1], [n, c, d1, d2] or [n, c, d1, d2, d3]", mil_shape_print(text, x));
    *out =
        (mil_conv){.spatial = x->rank - 2, .n = x->dim[0], .c_in = x->dim[1], .c_out = x->dim[1], .groups = x->dim[1]};
    for (int d = 0; d < out->spatial; d++) {
        out->in[d] = x->dim[d + 2], out->dilation[d] = 1;
        if (out->in[d] > INT32_MAX) return BAD("spatial dimension %d is larger than 2^31", d);
    }
    PROPANE_TRY(mil_spatial_vector(op, "kernel_sizes", out->spatial, out->kernel, err));
    PROPANE_TRY(mil_spatial_vector(op, "strides", out->spatial, out->stride, err));
    PROPANE_TRY(mil_attr_bool(op, "ceil_mode", &ceil_mode, err));
    PROPANE_TRY(mil_conv_padding(op, out, err));
    for (int d = 0; d < out->spatial; d++)
        if (out->before[d] >= out->kernel[d] || out->after[d] >= out->kernel[d])
            return BAD("dimension %d is padded by %lld and %lld; both must be smaller than the kernel's %lld", d,
                       (long long)out->before[d], (long long)out->after[d], (long long)out->kernel[d]);
    return ceil_mode ? shape_window_pool_ceil(op, out, err) : PROPANE_OK;
}

/* ---- transposed convolution ------------------------------------------------------------------------------------------ */

static propane_status shape_window_output_dims(const mil_op *op, const mil_conv *c, int64_t wanted[MIL_MAX_RANK],
                                               bool *given, propane_error *err) {
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, "output_shape", MIL_MAX_RANK, wanted, &count, err));
    *given = count >= 0;
    if (count < 0) return PROPANE_OK;
    if (count != c->spatial + 2 || wanted[0] != c->n || wanted[1] != c->c_out)
        return BAD("output_shape must have %d entries and begin with %lld, %lld (batch, channels)", c->spatial + 2,
                   (long long)c->n, (long long)c->c_out);
    return PROPANE_OK;
}

/* Sets in, out and padding of the convolution that this op transposes; `in` is the size of this op's result. */
static propane_status shape_window_transposed_padding(const mil_op *op, const mil_type *x, mil_conv *c,
                                                      propane_error *err) {
    const char *mode = NULL;
    int64_t pad[2 * MIL_MAX_RANK] = {0}, wanted[MIL_MAX_RANK];
    int count = -1;
    bool given = false;
    PROPANE_TRY(mil_attr_text(op, "pad_type", &mode, err));
    const bool custom = !strcmp(mode, "custom"), same = !strcmp(mode, "same");
    if (!custom && !same && strcmp(mode, "valid") != 0)
        return BAD("pad_type is \"%.40s\"; it must be valid, custom or same", mode);
    if (custom) PROPANE_TRY(mil_attr_vector(op, "pad", 2 * MIL_MAX_RANK, pad, &count, err));
    if (count >= 0 && count != 2 * c->spatial)
        return BAD("pad has %d entries; %d spatial dimensions need %d", count, c->spatial, 2 * c->spatial);
    PROPANE_TRY(shape_window_output_dims(op, c, wanted, &given, err));
    for (int d = 0; d < c->spatial; d++) {
        const int64_t size = x->dim[d + 2], reach = (c->kernel[d] - 1) * c->dilation[d] + 1;
        const int64_t full = (size - 1) * c->stride[d] + reach;
        if (pad[2 * d] < 0 || pad[2 * d + 1] < 0)
            return BAD("pad[%d] is %lld; it must not be negative", pad[2 * d] < 0 ? 2 * d : 2 * d + 1,
                       (long long)(pad[2 * d] < 0 ? pad[2 * d] : pad[2 * d + 1]));
        c->out[d] = size;
        c->in[d] = given ? wanted[d + 2] : same ? size * c->stride[d] : full - pad[2 * d] - pad[2 * d + 1];
        const int64_t cut = full > c->in[d] ? full - c->in[d] : 0;
        c->before[d] = same ? cut / 2 : pad[2 * d];
        c->after[d] = full - c->before[d] - c->in[d]; /* if negative, these are rows that no element of x reaches */
        if (c->in[d] < 1 || c->in[d] > INT32_MAX)
            return BAD("spatial dimension %d of the result would be %lld", d, (long long)c->in[d]);
    }
    return PROPANE_OK;
}

propane_status mil_conv_transpose_read(const mil_op *op, mil_conv *out, propane_error *err) {
    const mil_value *bias = mil_in(op, "bias");
    const mil_type *x = &mil_in(op, "x")->type, *w = &mil_in(op, "weight")->type;
    char text[160];
    if (x->rank < 3 || x->rank > 5)
        return BAD("x is %s; conv_transpose takes [n, c, d1], [n, c, d1, d2] or [n, c, d1, d2, d3]",
                   mil_shape_print(text, x));
    if (w->rank != x->rank) return BAD("weight has rank %d, but x has rank %d", w->rank, x->rank);
    *out = (mil_conv){.spatial = x->rank - 2, .n = x->dim[0], .c_in = x->dim[1]};
    PROPANE_TRY(mil_attr_int(op, "groups", &out->groups, err));
    if (out->groups < 1 || out->groups > INT32_MAX || out->c_in % out->groups)
        return BAD("groups is %lld; it must divide the %lld input channels", (long long)out->groups,
                   (long long)out->c_in);
    if (w->dim[0] != out->c_in)
        return BAD("weight has %lld input channels, but x has %lld", (long long)w->dim[0], (long long)out->c_in);
    if (w->dim[1] > MIL_MAX_COUNT / out->groups) return BAD("the result would have more than 2^40 channels");
    out->c_out = w->dim[1] * out->groups;
    if (bias && (bias->type.rank != 1 || bias->type.dim[0] != out->c_out))
        return BAD("bias is %s; it must be [%lld], one number per output channel", mil_shape_print(text, &bias->type),
                   (long long)out->c_out);
    for (int d = 0; d < out->spatial; d++) {
        out->kernel[d] = w->dim[d + 2];
        if (out->kernel[d] > INT32_MAX || x->dim[d + 2] > INT32_MAX)
            return BAD("spatial dimension %d is larger than 2^31", d);
    }
    PROPANE_TRY(mil_spatial_vector(op, "strides", out->spatial, out->stride, err));
    PROPANE_TRY(mil_spatial_vector(op, "dilations", out->spatial, out->dilation, err));
    return shape_window_transposed_padding(op, x, out, err);
}
