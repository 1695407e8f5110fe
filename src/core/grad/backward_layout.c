/* SPDX-License-Identifier: MIT
 * Owns the gradients of operations that move elements. Each gradient is the transposed move: what was cut off is
 * padded, what was repeated is summed, and what was picked by index is spread by a one-hot matrix.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

static propane_status backward_layout_reshaped(grad_context *g, const mil_op *op) {
    grad_give(g, op, "x", grad_reshape_as(g, grad_of(g, op, 0), &mil_in(op, "x")->type));
    return PROPANE_OK;
}

GRADIENT(reshape) { return backward_layout_reshaped(g, op); }
GRADIENT(expand_dims) { return backward_layout_reshaped(g, op); }
GRADIENT(squeeze) { return backward_layout_reshaped(g, op); }

GRADIENT(transpose) {
    int perm[MIL_MAX_RANK], rank = mil_in(op, "x")->type.rank;
    int64_t back[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_perm(op, perm, err));
    for (int i = 0; i < rank; i++) back[perm[i]] = i;
    grad_give(g, op, "x", mil_build_transpose(grad_build(g), grad_of(g, op, 0), back, rank));
    return PROPANE_OK;
}

GRADIENT(reverse) {
    bool on[MIL_MAX_RANK];
    int64_t axes[MIL_MAX_RANK];
    int count = 0, rank = mil_in(op, "x")->type.rank;
    PROPANE_TRY(mil_attr_axes(op, "axes", rank, on, err));
    for (int i = 0; i < rank; i++)
        if (on[i]) axes[count++] = i;
    grad_give(g, op, "x", grad_reverse(g, grad_of(g, op, 0), axes, count));
    return PROPANE_OK;
}

/* Moves the adjoint of a slice with any step back to x's shape. A dimension that runs backwards is reversed, steps
 * become gaps of zeros, and padding restores the position in x. */
static propane_status backward_layout_sliced(grad_context *g, const mil_op *op, propane_error *err) {
    mil_slice s;
    PROPANE_TRY(mil_slice_read(op, &s, err));
    const mil_type type = mil_in(op, "x")->type;
    int64_t turned[MIL_MAX_RANK], before[MIL_MAX_RANK], after[MIL_MAX_RANK], dim[MIL_MAX_RANK];
    int turned_count = 0;
    memcpy(dim, s.count, sizeof dim);
    mil_value *dz = grad_reshape(g, grad_of(g, op, 0), type.rank, dim);
    for (int i = 0; i < type.rank; i++) {
        int64_t step = s.step[i] < 0 ? -s.step[i] : s.step[i], length = (dim[i] - 1) * step + 1;
        if (s.step[i] < 0 && dim[i] > 1) turned[turned_count++] = i;
        before[i] = s.step[i] < 0 ? s.begin[i] - (length - 1) : s.begin[i];
        after[i] = type.dim[i] - before[i] - length;
    }
    dz = grad_reverse(g, dz, turned, turned_count);
    for (int i = 0; i < type.rank; i++)
        dz = grad_spread(g, dz, type.rank, dim, i, s.step[i] < 0 ? -s.step[i] : s.step[i]);
    grad_give(g, op, "x", grad_pad(g, dz, type.rank, before, after));
    return PROPANE_OK;
}

GRADIENT(slice_by_size) { return backward_layout_sliced(g, op, err); }
GRADIENT(slice_by_index) { return backward_layout_sliced(g, op, err); }

/* Adjacent parts that have an adjoint are joined and padded to x's size; the padding covers the parts without an
 * adjoint. */
GRADIENT(split) {
    mil_split *s = mem_alloc(sizeof *s);
    if (!s) return propane_fail_memory(err, sizeof *s);
    propane_status status = mil_split_read(op, s, err);
    const mil_type type = mil_in(op, "x")->type;
    for (int k = 0; status == PROPANE_OK && k < s->count; k++) {
        mil_value *run[MIL_MAX_RESULTS];
        int first = k, count = 0;
        while (k < s->count && grad_of(g, op, k)) run[count++] = grad_of(g, op, k++);
        if (count == 0) continue;
        int64_t before[MIL_MAX_RANK] = {0}, after[MIL_MAX_RANK] = {0};
        before[s->axis] = s->begin[first];
        after[s->axis] = type.dim[s->axis] - (s->begin[k - 1] + s->size[k - 1]);
        grad_give(g, op, "x", grad_pad(g, grad_join(g, MIL_OP_concat, run, count, s->axis), type.rank, before, after));
    }
    mem_free(s);
    return status;
}

GRADIENT(concat) {
    mil_value *const *values;
    bool interleave;
    int axis, count = mil_in_list(op, "values", &values);
    const mil_type type = op->results[0]->type;
    PROPANE_TRY(grad_axis_get(op, &type, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "interleave", &interleave, err));
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK], stride[MIL_MAX_RANK];
    for (int i = 0; i < type.rank; i++) end[i] = type.dim[i], stride[i] = 1;
    if (interleave) stride[axis] = count;
    int64_t at = 0;
    for (int k = 0; k < count; k++) {
        int64_t n = values[k]->type.rank ? values[k]->type.dim[axis] : 1; /* scalars are joined into a vector */
        begin[axis] = interleave ? k : at;
        end[axis] = interleave ? k + (n - 1) * count + 1 : at + n;
        at += n;
        if (!grad_wanted(g, values[k])) continue;
        mil_value *part = grad_slice_step(g, grad_of(g, op, 0), type.rank, begin, end, stride);
        grad_add(g, values[k], grad_reshape_as(g, part, &values[k]->type));
    }
    return PROPANE_OK;
}

GRADIENT(stack) {
    mil_value *const *values;
    int axis, count = mil_in_list(op, "values", &values);
    const mil_type type = op->results[0]->type;
    PROPANE_TRY(grad_axis_get(op, &type, &axis, err));
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK];
    memcpy(end, type.dim, sizeof end);
    for (int k = 0; k < count; k++) {
        if (!grad_wanted(g, values[k])) continue;
        begin[axis] = k;
        end[axis] = k + 1;
        mil_value *part = grad_slice_step(g, grad_of(g, op, 0), type.rank, begin, end, NULL);
        grad_add(g, values[k], grad_reshape_as(g, part, &values[k]->type));
    }
    return PROPANE_OK;
}

/* Treats one axis after the other: sums [pre, reps, n, post] over the repetitions. */
GRADIENT(tile) {
    const mil_type from = mil_in(op, "x")->type, to = op->results[0]->type;
    int64_t dim[MIL_MAX_RANK];
    memcpy(dim, to.dim, sizeof dim);
    mil_value *dz = grad_of(g, op, 0);
    for (int i = 0; i < from.rank; i++) {
        int64_t n = from.dim[i], reps = to.dim[i] / n;
        if (reps == 1) continue;
        int64_t pre = grad_product(dim, 0, i), post = grad_product(dim, i + 1, from.rank);
        dz = grad_sum(g, grad_reshape(g, dz, 4, (int64_t[]){pre, reps, n, post}), (int64_t[]){1}, 1);
        dim[i] = n;
        dz = grad_reshape(g, dz, from.rank, dim);
    }
    grad_give(g, op, "x", dz);
    return PROPANE_OK;
}

/* Returns the source index of element i of the padded axis. */
static int64_t backward_layout_pad_source(mil_pad_mode mode, int64_t i, int64_t before, int64_t n) {
    int64_t at = i - before;
    if (mode == MIL_PAD_REPLICATE) return at < 0 ? 0 : at >= n ? n - 1 : at;
    if (at < 0) return -at;
    return at >= n ? 2 * (n - 1) - at : at;
}

/* Undoes reflection or replication along one axis: multiplies the transposed 0/1 matrix of the padding by dz. */
static mil_value *backward_layout_unpad_axis(grad_context *g, mil_value *dz, const mil_pad *p, int rank, int64_t *dim,
                                             int axis, int64_t n, mil_dtype dtype) {
    int64_t padded = dim[axis], pre = grad_product(dim, 0, axis), post = grad_product(dim, axis + 1, rank);
    double *matrix = mem_array((size_t)(padded * n), sizeof *matrix); /* shape [padded, n] */
    mil_builder *b = grad_build(g);
    if (!matrix) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)(padded * n) * sizeof *matrix);
        return NULL;
    }
    for (int64_t i = 0; i < padded; i++) matrix[i * n + backward_layout_pad_source(p->mode, i, p->before[axis], n)] = 1;
    mil_type type = mil_type_tensor(dtype, 2, (int64_t[]){padded, n});
    mil_value *how = mil_build_const_f64(b, "unpad", &type, matrix);
    mem_free(matrix);
    dz = mil_build_matmul(b, how, grad_reshape(g, dz, 3, (int64_t[]){pre, padded, post}), true, false);
    dim[axis] = n;
    return grad_reshape(g, dz, rank, dim);
}

GRADIENT(pad) {
    mil_pad p;
    PROPANE_TRY(mil_pad_read(op, &p, err));
    const mil_type from = mil_in(op, "x")->type;
    mil_value *dz = grad_of(g, op, 0);
    int64_t dim[MIL_MAX_RANK], end[MIL_MAX_RANK];
    memcpy(dim, op->results[0]->type.dim, sizeof dim);
    for (int i = 0; i < from.rank; i++) {
        end[i] = p.before[i] + from.dim[i];
        if (p.mode != MIL_PAD_CONSTANT && dim[i] != from.dim[i])
            dz = backward_layout_unpad_axis(g, dz, &p, from.rank, dim, i, from.dim[i], from.dtype);
    }
    if (p.mode == MIL_PAD_CONSTANT) dz = grad_slice_step(g, dz, from.rank, p.before, end, NULL);
    grad_give(g, op, "x", dz);
    return PROPANE_OK;
}

/* ---- gather ------------------------------------------------------------------------------------------------------ */

/* Returns the indices as [batch, picks] int32, with negative ones counted from the end. */
static mil_value *backward_layout_positive_indices(grad_context *g, const mil_op *op, const mil_gather *d) {
    mil_builder *b = grad_build(g);
    const mil_value *v = mil_in(op, "indices");
    mil_value *indices = grad_value(g, v);
    if (v->type.dtype != MIL_int32) indices = mil_build_cast(b, indices, MIL_int32);
    indices = grad_reshape(g, indices, 2, (int64_t[]){d->batch, d->picks});
    bool negative = v->constant == NULL || v->constant->data == NULL;
    for (int64_t i = 0; !negative && i < mil_type_count(&v->type); i++) negative = mil_const_i64(v->constant, i) < 0;
    return negative ? mil_build_binary_scalar(b, MIL_OP_mod, indices, (double)d->size) : indices;
}

/* dx [B, outer, n, inner] = onehot' [B, 1, n, picks] dz [B, outer, picks, inner], so the adjoints of equal indices add
 * up. */
GRADIENT(gather) {
    mil_gather d;
    PROPANE_TRY(mil_gather_read(op, &d, err));
    mil_builder *b = grad_build(g);
    mil_dtype dtype = op->results[0]->type.dtype;
    mil_value *indices = backward_layout_positive_indices(g, op, &d), *size = mil_build_int(b, (int32_t)d.size),
              *axis = mil_build_int(b, -1);
    mil_value *on = mil_build_scalar(b, dtype, 1), *off = mil_build_scalar(b, dtype, 0);
    mil_op *hot = mil_build_op(b, MIL_OP_one_hot, NULL,
                               (mil_argument[]){{"indices", 1, &indices},
                                                {"one_hot_vector_size", 1, &size},
                                                {"axis", 1, &axis},
                                                {"on_value", 1, &on},
                                                {"off_value", 1, &off}},
                               5);
    mil_value *matrix = grad_reshape(g, hot ? hot->results[0] : NULL, 4, (int64_t[]){d.batch, 1, d.picks, d.size});
    mil_value *dz = grad_reshape(g, grad_of(g, op, 0), 4, (int64_t[]){d.batch, d.outer, d.picks, d.inner});
    mil_value *dx = mil_build_matmul(b, matrix, dz, true, false);
    grad_give(g, op, "x", grad_reshape_as(g, dx, &mil_in(op, "x")->type));
    return PROPANE_OK;
}

GRADIENT(band_part) {
    mil_builder *b = grad_build(g);
    int64_t lower, upper;
    PROPANE_TRY(mil_attr_int(op, "lower", &lower, err));
    PROPANE_TRY(mil_attr_int(op, "upper", &upper, err));
    mil_value *dz = grad_of(g, op, 0), *low = mil_build_int(b, (int32_t)lower),
              *high = mil_build_int(b, (int32_t)upper);
    mil_op *band = mil_build_op(b, MIL_OP_band_part, NULL,
                                (mil_argument[]){{"x", 1, &dz}, {"lower", 1, &low}, {"upper", 1, &high}}, 3);
    grad_give(g, op, "x", band ? band->results[0] : NULL);
    return PROPANE_OK;
}
