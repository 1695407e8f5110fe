/* SPDX-License-Identifier: MIT
 * Transposed convolutions written out. Where the kernel is as large as the stride nothing overlaps: each element of x makes
 * its own block of the result, which is a 1x1 convolution and a transpose. All others are convolutions, with the kernel
 * turned round, over x with zeros between its elements. Constant weights are turned now.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/lower/lower.h"

/* The weight [c_in, c_out/g, *kernel] as [c_out, c_in/g, *kernel turned]. */
static mil_value *lower_transpose_turned_constant(mil_builder *b, const mil_value *w, const mil_conv *c,
                                                  const mil_type *type) {
    const int64_t in = c->c_in / c->groups, out = c->c_out / c->groups;
    const size_t size = w->type.dtype == MIL_fp16 ? 2 : 4;
    int64_t taps = 1;
    for (int d = 0; d < c->spatial; d++) taps *= c->kernel[d];
    char *data = mem_array((size_t)(c->c_in * out * taps), size);
    if (!data) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)(c->c_in * out * taps) * size);
        return NULL;
    }
    for (int64_t o = 0; o < c->c_out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t t = 0; t < taps; t++) {
                const int64_t from = ((o / out * in + i) * out + o % out) * taps + taps - 1 - t;
                memcpy(data + ((o * in + i) * taps + t) * (int64_t)size,
                       (const char *)w->konst->data + from * (int64_t)size, size);
            }
    mil_value *v = mil_build_const(b, "turned", type, data);
    mem_free(data);
    return v;
}

static mil_value *lower_transpose_turned_weight(mil_builder *b, mil_value *w, const mil_conv *c) {
    const int64_t in = c->c_in / c->groups, out = c->c_out / c->groups;
    int64_t split[6] = {c->groups, in, out}, perm[6] = {0, 2, 1, 3, 4, 5}, axes[3];
    mil_type type = w->type;
    type.dim[0] = c->c_out, type.dim[1] = in;
    if (w->konst && w->konst->data) return lower_transpose_turned_constant(b, w, c, &type);
    for (int d = 0; d < c->spatial; d++) split[d + 3] = c->kernel[d], axes[d] = d + 2;
    mil_value *v = mil_build_reshape(b, w, split, c->spatial + 3);
    v = v ? mil_build_transpose(b, v, perm, c->spatial + 3) : NULL;
    v = v ? mil_build_reshape(b, v, type.dim, type.rank) : NULL;
    mil_value *list = mil_build_ints(b, axes, c->spatial);
    mil_op *op =
        v ? mil_build_op(b, MIL_OP_reverse, NULL, (mil_argument[]){{"x", 1, &v}, {"axes", 1, &list}}, 2) : NULL;
    return op ? op->results[0] : NULL;
}

/* stride - 1 zeros between neighbours along one dimension. */
static mil_value *lower_transpose_spread(mil_builder *b, mil_value *x, int d, int64_t step) {
    const mil_type type = x->type;
    int64_t four[4] = {1, type.dim[d], 1, 1}, begin[4] = {0}, dim[MIL_MAX_RANK];
    if (step == 1 || type.dim[d] == 1) return x;
    for (int k = 0; k < type.rank; k++) four[k < d ? 0 : 3] *= k == d ? 1 : type.dim[k];
    mil_value *v = mil_build_reshape(b, x, four, 4);
    mil_value *pad = mil_build_ints(b, (int64_t[]){0, step - 1, 0, 0}, 4);
    mil_op *op = v ? mil_build_op(b, MIL_OP_pad, NULL, (mil_argument[]){{"x", 1, &v}, {"pad", 1, &pad}}, 2) : NULL;
    if (!op) return NULL;
    v = mil_build_reshape(b, op->results[0], (int64_t[]){four[0], four[1] * step, four[3]}, 3);
    const int64_t size = (type.dim[d] - 1) * step + 1;
    v = v ? mil_build_slice(b, v, begin, (int64_t[]){four[0], size, four[3]}) : NULL;
    memcpy(dim, type.dim, sizeof dim);
    dim[d] = size;
    return v ? mil_build_reshape(b, v, dim, type.rank) : NULL;
}

static mil_value *lower_transpose_with_bias(mil_builder *b, const mil_op *op, mil_value *y) {
    mil_value *bias = mil_in(op, "bias");
    int64_t dim[MIL_MAX_RANK];
    if (!bias || !y) return y;
    for (int d = 0; d < y->type.rank; d++) dim[d] = d == 1 ? y->type.dim[1] : 1;
    if (bias->type.dtype != y->type.dtype) bias = mil_build_cast(b, bias, y->type.dtype);
    bias = bias ? mil_build_reshape(b, bias, dim, y->type.rank) : NULL;
    return bias ? mil_build_binary(b, MIL_OP_add, y, bias) : NULL;
}

/* Every element of x makes a block of its own. */
static bool lower_transpose_is_blocks(const mil_conv *c) {
    bool blocks = c->groups == 1 && c->spatial == 2;
    for (int d = 0; d < c->spatial; d++)
        blocks &= c->kernel[d] == c->stride[d] && c->dilation[d] == 1 && c->before[d] == 0 && c->after[d] == 0;
    return blocks;
}

static mil_value *lower_transpose_as_blocks(mil_builder *b, const mil_op *op, const mil_conv *c) {
    const int64_t rows = c->c_out * c->kernel[0] * c->kernel[1], *in = c->out;
    mil_value *w = mil_build_reshape(b, mil_in(op, "weight"), (int64_t[]){c->c_in, rows}, 2);
    w = w ? mil_build_transpose(b, w, (int64_t[]){1, 0}, 2) : NULL;
    w = w ? mil_build_reshape(b, w, (int64_t[]){rows, c->c_in, 1, 1}, 4) : NULL;
    mil_value *y = w ? mil_build_conv1x1(b, mil_in(op, "x"), w) : NULL;
    const int64_t six[] = {c->n, c->c_out, c->kernel[0], c->kernel[1], in[0], in[1]};
    y = y ? mil_build_reshape(b, y, six, 6) : NULL;
    y = y ? mil_build_transpose(b, y, (int64_t[]){0, 1, 4, 2, 5, 3}, 6) : NULL;
    return y ? mil_build_reshape(b, y, op->results[0]->type.dim, 4) : NULL;
}

static mil_value *lower_transpose_as_conv(mil_builder *b, const mil_op *op, const mil_conv *c) {
    int64_t pad[6];
    mil_value *x = mil_in(op, "x"), *weight = lower_transpose_turned_weight(b, mil_in(op, "weight"), c);
    for (int d = 0; d < c->spatial; d++) {
        const int64_t reach = (c->kernel[d] - 1) * c->dilation[d];
        pad[2 * d] = reach - c->before[d];
        pad[2 * d + 1] = c->in[d] - ((c->out[d] - 1) * c->stride[d] + 1) - pad[2 * d] + reach;
        x = x ? lower_transpose_spread(b, x, d + 2, c->stride[d]) : NULL;
    }
    if (!x || !weight) return NULL;
    mil_value *how = mil_build_text(b, "custom"), *amount = mil_build_ints(b, pad, 2 * c->spatial),
              *dilations = mil_build_ints(b, c->dilation, c->spatial), *groups = mil_build_int(b, (int32_t)c->groups);
    mil_op *made = mil_build_op(b, MIL_OP_conv, NULL,
                                (mil_argument[]){{"x", 1, &x},
                                                 {"weight", 1, &weight},
                                                 {"pad_type", 1, &how},
                                                 {"pad", 1, &amount},
                                                 {"dilations", 1, &dilations},
                                                 {"groups", 1, &groups}},
                                6);
    return made ? made->results[0] : NULL;
}

/* A convolution cannot cut its input: paddings must not come out negative. */
static bool lower_transpose_is_plain(const mil_conv *c) {
    for (int d = 0; d < c->spatial; d++) {
        const int64_t reach = (c->kernel[d] - 1) * c->dilation[d];
        if (c->before[d] > reach || c->in[d] - ((c->out[d] - 1) * c->stride[d] + 1) + c->before[d] < 0) return false;
    }
    return true;
}

propane_status cpu_lower_transposed(mil_builder *b, mil_op *op, propane_error *err) {
    mil_conv c;
    PROPANE_TRY(mil_conv_transpose_read(op, &c, err));
    if (!lower_transpose_is_plain(&c)) return PROPANE_OK;
    mil_value *y = lower_transpose_with_bias(b, op,
                                             lower_transpose_is_blocks(&c) ? lower_transpose_as_blocks(b, op, &c)
                                                                           : lower_transpose_as_conv(b, op, &c));
    if (b->err.status) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
