/* SPDX-License-Identifier: MIT
 * Owns shape arithmetic: strides, broadcasting, axes, and the vectors that ops have as attributes. The geometry of the
 * larger ops is in shape_ops.c.
 */
#include "core/mil/ops/shape_util.h"

#include <stdio.h>
#include <string.h>

void mil_strides(const mil_type *type, int64_t out[MIL_MAX_RANK]) {
    int64_t step = 1;
    for (int d = type->rank - 1; d >= 0; d--) {
        out[d] = step;
        step *= type->dim[d];
    }
}

void mil_broadcast_strides(const mil_type *from, const mil_type *to, int64_t out[MIL_MAX_RANK]) {
    int64_t step = 1;
    int shift = to->rank - from->rank;
    for (int d = to->rank - 1; d >= 0; d--) {
        int64_t size = d >= shift ? from->dim[d - shift] : 1;
        out[d] = size == 1 ? 0 : step;
        step *= size;
    }
}

bool mil_broadcast(const mil_type *a, const mil_type *b, mil_type *out, int *bad) {
    mil_type result = {.dtype = a->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (int d = 0; d < result.rank; d++) {
        int in_a = d - (result.rank - a->rank), in_b = d - (result.rank - b->rank);
        int64_t size_a = in_a >= 0 ? a->dim[in_a] : 1, size_b = in_b >= 0 ? b->dim[in_b] : 1;
        if (size_a != size_b && size_a != 1 && size_b != 1) {
            *bad = d;
            return false;
        }
        result.dim[d] = size_a == 1 ? size_b : size_a;
    }
    *out = result;
    return true;
}

const char *mil_shape_print(char out[160], const mil_type *type) {
    int at = snprintf(out, 160, "[");
    for (int d = 0; d < type->rank && at < 130; d++)
        at += snprintf(out + at, (size_t)(160 - at), "%s%lld", d ? ", " : "", (long long)type->dim[d]);
    snprintf(out + at, (size_t)(160 - at), "]");
    return out;
}

propane_status mil_axis(const mil_op *op, const char *param, int64_t value, int rank, int *out, propane_error *err) {
    if (rank == 0)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s is %lld, but a scalar has no axes", param,
                           (long long)value);
    if (value < -rank || value >= rank)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s is %lld, but a tensor of rank %d has axes %d to %d", param,
                           (long long)value, rank, -rank, rank - 1);
    *out = (int)(value < 0 ? value + rank : value);
    return PROPANE_OK;
}

propane_status mil_attr_axis(const mil_op *op, const char *param, int rank, int *out, propane_error *err) {
    int64_t value = 0;
    PROPANE_TRY(mil_attr_int(op, param, &value, err));
    return mil_axis(op, param, value, rank, out, err);
}

/* Reads a constant operand; *out is NULL with PROPANE_OK if it was left out. */
static propane_status shape_util_constant_of(const mil_op *op, const char *param, const mil_const **out,
                                             propane_error *err) {
    const mil_value *value = mil_in(op, param);
    *out = NULL;
    if (!value) return PROPANE_OK;
    if (!value->constant || !value->constant->data)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s must be a constant; '%s' is not", param, value->name);
    *out = value->constant;
    return PROPANE_OK;
}

propane_status mil_attr_vector(const mil_op *op, const char *param, int limit, int64_t *out, int *count,
                               propane_error *err) {
    const mil_const *constant = NULL;
    PROPANE_TRY(shape_util_constant_of(op, param, &constant, err));
    *count = -1;
    if (!constant) return PROPANE_OK;
    int64_t length = mil_type_count(&constant->type);
    if (length > limit)
        return mil_op_fail(op, err, PROPANE_ERR_LIMIT, "%s has %lld entries; the maximum is %d", param,
                           (long long)length, limit);
    for (int64_t i = 0; i < length; i++) out[i] = mil_const_i64(constant, i);
    *count = (int)length;
    return PROPANE_OK;
}

propane_status mil_attr_axes(const mil_op *op, const char *param, int rank, bool member[MIL_MAX_RANK],
                             propane_error *err) {
    int64_t axes[MIL_MAX_RANK];
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, param, MIL_MAX_RANK, axes, &count, err));
    for (int d = 0; d < MIL_MAX_RANK; d++) member[d] = count < 0 && d < rank;
    for (int i = 0; i < count; i++) {
        int axis = 0;
        PROPANE_TRY(mil_axis(op, param, axes[i], rank, &axis, err));
        if (member[axis]) return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s names dimension %d twice", param, axis);
        member[axis] = true;
    }
    return PROPANE_OK;
}

propane_status mil_attr_bools(const mil_op *op, const char *param, int rank, bool out[MIL_MAX_RANK],
                              propane_error *err) {
    const mil_const *constant = NULL;
    PROPANE_TRY(shape_util_constant_of(op, param, &constant, err));
    for (int d = 0; d < rank; d++) out[d] = false;
    if (!constant) return PROPANE_OK;
    int64_t length = mil_type_count(&constant->type);
    if (length != rank)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s has %lld entries, but x has rank %d", param,
                           (long long)length, rank);
    for (int d = 0; d < rank; d++) out[d] = mil_const_i64(constant, d) != 0;
    return PROPANE_OK;
}

propane_status mil_attr_perm(const mil_op *op, int perm[MIL_MAX_RANK], propane_error *err) {
    const int rank = mil_in(op, "x")->type.rank;
    int64_t values[MIL_MAX_RANK];
    bool seen[MIL_MAX_RANK] = {false};
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, "perm", MIL_MAX_RANK, values, &count, err));
    if (count != rank)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "perm has %d entries, but x has rank %d", count, rank);
    for (int d = 0; d < rank; d++) {
        PROPANE_TRY(mil_axis(op, "perm", values[d], rank, &perm[d], err));
        if (seen[perm[d]]) return mil_op_fail(op, err, PROPANE_ERR_INVALID, "perm names dimension %d twice", perm[d]);
        seen[perm[d]] = true;
    }
    return PROPANE_OK;
}
