/* SPDX-License-Identifier: MIT
 * Owns the types and shapes of ops that pick, spread, sort or count by index: gather and scatter along an axis and by
 * coordinates, topk, argsort, non-maximum suppression, non_zero, range_1d.
 *
 * Refuses results whose size depends on values of a run, since every device allocates memory before a run.
 */
#include <math.h>
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_index_type_of(const mil_op *op, const char *param) { return &mil_in(op, param)->type; }

bool mil_index_strict(const mil_op *op) {
    bool strict = false;
    return mil_attr_bool(op, "validate_indices", &strict, NULL) == PROPANE_OK && strict;
}

/* ---- along an axis ------------------------------------------------------------------------------------------------------ */

propane_status mil_along_read(const mil_op *op, const char *data, mil_gather *out, propane_error *err) {
    const mil_type *x = shape_index_type_of(op, data), *indices = shape_index_type_of(op, "indices");
    char a[160], b[160];
    bool flag = false;
    *out = (mil_gather){.batch = 1, .outer = 1, .inner = 1, .picks = 1};
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &out->axis, err));
    PROPANE_TRY(mil_attr_bool(op, "validate_indices", &flag, err));
    bool fits = indices->rank == x->rank;
    for (int d = 0; fits && d < x->rank; d++) fits = d == out->axis || indices->dim[d] == x->dim[d];
    if (!fits)
        return BAD("indices is %s; it must be %s like %s, except in dimension %d", mil_shape_print(a, indices),
                   mil_shape_print(b, x), data, out->axis);
    for (int d = 0; d < out->axis; d++) out->outer *= x->dim[d];
    for (int d = out->axis + 1; d < x->rank; d++) out->inner *= x->dim[d];
    out->size = x->dim[out->axis];
    out->picks = indices->dim[out->axis];
    return PROPANE_OK;
}

propane_status mil_shape_rule_gather_along_axis(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_gather g;
    PROPANE_TRY(mil_along_read(op, "x", &g, err));
    out[0] = *shape_index_type_of(op, "indices");
    out->dtype = shape_index_type_of(op, "x")->dtype;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- by coordinates ----------------------------------------------------------------------------------------------------- */

propane_status mil_gather_nd_read(const mil_op *op, const char *data, mil_gather_nd *out, propane_error *err) {
    const mil_type *x = shape_index_type_of(op, data), *indices = shape_index_type_of(op, "indices");
    int64_t batch_dims = 0;
    bool flag = false;
    PROPANE_TRY(mil_attr_bool(op, "validate_indices", &flag, err));
    if (mil_op_param(op->info, "batch_dims") >= 0) PROPANE_TRY(mil_attr_int(op, "batch_dims", &batch_dims, err));
    *out = (mil_gather_nd){.batch = 1, .picks = 1, .inner = 1, .batch_dims = (int)batch_dims};
    if (indices->rank < 1 || x->rank < 1) return BAD("%s and indices must have at least one dimension", data);
    if (batch_dims < 0 || batch_dims >= indices->rank || batch_dims > x->rank)
        return BAD("batch_dims is %lld; indices has rank %d and %s rank %d", (long long)batch_dims, indices->rank, data,
                   x->rank);
    const int64_t depth = indices->dim[indices->rank - 1];
    if (depth > x->rank - batch_dims)
        return BAD("the last dimension of indices has %lld coordinates, but %s has %d dimensions to pick from",
                   (long long)depth, data, x->rank - (int)batch_dims);
    out->depth = (int)depth;
    for (int d = 0; d < out->batch_dims; d++) {
        if (x->dim[d] != indices->dim[d])
            return BAD("batch dimension %d is %lld in %s and %lld in indices", d, (long long)x->dim[d], data,
                       (long long)indices->dim[d]);
        out->batch *= x->dim[d];
    }
    for (int d = out->batch_dims; d < indices->rank - 1; d++) out->picks *= indices->dim[d];
    for (int d = x->rank - 1; d >= out->batch_dims + out->depth; d--) out->inner *= x->dim[d];
    int64_t step = out->inner;
    for (int d = out->depth - 1; d >= 0; d--) {
        out->size[d] = x->dim[out->batch_dims + d];
        out->step[d] = step;
        step *= out->size[d];
    }
    out->image = step;
    mil_type result = {.dtype = x->dtype};
    const int rank = indices->rank - 1 + x->rank - out->batch_dims - out->depth;
    if (rank > MIL_MAX_RANK) return BAD("the result would have rank %d; the maximum is 8", rank);
    for (int d = 0; d < indices->rank - 1; d++) result.dim[result.rank++] = indices->dim[d];
    for (int d = out->batch_dims + out->depth; d < x->rank; d++) result.dim[result.rank++] = x->dim[d];
    out->result = result;
    return PROPANE_OK;
}

propane_status mil_shape_rule_gather_nd(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_gather_nd g;
    PROPANE_TRY(mil_gather_nd_read(op, "x", &g, err));
    out[0] = g.result;
    *out_count = 1;
    return PROPANE_OK;
}

/* ---- scatter ------------------------------------------------------------------------------------------------------------- */

propane_status mil_scatter_mode_read(const mil_op *op, mil_scatter_mode *out, propane_error *err) {
    static const char *const names[] = {"update", "add", "sub", "mul", "div", "max", "min"};
    const char *mode = NULL;
    PROPANE_TRY(mil_attr_text(op, "mode", &mode, err));
    for (int k = 0; k < (int)(sizeof names / sizeof names[0]); k++)
        if (!strcmp(mode, names[k])) {
            *out = (mil_scatter_mode)k;
            return PROPANE_OK;
        }
    return BAD("mode is \"%.40s\"; it must be update, add, sub, mul, div, max or min", mode);
}

/* Sets the result's type, which is that of data. Checks that updates has the shape of a gather with these indices. */
static propane_status shape_index_scattered(const mil_op *op, const mil_type *want, mil_type *out, int *out_count,
                                            propane_error *err) {
    const mil_type *data = shape_index_type_of(op, "data"), *updates = shape_index_type_of(op, "updates");
    mil_scatter_mode mode;
    char a[160], b[160];
    PROPANE_TRY(mil_scatter_mode_read(op, &mode, err));
    if (!mil_shape_equal(updates, want))
        return BAD("updates is %s; with these indices it must be %s", mil_shape_print(a, updates),
                   mil_shape_print(b, want));
    out[0] = *data;
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_scatter(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *data = shape_index_type_of(op, "data"), *indices = shape_index_type_of(op, "indices");
    int axis = 0;
    bool flag = false;
    PROPANE_TRY(mil_attr_axis(op, "axis", data->rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "validate_indices", &flag, err));
    const int rank = data->rank - 1 + indices->rank;
    if (rank > MIL_MAX_RANK) return BAD("updates would have rank %d; the maximum is 8", rank);
    mil_type want = {.dtype = data->dtype};
    for (int d = 0; d < axis; d++) want.dim[want.rank++] = data->dim[d];
    for (int d = 0; d < indices->rank; d++) want.dim[want.rank++] = indices->dim[d];
    for (int d = axis + 1; d < data->rank; d++) want.dim[want.rank++] = data->dim[d];
    return shape_index_scattered(op, &want, out, out_count, err);
}

propane_status mil_shape_rule_scatter_along_axis(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_gather g;
    PROPANE_TRY(mil_along_read(op, "data", &g, err));
    return shape_index_scattered(op, shape_index_type_of(op, "indices"), out, out_count, err);
}

propane_status mil_shape_rule_scatter_nd(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_gather_nd g;
    PROPANE_TRY(mil_gather_nd_read(op, "data", &g, err));
    return shape_index_scattered(op, &g.result, out, out_count, err);
}

/* ---- sorting --------------------------------------------------------------------------------------------------------------- */

propane_status mil_shape_rule_argsort(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    int axis = 0;
    bool flag = false;
    PROPANE_TRY(mil_attr_axis(op, "axis", shape_index_type_of(op, "x")->rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "ascending", &flag, err));
    PROPANE_TRY(mil_shape_rule_same(op, out, out_count, err));
    out->dtype = MIL_int32;
    return PROPANE_OK;
}

propane_status mil_shape_rule_topk(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_type *x = shape_index_type_of(op, "x");
    const char *name = NULL;
    bool flag = false, with_indices = true;
    int64_t k = 0;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &axis, err));
    PROPANE_TRY(mil_attr_int(op, "k", &k, err));
    PROPANE_TRY(mil_attr_bool(op, "ascending", &flag, err));
    PROPANE_TRY(mil_attr_bool(op, "sort", &flag, err));
    PROPANE_TRY(mil_attr_bool(op, "return_indices", &with_indices, err));
    PROPANE_TRY(mil_attr_text(op, "output_indices_dtype", &name, err));
    const mil_dtype dtype = mil_dtype_from_name(name, strlen(name));
    if (dtype != MIL_int32 && dtype != MIL_uint16 && dtype != MIL_int16)
        return BAD("output_indices_dtype is \"%.40s\"; it must be int32, int16 or uint16", name);
    if (k == -1) k = x->dim[axis];
    if (k < 1 || k > x->dim[axis])
        return BAD("k is %lld, but dimension %d of x has %lld elements", (long long)k, axis, (long long)x->dim[axis]);
    out[0] = *x;
    out[0].dim[axis] = k;
    out[1] = out[0];
    out[1].dtype = dtype;
    *out_count = with_indices ? 2 : 1;
    return PROPANE_OK;
}

/* ---- detection -------------------------------------------------------------------------------------------------------------- */

propane_status mil_nms_read(const mil_op *op, mil_nms *out, propane_error *err) {
    const mil_type *boxes = shape_index_type_of(op, "boxes"), *scores = shape_index_type_of(op, "scores");
    char a[160], b[160];
    *out = (mil_nms){.boxes_last = op->function->opset >= MIL_IOS17, .score_threshold = -INFINITY};
    PROPANE_TRY(mil_attr_int(op, "max_boxes", &out->most, err));
    PROPANE_TRY(mil_attr_float(op, "iou_threshold", &out->iou_threshold, err));
    PROPANE_TRY(mil_attr_bool(op, "per_class_suppression", &out->per_class, err));
    if (mil_in(op, "score_threshold")) {
        if (out->boxes_last)
            return BAD("score_threshold exists in ios15 and ios16 only; function '%s' is %s", op->function->name,
                       mil_opset_name(op->function->opset));
        PROPANE_TRY(mil_attr_float(op, "score_threshold", &out->score_threshold, err));
    }
    const int box = out->boxes_last ? 2 : 1, other = 3 - box;
    if (boxes->rank != 3 || scores->rank != 3 || boxes->dim[other] != 4 || scores->dim[0] != boxes->dim[0] ||
        scores->dim[box] != boxes->dim[box])
        return BAD("boxes is %s and scores is %s; they must be %s", mil_shape_print(a, boxes),
                   mil_shape_print(b, scores),
                   out->boxes_last ? "[n, 4, boxes] and [n, classes, boxes]" : "[n, boxes, 4] and [n, boxes, classes]");
    if (out->most < 1 || out->most > (1 << 24))
        return BAD("max_boxes is %lld; it must be 1 to 2^24", (long long)out->most);
    out->batch = boxes->dim[0], out->boxes = boxes->dim[box], out->classes = scores->dim[other];
    return PROPANE_OK;
}

propane_status mil_shape_rule_nms(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    mil_nms n;
    PROPANE_TRY(mil_nms_read(op, &n, err));
    const int box = n.boxes_last ? 2 : 1;
    out[0] = *shape_index_type_of(op, "boxes");
    out[1] = *shape_index_type_of(op, "scores");
    out[0].dim[box] = out[1].dim[box] = n.most;
    out[2] = (mil_type){.dtype = MIL_int32, .rank = 2, .dim = {n.batch, n.most}};
    out[3] = (mil_type){.dtype = MIL_int32, .rank = 1, .dim = {n.batch}};
    *out_count = n.boxes_last ? 3 : 4;
    return PROPANE_OK;
}

/* ---- sizes that depend on values ----------------------------------------------------------------------------------------- */

propane_status mil_shape_rule_non_zero(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    const mil_value *x = mil_in(op, "x");
    if (!x->constant || !x->constant->data)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                           "the number of nonzero elements of x is known only at run time, but results have fixed "
                           "sizes; count them, or multiply by the mask instead");
    int64_t found = 0;
    for (int64_t i = 0; i < mil_type_count(&x->type); i++) found += mil_const_f64(x->constant, i) != 0.0;
    if (found == 0) return BAD("all elements of x are zero, so the result would be empty");
    if (x->type.rank == 0) return BAD("x is a scalar");
    out[0] = (mil_type){.dtype = MIL_int32, .rank = 2, .dim = {found, x->type.rank}};
    *out_count = 1;
    return PROPANE_OK;
}

propane_status mil_shape_rule_range_1d(const mil_op *op, mil_type *out, int *out_count, propane_error *err) {
    static const char *const params[3] = {"end", "start", "step"};
    double value[3];
    char text[160];
    for (int k = 0; k < 3; k++) {
        const mil_value *v = mil_in(op, params[k]);
        if (v->type.rank != 0 || v->type.dtype != mil_in(op, "start")->type.dtype || v->type.dtype == MIL_string)
            return BAD("%s is %s; end, start and step must be numbers of one element type", params[k],
                       mil_type_print(text, &v->type));
        if (!v->constant || !v->constant->data) return BAD("%s must be a constant", params[k]);
        value[k] = mil_const_f64(v->constant, 0);
    }
    double count = ceil((value[0] - value[1]) / value[2]);
    if (count <= 0.0 && value[2] != 0.0) count = 0.0;
    if (!(count >= 0.0 && count <= (double)MIL_MAX_COUNT))
        return BAD("from %g to %g in steps of %g there are %g elements", value[1], value[0], value[2], count);
    out[0] = (mil_type){.dtype = mil_in(op, "start")->type.dtype, .rank = 1, .dim = {(int64_t)count}};
    *out_count = 1;
    return PROPANE_OK;
}
