/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of ops that move elements: reshape, transpose, slices, concat, pad, gather and related ops.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_layout_type_of(const mil_op *op, const char *param) { return &mil_in(op, param)->type; }

/* Checks result dimensions that come from attributes. Each must be at least `least`, and their product must be within
 * bounds. `least` is 0 if the operation may produce a tensor without elements, which core/mil/fold_empty.h removes. */
static propane_status shape_layout_check_dims(const mil_op *op, const mil_type *type, int64_t least,
                                              propane_error *err) {
    int64_t count = 1;
    for (int d = 0; d < type->rank; d++) {
        if (type->dim[d] < least) return BAD("dimension %d of the result would be %lld", d, (long long)type->dim[d]);
        if (count && type->dim[d] > MIL_MAX_COUNT / count) return BAD("the result would have more than 2^40 elements");
        count *= type->dim[d];
    }
    return PROPANE_OK;
}

propane_status mil_shape_rule_reshape(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_layout_type_of(op, "x");
    mil_type result = {.dtype = x->dtype};
    int open = -1;
    int64_t known = 1, count = mil_type_count(x);
    char from[160], to[160];
    PROPANE_TRY(mil_attr_vector(op, "shape", MIL_MAX_RANK, result.dim, &result.rank, err));
    mil_shape_print(to, &result);
    for (int d = 0; d < result.rank; d++) {
        /* A 0 means the size in x. Since ios17, x's dimensions are counted from the last one, and missing ones
         * are 1. */
        if (result.dim[d] == 0) {
            const int at = d - (result.rank - x->rank);
            if (result.rank != x->rank && op->function->opset < MIL_IOS17)
                return BAD("shape[%d] is 0 (as in x), but shape has %d entries and x has rank %d", d, result.rank,
                           x->rank);
            result.dim[d] = at >= 0 ? x->dim[at] : 1;
        }
        if (result.dim[d] == -1) {
            if (open >= 0) return BAD("shape %s has -1 more than once", to);
            open = d;
            continue;
        }
        if (result.dim[d] < (count ? 1 : 0)) return BAD("shape[%d] is %lld", d, (long long)result.dim[d]);
        if (known && result.dim[d] > MIL_MAX_COUNT / known) return BAD("shape %s has more than 2^40 elements", to);
        known *= result.dim[d];
    }
    if (open >= 0 && known == 0) return BAD("shape %s has -1 next to a dimension of 0", to);
    if (open >= 0 && count % known == 0) result.dim[open] = count / known;
    if (open >= 0 ? count % known != 0 : count != known)
        return BAD("x %s has %lld elements, which do not fit shape %s", mil_shape_print(from, x), (long long)count, to);
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_transpose(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_layout_type_of(op, "x");
    int perm[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_perm(op, perm, err));
    out[0] = *x;
    for (int d = 0; d < x->rank; d++) out->dim[d] = x->dim[perm[d]];
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_expand_dims(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_layout_type_of(op, "x");
    int64_t axes[MIL_MAX_RANK];
    bool member[MIL_MAX_RANK];
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, "axes", MIL_MAX_RANK, axes, &count, err));
    if (x->rank + count > MIL_MAX_RANK) return BAD("the result would have rank %d; the maximum is 8", x->rank + count);
    PROPANE_TRY(mil_attr_axes(op, "axes", x->rank + count, member, err));
    mil_type result = {.dtype = x->dtype, .rank = x->rank + count};
    for (int d = 0, from = 0; d < result.rank; d++) result.dim[d] = member[d] ? 1 : x->dim[from++];
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

/* Dimensions that are listed but are not 1 stay, as in PyTorch. */
propane_status mil_shape_rule_squeeze(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_layout_type_of(op, "x");
    bool member[MIL_MAX_RANK];
    mil_type result = {.dtype = x->dtype};
    PROPANE_TRY(mil_attr_axes(op, "axes", x->rank, member, err));
    for (int d = 0; d < x->rank; d++)
        if (!member[d] || x->dim[d] != 1) result.dim[result.rank++] = x->dim[d];
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_slice_by_index(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_slice s;
    PROPANE_TRY(mil_slice_read(op, &s, err));
    mil_type result = {.dtype = shape_layout_type_of(op, "x")->dtype};
    for (int d = 0; d < s.rank; d++)
        if (!s.squeeze[d]) result.dim[result.rank++] = s.count[d];
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_slice_by_size(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    return mil_shape_rule_slice_by_index(op, out, out_count, err);
}

propane_status mil_shape_rule_split(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_split s;
    PROPANE_TRY(mil_split_read(op, &s, err));
    for (int k = 0; k < s.count; k++) {
        out[k] = *shape_layout_type_of(op, "x");
        out[k].dim[s.axis] = s.size[k];
    }
    *out_count = s.count;
    return PROPANE_OK;
}

/* Checks that all values have one element type and, except along `free_axis`, one shape. */
static propane_status shape_layout_alike(const mil_op *op, mil_value *const *values, int count, int free_axis,
                                         propane_error *err) {
    const mil_type *first = &values[0]->type;
    char a[160], b[160];
    for (int k = 1; k < count; k++) {
        const mil_type *type = &values[k]->type;
        if (type->dtype != first->dtype)
            return BAD("values[%d] is %s, but values[0] is %s", k, mil_dtype_get(type->dtype)->name,
                       mil_dtype_get(first->dtype)->name);
        bool same = type->rank == first->rank;
        for (int d = 0; same && d < type->rank; d++) same = d == free_axis || type->dim[d] == first->dim[d];
        if (!same && free_axis < 0)
            return BAD("values[%d] is %s, but values[0] is %s", k, mil_shape_print(a, type), mil_shape_print(b, first));
        if (!same)
            return BAD("values[%d] is %s, which differs from values[0] %s not only in dimension %d", k,
                       mil_shape_print(a, type), mil_shape_print(b, first), free_axis);
    }
    return PROPANE_OK;
}

propane_status mil_shape_rule_concat(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_value *const *values = NULL;
    int count = mil_in_list(op, "values", &values), axis = 0;
    bool interleave = false;
    if (count < 1) return BAD("there are no values");
    mil_type result = values[0]->type;
    if (result.rank == 0) result.rank = 1, result.dim[0] = 1; /* scalars become a vector */
    PROPANE_TRY(mil_attr_axis(op, "axis", result.rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "interleave", &interleave, err));
    PROPANE_TRY(shape_layout_alike(op, values, count, interleave ? -1 : axis, err));
    int64_t total = 0;
    for (int k = 0; k < count; k++) total += values[k]->type.rank ? values[k]->type.dim[axis] : 1;
    result.dim[axis] = total;
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_stack(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_value *const *values = NULL;
    int count = mil_in_list(op, "values", &values), axis = 0;
    if (count < 1) return BAD("there are no values");
    const mil_type *first = &values[0]->type;
    if (first->rank == MIL_MAX_RANK) return BAD("the result would have rank %d; the maximum is 8", first->rank + 1);
    PROPANE_TRY(mil_attr_axis(op, "axis", first->rank + 1, &axis, err));
    PROPANE_TRY(shape_layout_alike(op, values, count, -1, err));
    mil_type result = {.dtype = first->dtype, .rank = first->rank + 1};
    for (int d = 0, from = 0; d < result.rank; d++) result.dim[d] = d == axis ? count : first->dim[from++];
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_tile(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_layout_type_of(op, "x");
    int64_t reps[MIL_MAX_RANK];
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, "reps", MIL_MAX_RANK, reps, &count, err));
    if (count != x->rank) return BAD("reps has %d entries, but x has rank %d", count, x->rank);
    out[0] = *x;
    for (int d = 0; d < x->rank; d++) {
        if (reps[d] < 0 || reps[d] > INT32_MAX)
            return BAD("reps[%d] is %lld; it must not be negative", d, (long long)reps[d]);
        if (reps[d] && x->dim[d] > MIL_MAX_COUNT / reps[d]) return BAD("the result would have more than 2^40 elements");
        out->dim[d] = x->dim[d] * reps[d];
    }
    *out_count = 1;
    return shape_layout_check_dims(op, out, 0, err);
}

propane_status mil_shape_rule_reverse(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    bool member[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_axes(op, "axes", shape_layout_type_of(op, "x")->rank, member, err));
    return mil_shape_rule_same(op, out, out_count, err);
}

propane_status mil_shape_rule_pad(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_pad p;
    PROPANE_TRY(mil_pad_read(op, &p, err));
    out[0] = *shape_layout_type_of(op, "x");
    for (int d = 0; d < out->rank; d++) out->dim[d] += p.before[d] + p.after[d];
    *out_count = 1;
    return shape_layout_check_dims(op, out, 1, err);
}

propane_status mil_shape_rule_gather(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_layout_type_of(op, "x"), *indices = shape_layout_type_of(op, "indices");
    mil_gather g;
    bool flag = false;
    PROPANE_TRY(mil_gather_read(op, &g, err));
    PROPANE_TRY(mil_attr_bool(op, "validate_indices", &flag, err));
    const int rank = x->rank - 1 + indices->rank - g.batch_dims;
    if (rank > MIL_MAX_RANK) return BAD("the result would have rank %d; the maximum is 8", rank);
    mil_type result = {.dtype = x->dtype};
    for (int d = 0; d < g.axis; d++) result.dim[result.rank++] = x->dim[d];
    for (int d = g.batch_dims; d < indices->rank; d++) result.dim[result.rank++] = indices->dim[d];
    for (int d = g.axis + 1; d < x->rank; d++) result.dim[result.rank++] = x->dim[d];
    out[0] = result;
    *out_count = 1;
    return PROPANE_OK;
}

static propane_status shape_layout_expect_scalar(const mil_op *op, const char *param, mil_dtype *dtype,
                                                 propane_error *err) {
    const mil_value *value = mil_in(op, param);
    char text[160];
    if (!value) return PROPANE_OK;
    if (mil_type_count(&value->type) != 1 || value->type.dtype == MIL_string)
        return BAD("%s is %s; it must be one number", param, mil_type_print(text, &value->type));
    *dtype = value->type.dtype;
    return PROPANE_OK;
}

/* The result has the element type of on_value and off_value, or int32 if neither is given. */
propane_status mil_shape_rule_one_hot(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *indices = shape_layout_type_of(op, "indices");
    mil_dtype on = MIL_DTYPE_NONE, off = MIL_DTYPE_NONE;
    int64_t size = 0;
    int axis = 0;
    if (indices->rank == MIL_MAX_RANK) return BAD("the result would have rank %d; the maximum is 8", indices->rank + 1);
    PROPANE_TRY(mil_attr_int(op, "one_hot_vector_size", &size, err));
    PROPANE_TRY(mil_attr_axis(op, "axis", indices->rank + 1, &axis, err));
    PROPANE_TRY(shape_layout_expect_scalar(op, "on_value", &on, err));
    PROPANE_TRY(shape_layout_expect_scalar(op, "off_value", &off, err));
    if (on && off && on != off)
        return BAD("on_value is %s, but off_value is %s", mil_dtype_get(on)->name, mil_dtype_get(off)->name);
    if (size < 1) return BAD("one_hot_vector_size is %lld; it must be at least 1", (long long)size);
    mil_type result = {.dtype = on ? on : off ? off : MIL_int32, .rank = indices->rank + 1};
    for (int d = 0, from = 0; d < result.rank; d++) result.dim[d] = d == axis ? size : indices->dim[from++];
    out[0] = result;
    *out_count = 1;
    return shape_layout_check_dims(op, out, 1, err);
}

propane_status mil_shape_rule_band_part(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    int64_t band = 0;
    PROPANE_TRY(mil_attr_int(op, "lower", &band, err));
    PROPANE_TRY(mil_attr_int(op, "upper", &band, err));
    if (shape_layout_type_of(op, "x")->rank < 2)
        return BAD("x has rank %d; band_part takes matrices", shape_layout_type_of(op, "x")->rank);
    return mil_shape_rule_same(op, out, out_count, err);
}

/* The result has the element type of value, or fp32 if it is left out. */
propane_status mil_shape_rule_fill(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_type result = {.dtype = MIL_fp32};
    PROPANE_TRY(mil_attr_vector(op, "shape", MIL_MAX_RANK, result.dim, &result.rank, err));
    PROPANE_TRY(shape_layout_expect_scalar(op, "value", &result.dtype, err));
    out[0] = result;
    *out_count = 1;
    return shape_layout_check_dims(op, out, 0, err);
}
