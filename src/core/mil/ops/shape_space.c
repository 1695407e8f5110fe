/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of ops that move elements between channels, batch and space, and of crops, windows,
 * flattening and slice updates.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_space_x_of(const mil_op *op) { return &mil_in(op, "x")->type; }

static propane_status shape_space_rank_four(const mil_op *op, propane_error *err) {
    char text[160];
    if (shape_space_x_of(op)->rank == 4) return PROPANE_OK;
    return BAD("x is %s; it must be [n, c, height, width]", mil_shape_print(text, shape_space_x_of(op)));
}

/* ---- channels and space ----------------------------------------------------------------------------------------------- */

static propane_status shape_space_block_factor(const mil_op *op, const char *param, int64_t *out, propane_error *err) {
    PROPANE_TRY(mil_attr_int(op, param, out, err));
    if (*out < 1 || *out > 32768) return BAD("%s is %lld; it must be 1 to 32768", param, (long long)*out);
    return PROPANE_OK;
}

static propane_status shape_space_to_space(const mil_op *op, const char *param, mil_type *out, int *out_count,
                                           propane_error *err) {
    int64_t f = 0;
    PROPANE_TRY(shape_space_rank_four(op, err));
    PROPANE_TRY(shape_space_block_factor(op, param, &f, err));
    out[0] = *shape_space_x_of(op);
    if (out->dim[1] % (f * f))
        return BAD("%s %lld squared does not divide the %lld channels of x", param, (long long)f,
                   (long long)out->dim[1]);
    out->dim[1] /= f * f;
    out->dim[2] *= f;
    out->dim[3] *= f;
    *out_count = 1;
    return PROPANE_OK;
}

static propane_status shape_space_to_depth(const mil_op *op, const char *param, mil_type *out, int *out_count,
                                           propane_error *err) {
    int64_t f = 0;
    PROPANE_TRY(shape_space_rank_four(op, err));
    PROPANE_TRY(shape_space_block_factor(op, param, &f, err));
    out[0] = *shape_space_x_of(op);
    if (out->dim[2] % f || out->dim[3] % f)
        return BAD("%s %lld does not divide height %lld and width %lld of x", param, (long long)f,
                   (long long)out->dim[2], (long long)out->dim[3]);
    out->dim[1] *= f * f;
    out->dim[2] /= f;
    out->dim[3] /= f;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_depth_to_space(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_space_to_space(op, "block_size", out, out_count, err);
}
propane_status mil_shape_rule_pixel_shuffle(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_space_to_space(op, "upscale_factor", out, out_count, err);
}
propane_status mil_shape_rule_space_to_depth(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_space_to_depth(op, "block_size", out, out_count, err);
}
propane_status mil_shape_rule_pixel_unshuffle(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return shape_space_to_depth(op, "downscale_factor", out, out_count, err);
}

/* ---- batch and space --------------------------------------------------------------------------------------------------- */

propane_status mil_blocks_read(const mil_op *op, const char *edges, mil_blocks *out, propane_error *err) {
    const mil_value *edge = mil_in(op, edges);
    int64_t shape[MIL_MAX_RANK];
    int count = 0;
    char text[160];
    PROPANE_TRY(shape_space_rank_four(op, err));
    PROPANE_TRY(mil_attr_vector(op, "block_shape", MIL_MAX_RANK, shape, &count, err));
    if (count != 2) return BAD("block_shape has %d entries; it must have two, for height and width", count);
    const mil_type *type = &edge->type;
    if (type->rank != 2 || type->dim[0] != 2 || type->dim[1] != 2 || type->dtype != MIL_int32)
        return BAD("%s is %s; it must be an int32 tensor of [2, 2]", edges, mil_type_print(text, type));
    for (int d = 0; d < 2; d++) {
        out->block[d] = shape[d];
        if (shape[d] < 1 || shape[d] > 32768)
            return BAD("block_shape[%d] is %lld; it must be 1 to 32768", d, (long long)shape[d]);
        out->before[d] = mil_const_i64(edge->constant, 2 * d);
        out->after[d] = mil_const_i64(edge->constant, 2 * d + 1);
        if (out->before[d] < 0 || out->after[d] < 0)
            return BAD("%s of dimension %d are %lld and %lld; they must not be negative", edges, d,
                       (long long)out->before[d], (long long)out->after[d]);
    }
    return PROPANE_OK;
}

propane_status mil_shape_rule_space_to_batch(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_blocks b;
    PROPANE_TRY(mil_blocks_read(op, "paddings", &b, err));
    out[0] = *shape_space_x_of(op);
    for (int d = 0; d < 2; d++) {
        const int64_t padded = out->dim[d + 2] + b.before[d] + b.after[d];
        if (padded % b.block[d])
            return BAD("block_shape[%d] %lld does not divide the padded dimension of %lld elements", d,
                       (long long)b.block[d], (long long)padded);
        out->dim[d + 2] = padded / b.block[d];
        out->dim[0] *= b.block[d];
    }
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_batch_to_space(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_blocks b;
    PROPANE_TRY(mil_blocks_read(op, "crops", &b, err));
    out[0] = *shape_space_x_of(op);
    if (out->dim[0] % (b.block[0] * b.block[1]))
        return BAD("block_shape %lld x %lld does not divide the batch of %lld", (long long)b.block[0],
                   (long long)b.block[1], (long long)out->dim[0]);
    out->dim[0] /= b.block[0] * b.block[1];
    for (int d = 0; d < 2; d++) {
        out->dim[d + 2] = out->dim[d + 2] * b.block[d] - b.before[d] - b.after[d];
        if (out->dim[d + 2] < 1) return BAD("crops leave nothing of spatial dimension %d", d);
    }
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- crops and windows -------------------------------------------------------------------------------------------------- */

propane_status mil_crop_read(const mil_op *op, int64_t begin[MIL_MAX_RANK], mil_type *out, propane_error *err) {
    static const char *const params[2] = {"crop_height", "crop_width"};
    char text[160];
    *out = *shape_space_x_of(op);
    if (out->rank < 3) return BAD("x is %s; crop takes at least rank 3", mil_shape_print(text, out));
    for (int d = 0; d < out->rank; d++) begin[d] = 0;
    for (int k = 0; k < 2; k++) {
        int64_t cut[MIL_MAX_RANK], *dim = &out->dim[out->rank - 2 + k];
        int count = 0;
        PROPANE_TRY(mil_attr_vector(op, params[k], MIL_MAX_RANK, cut, &count, err));
        if (count != 2) return BAD("%s has %d entries; it takes two", params[k], count);
        if (cut[0] < 0 || cut[1] < 0 || cut[0] >= *dim || cut[1] >= *dim - cut[0])
            return BAD("%s takes %lld and %lld off %lld elements", params[k], (long long)cut[0], (long long)cut[1],
                       (long long)*dim);
        begin[out->rank - 2 + k] = cut[0];
        *dim -= cut[0] + cut[1];
    }
    return PROPANE_OK;
}

propane_status mil_shape_rule_crop(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    int64_t begin[MIL_MAX_RANK];
    *out_count = 1;
    return mil_crop_read(op, begin, out, err);
}

propane_status mil_windows_read(const mil_op *op, mil_windows *out, propane_error *err) {
    const mil_type *x = shape_space_x_of(op);
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &out->axis, err));
    PROPANE_TRY(mil_attr_int(op, "size", &out->size, err));
    PROPANE_TRY(mil_attr_int(op, "stride", &out->stride, err));
    const int64_t dim = x->dim[out->axis];
    if (out->size < 1 || out->size > dim)
        return BAD("size is %lld; dimension %d of x has %lld elements", (long long)out->size, out->axis,
                   (long long)dim);
    if (out->stride < 1) return BAD("stride is %lld; it must be at least 1", (long long)out->stride);
    out->count = (dim - out->size) / out->stride + 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_sliding_windows(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_space_x_of(op);
    mil_windows w;
    PROPANE_TRY(mil_windows_read(op, &w, err));
    if (x->rank == MIL_MAX_RANK) return BAD("the result would have rank %d; the maximum is 8", x->rank + 1);
    mil_type result = {.dtype = x->dtype, .rank = x->rank + 1};
    for (int d = 0, to = 0; d < x->rank; d++) {
        result.dim[to++] = d == w.axis ? w.count : x->dim[d];
        if (d == w.axis) result.dim[to++] = w.size;
    }
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------- */

propane_status mil_shape_rule_flatten2d(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_space_x_of(op);
    int64_t axis = 0;
    PROPANE_TRY(mil_attr_int(op, "axis", &axis, err));
    if (axis < -x->rank || axis > x->rank) return BAD("axis is %lld, but x has rank %d", (long long)axis, x->rank);
    if (axis < 0) axis += x->rank;
    mil_type result = {.dtype = x->dtype, .rank = 2, .dim = {1, 1}};
    for (int d = 0; d < x->rank; d++) result.dim[d >= axis] *= x->dim[d];
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

/* Concatenates a run of dimensions of each reference, taken like a Python slice of its shape. */
propane_status mil_shape_rule_reshape_like(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_value *const *refs = NULL, *const *begins = NULL, *const *ends = NULL, *const *masks = NULL;
    const int count = mil_in_list(op, "ref_tensors", &refs);
    const mil_type *x = shape_space_x_of(op);
    mil_type result = {.dtype = x->dtype};
    char a[160], b[160];
    if (mil_in_list(op, "begins", &begins) != count || mil_in_list(op, "ends", &ends) != count ||
        mil_in_list(op, "end_masks", &masks) != count)
        return BAD("begins, ends and end_masks must have one entry for each of the %d ref_tensors", count);
    for (int k = 0; k < count; k++) {
        const mil_type *ref = &refs[k]->type;
        int64_t from = mil_const_i64(begins[k]->constant, 0), to = mil_const_i64(ends[k]->constant, 0);
        if (from < 0) from += ref->rank;
        if (to < 0) to += ref->rank;
        if (mil_const_i64(masks[k]->constant, 0) || to > ref->rank) to = ref->rank;
        for (int64_t d = from < 0 ? 0 : from; d < to; d++) {
            if (result.rank == MIL_MAX_RANK) return BAD("the result would have more than 8 dimensions");
            result.dim[result.rank++] = ref->dim[d];
        }
    }
    int64_t total = 1;
    for (int d = 0; d < result.rank; d++) {
        if (result.dim[d] > MIL_MAX_COUNT / total) return BAD("the result would have more than 2^40 elements");
        total *= result.dim[d];
    }
    if (total != mil_type_count(x))
        return BAD("x %s does not fit the shape %s of the references", mil_shape_print(a, x),
                   mil_shape_print(b, &result));
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- sequences and slices ------------------------------------------------------------------------------------------------- */

propane_status mil_shape_rule_reverse_sequence(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_space_x_of(op), *lengths = &mil_in(op, "lengths")->type;
    int seq = 0, batch = 0;
    char text[160];
    PROPANE_TRY(mil_attr_axis(op, "seq_axis", x->rank, &seq, err));
    PROPANE_TRY(mil_attr_axis(op, "batch_axis", x->rank, &batch, err));
    if (seq == batch) return BAD("seq_axis and batch_axis are both %d", seq);
    if (lengths->rank != 1 || lengths->dim[0] != x->dim[batch])
        return BAD("lengths is %s; it must be [%lld], one for each element of dimension %d",
                   mil_shape_print(text, lengths), (long long)x->dim[batch], batch);
    return mil_shape_rule_same(op, out, out_count, err);
}

static bool shape_space_is_known(const mil_value *v) { return v->constant && v->constant->data; }

/* begin and end may be known only when the program runs; only the update's shape then describes the slice. */
propane_status mil_shape_rule_slice_update(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_value *begin = mil_in(op, "begin"), *end = mil_in(op, "end");
    const mil_type *x = shape_space_x_of(op), *update = &mil_in(op, "update")->type;
    char a[160], b[160];
    if (update->dtype != x->dtype)
        return BAD("update is %s, but x is %s", mil_dtype_get(update->dtype)->name, mil_dtype_get(x->dtype)->name);
    if (begin->type.rank != 1 || begin->type.dim[0] != x->rank || !mil_shape_equal(&begin->type, &end->type))
        return BAD("begin is %s and end is %s; both must be [%d], one number per dimension of x",
                   mil_shape_print(a, &begin->type), mil_shape_print(b, &end->type), x->rank);
    if (shape_space_is_known(begin) && shape_space_is_known(end)) {
        mil_slice s;
        PROPANE_TRY(mil_slice_read(op, &s, err));
        mil_type want = {.dtype = x->dtype};
        for (int d = 0; d < s.rank; d++)
            if (!s.squeeze[d]) want.dim[want.rank++] = s.count[d];
        if (!mil_shape_equal(&want, update))
            return BAD("update is %s, but the slice is %s", mil_shape_print(a, update), mil_shape_print(b, &want));
    }
    return mil_shape_rule_same(op, out, out_count, err);
}
