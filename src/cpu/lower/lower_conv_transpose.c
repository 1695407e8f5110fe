/* SPDX-License-Identifier: MIT
 * Expands transposed convolutions. If the kernel is as large as the stride, nothing overlaps: each element of x makes a
 * separate block of the result, so a 1x1 convolution and a transpose suffice. With a constant weight and without
 * dilation, the results of one phase (those with the same remainder by the stride) are a convolution of x with every
 * stride-th tap. All phases are then one convolution, with a set of channels per phase, and a transpose. All other
 * transposed convolutions become convolutions with a flipped kernel, of x with zeros between its elements. Most of
 * their multiplications are by these zeros.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/lower/lower.h"

/* Returns the weight [c_in, c_out/g, *kernel] as [c_out, c_in/g, *flipped kernel]. */
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
                       (const char *)w->constant->data + from * (int64_t)size, size);
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
    if (w->constant && w->constant->data) return lower_transpose_turned_constant(b, w, c, &type);
    for (int d = 0; d < c->spatial; d++) split[d + 3] = c->kernel[d], axes[d] = d + 2;
    mil_value *v = mil_build_reshape(b, w, split, c->spatial + 3);
    v = v ? mil_build_transpose(b, v, perm, c->spatial + 3) : NULL;
    v = v ? mil_build_reshape(b, v, type.dim, type.rank) : NULL;
    mil_value *list = mil_build_ints(b, axes, c->spatial);
    mil_op *op =
        v ? mil_build_op(b, MIL_OP_reverse, NULL, (mil_argument[]){{"x", 1, &v}, {"axes", 1, &list}}, 2) : NULL;
    return op ? op->results[0] : NULL;
}

/* Inserts stride - 1 zeros between neighbours along one dimension. */
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

/* Builds the convolution. The bias of each channel is repeated for the `times` rows of the weight that make the
 * channel. */
static mil_value *lower_transpose_conv(mil_builder *b, const mil_op *op, mil_argument *arguments, int count,
                                       int64_t times) {
    mil_value *bias = mil_in(op, "bias");
    if (bias && times > 1) {
        const int64_t channels = bias->type.dim[0];
        bias = mil_build_reshape(b, bias, (int64_t[]){channels, 1}, 2);
        mil_value *reps = mil_build_ints(b, (int64_t[]){1, times}, 2);
        mil_op *tile =
            bias ? mil_build_op(b, MIL_OP_tile, NULL, (mil_argument[]){{"x", 1, &bias}, {"reps", 1, &reps}}, 2) : NULL;
        bias = tile ? mil_build_reshape(b, tile->results[0], (int64_t[]){channels * times}, 1) : NULL;
        if (!bias) return NULL;
    }
    if (bias) arguments[count++] = (mil_argument){"bias", 1, &bias};
    mil_op *made = mil_build_op(b, MIL_OP_conv, NULL, arguments, count);
    return made ? made->results[0] : NULL;
}

/* Returns true if every element of x makes a separate block. */
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
    mil_value *x = mil_in(op, "x"), *y = NULL;
    if (w)
        y = lower_transpose_conv(b, op, (mil_argument[3]){{"x", 1, &x}, {"weight", 1, &w}}, 2,
                                 c->kernel[0] * c->kernel[1]);
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
    return lower_transpose_conv(b, op,
                                (mil_argument[7]){{"x", 1, &x},
                                                  {"weight", 1, &weight},
                                                  {"pad_type", 1, &how},
                                                  {"pad", 1, &amount},
                                                  {"dilations", 1, &dilations},
                                                  {"groups", 1, &groups}},
                                6, 1);
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* Returns true if the results can be computed by phases. With f = i * stride + tap, the phase is the remainder of f by
 * the stride, and tap = j * stride + phase, so i = f / stride - j. */
static bool lower_transpose_has_phases(const mil_op *op, const mil_conv *c) {
    const mil_value *w = mil_in(op, "weight");
    int strided = 0;
    for (int d = 0; d < c->spatial; d++) {
        if (c->dilation[d] != 1) return false;
        strided += c->stride[d] > 1;
    }
    return strided && 2 + c->spatial + strided <= MIL_MAX_RANK && w->constant && w->constant->data;
}

/* Returns the taps per phase along a dimension. */
static int64_t lower_transpose_taps(const mil_conv *c, int d) {
    return (c->kernel[d] + c->stride[d] - 1) / c->stride[d];
}

/* Returns the position in the kernel of tap `at` of phase `phase`, both counted over all dimensions; -1 if the tap is
 * outside the kernel. Taps are flipped. */
static int64_t lower_transpose_tap_of(const mil_conv *c, int64_t phase, int64_t at) {
    int64_t from = 0, step = 1;
    for (int d = c->spatial - 1; d >= 0; d--) {
        const int64_t taps = lower_transpose_taps(c, d), j = taps - 1 - at % taps, r = phase % c->stride[d];
        const int64_t k = j * c->stride[d] + r;
        if (k >= c->kernel[d]) return -1;
        from += k * step;
        step *= c->kernel[d];
        at /= taps;
        phase /= c->stride[d];
    }
    return from;
}

/* Returns the weight [c_in, c_out/g, *kernel] as [c_out * phases, c_in/g, *taps]. */
static mil_value *lower_transpose_phase_weight(mil_builder *b, const mil_value *w, const mil_conv *c, int64_t phases) {
    const int64_t in = c->c_in / c->groups, out = c->c_out / c->groups;
    const size_t size = w->type.dtype == MIL_fp16 ? 2 : 4;
    mil_type type = w->type;
    int64_t taps = 1, kernel = 1;
    type.dim[0] = c->c_out * phases, type.dim[1] = in;
    for (int d = 0; d < c->spatial; d++) {
        type.dim[d + 2] = lower_transpose_taps(c, d);
        taps *= type.dim[d + 2];
        kernel *= c->kernel[d];
    }
    char *data = mem_array((size_t)(c->c_out * phases * in * taps), size); /* zeroed */
    if (!data) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)(c->c_out * phases * in * taps) * size);
        return NULL;
    }
    for (int64_t row = 0; row < c->c_out * phases; row++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t t = 0; t < taps; t++) {
                const int64_t o = row / phases, tap = lower_transpose_tap_of(c, row % phases, t);
                const int64_t from = ((o / out * in + i) * out + o % out) * kernel + tap;
                if (tap >= 0)
                    memcpy(data + ((row * in + i) * taps + t) * (int64_t)size,
                           (const char *)w->constant->data + from * (int64_t)size, size);
            }
    mil_value *v = mil_build_const(b, "phases", &type, data);
    mem_free(data);
    return v;
}

/* Turns [n, c_out * phases, *q] into [n, c_out, *(q * stride)], cut to the size of the result. */
static mil_value *lower_transpose_interleave(mil_builder *b, mil_value *y, const mil_conv *c, const int64_t *q) {
    int64_t apart[MIL_MAX_RANK] = {c->n, c->c_out}, perm[MIL_MAX_RANK] = {0, 1}, begin[5] = {0},
            joined[5] = {c->n, c->c_out}, size[5] = {c->n, c->c_out};
    int rank = 2, strided = 0, to = 2;
    for (int d = 0; d < c->spatial; d++)
        if (c->stride[d] > 1) apart[rank++] = c->stride[d];
    for (int d = 0; d < c->spatial; d++) {
        apart[rank + d] = q[d];
        perm[to++] = rank + d;
        if (c->stride[d] > 1) perm[to++] = 2 + strided++;
        joined[d + 2] = q[d] * c->stride[d];
        begin[d + 2] = c->before[d];
        size[d + 2] = c->in[d];
    }
    y = mil_build_reshape(b, y, apart, rank + c->spatial);
    y = y ? mil_build_transpose(b, y, perm, rank + c->spatial) : NULL;
    y = y ? mil_build_reshape(b, y, joined, c->spatial + 2) : NULL;
    return y ? mil_build_slice(b, y, begin, size) : NULL;
}

static mil_value *lower_transpose_as_phases(mil_builder *b, const mil_op *op, const mil_conv *c) {
    int64_t pad[6], q[3], phases = 1;
    for (int d = 0; d < c->spatial; d++) {
        phases *= c->stride[d];
        q[d] = (c->before[d] + c->in[d] + c->stride[d] - 1) / c->stride[d];
        if (q[d] < c->out[d]) q[d] = c->out[d]; /* a convolution cannot crop its input, but the slice can */
        pad[2 * d] = lower_transpose_taps(c, d) - 1;
        pad[2 * d + 1] = q[d] - c->out[d];
    }
    mil_value *x = mil_in(op, "x"), *weight = lower_transpose_phase_weight(b, mil_in(op, "weight"), c, phases);
    if (!weight) return NULL;
    mil_value *how = mil_build_text(b, "custom"), *amount = mil_build_ints(b, pad, 2 * c->spatial),
              *groups = mil_build_int(b, (int32_t)c->groups);
    mil_value *y = lower_transpose_conv(
        b, op,
        (mil_argument[6]){
            {"x", 1, &x}, {"weight", 1, &weight}, {"pad_type", 1, &how}, {"pad", 1, &amount}, {"groups", 1, &groups}},
        5, phases);
    return y ? lower_transpose_interleave(b, y, c, q) : NULL;
}

/* Returns true if no padding would be negative, because a convolution cannot crop its input. */
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
    mil_value *y = lower_transpose_is_blocks(&c)        ? lower_transpose_as_blocks(b, op, &c)
                   : lower_transpose_has_phases(op, &c) ? lower_transpose_as_phases(b, op, &c)
                                                        : lower_transpose_as_conv(b, op, &c);
    if (b->err.status) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
