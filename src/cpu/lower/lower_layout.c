/* SPDX-License-Identifier: MIT
 * Expands operations that move elements into reshapes, transposes, slices and pads, most of which are views and cost
 * nothing.
 */
#include <string.h>

#include "core/mil/ops/shape_util.h"
#include "cpu/lower/lower.h"

static mil_value *lower_layout_reshaped(mil_builder *b, mil_value *x, int rank, const int64_t *dim) {
    return x ? mil_build_reshape(b, x, dim, rank) : NULL;
}

/* Reshapes [n, c, h, w] to the six dimensions `from`, permutes them, and reshapes to the result. */
static mil_value *lower_layout_shuffled(mil_builder *b, mil_value *x, const int64_t from[6], const int64_t perm[6],
                                        const mil_type *to) {
    x = lower_layout_reshaped(b, x, 6, from);
    x = x ? mil_build_transpose(b, x, perm, 6) : NULL;
    return lower_layout_reshaped(b, x, to->rank, to->dim);
}

static mil_value *lower_layout_pad_space(mil_builder *b, mil_value *x, const mil_blocks *k) {
    const int64_t amount[] = {k->before[0], k->after[0], k->before[1], k->after[1]};
    mil_value *pad = mil_build_ints(b, amount, 4);
    mil_op *op = pad ? mil_build_op(b, MIL_OP_pad, NULL, (mil_argument[]){{"x", 1, &x}, {"pad", 1, &pad}}, 2) : NULL;
    return op ? op->results[0] : NULL;
}

static propane_status lower_layout_write_out(mil_builder *b, const mil_op *op, mil_value **out, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    const mil_type *in = &x->type, *to = &op->results[0]->type;
    const int64_t *d = in->dim, *t = to->dim;
    mil_blocks k;
    switch (op->info->code) {
    case MIL_OP_depth_to_space: {
        const int64_t f = t[2] / d[2], from[] = {d[0], f, f, t[1], d[2], d[3]}, perm[] = {0, 3, 4, 1, 5, 2};
        *out = lower_layout_shuffled(b, x, from, perm, to);
        return PROPANE_OK;
    }
    case MIL_OP_pixel_shuffle: {
        const int64_t f = t[2] / d[2], from[] = {d[0], t[1], f, f, d[2], d[3]}, perm[] = {0, 1, 4, 2, 5, 3};
        *out = lower_layout_shuffled(b, x, from, perm, to);
        return PROPANE_OK;
    }
    case MIL_OP_space_to_depth: {
        const int64_t f = d[2] / t[2], from[] = {d[0], d[1], t[2], f, t[3], f}, perm[] = {0, 3, 5, 1, 2, 4};
        *out = lower_layout_shuffled(b, x, from, perm, to);
        return PROPANE_OK;
    }
    case MIL_OP_pixel_unshuffle: {
        const int64_t f = d[2] / t[2], from[] = {d[0], d[1], t[2], f, t[3], f}, perm[] = {0, 1, 3, 5, 2, 4};
        *out = lower_layout_shuffled(b, x, from, perm, to);
        return PROPANE_OK;
    }
    case MIL_OP_space_to_batch: {
        PROPANE_TRY(mil_blocks_read(op, "paddings", &k, err));
        const int64_t from[] = {d[0], d[1], t[2], k.block[0], t[3], k.block[1]}, perm[] = {3, 5, 0, 1, 2, 4};
        *out = lower_layout_shuffled(b, lower_layout_pad_space(b, x, &k), from, perm, to);
        return PROPANE_OK;
    }
    case MIL_OP_batch_to_space: {
        PROPANE_TRY(mil_blocks_read(op, "crops", &k, err));
        const int64_t from[] = {k.block[0], k.block[1], t[0], d[1], d[2], d[3]}, perm[] = {2, 3, 4, 0, 5, 1};
        mil_type whole = *to;
        whole.dim[2] = d[2] * k.block[0], whole.dim[3] = d[3] * k.block[1];
        x = lower_layout_shuffled(b, x, from, perm, &whole);
        *out = x ? mil_build_slice(b, x, (int64_t[]){0, 0, k.before[0], k.before[1]}, t) : NULL;
        return PROPANE_OK;
    }
    case MIL_OP_crop: {
        int64_t begin[MIL_MAX_RANK];
        mil_type type;
        PROPANE_TRY(mil_crop_read(op, begin, &type, err));
        *out = mil_build_slice(b, x, begin, t);
        return PROPANE_OK;
    }
    default: *out = lower_layout_reshaped(b, x, to->rank, t); return PROPANE_OK; /* flatten2d, reshape_like */
    }
}

propane_status cpu_lower_layout(mil_builder *b, mil_op *op, propane_error *err) {
    mil_value *y = NULL;
    /* A list of dimensions cannot be empty, so the reference copies scalars. */
    if (op->results[0]->type.rank == 0) return PROPANE_OK;
    PROPANE_TRY(lower_layout_write_out(b, op, &y, err));
    if (b->err.status) return b->err.status;
    mil_replace_uses(op->function, op->results[0], y);
    mil_op_remove(op);
    return PROPANE_OK;
}
