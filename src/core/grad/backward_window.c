/* SPDX-License-Identifier: MIT
 * Owns the gradients of resizing and of picks along an axis. Resizing is linear and works on one dimension after the
 * other, so its gradient multiplies by the transposed matrix of each dimension. The adjoints of elements picked along
 * an axis are added back to their places.
 */
#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

/* ---- resizing ---------------------------------------------------------------------------------------------------- */

/* Fills `matrix` [out, in] with the weight of each element in each result. */
static void backward_window_fill_matrix(const mil_resize *r, int64_t in, int64_t out, double *matrix) {
    for (int64_t i = 0; i < out; i++) {
        const double at =
            r->nearest ? (double)mil_resize_nearest(r, in, out, i) : mil_grid_point(r->grid, (double)in, out, i);
        const int64_t low = (int64_t)at;
        const double part = at - (double)low;
        matrix[i * in + low] += 1.0 - part;
        if (part > 0.0) matrix[i * in + low + 1] += part;
    }
}

static mil_value *backward_window_unresize_axis(grad_context *g, mil_value *dz, const mil_resize *r, int64_t *dim,
                                                int axis, int64_t in, mil_dtype dtype) {
    const int rank = r->result.rank;
    const int64_t out = dim[axis], pre = grad_product(dim, 0, axis), post = grad_product(dim, axis + 1, rank);
    double *matrix = mem_array((size_t)(out * in), sizeof *matrix);
    mil_builder *b = grad_build(g);
    if (!matrix) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)(out * in) * sizeof *matrix);
        return NULL;
    }
    backward_window_fill_matrix(r, in, out, matrix);
    const mil_type type = mil_type_tensor(dtype, 2, (int64_t[]){out, in});
    mil_value *how = mil_build_const_f64(b, "unresize", &type, matrix);
    mem_free(matrix);
    dz = mil_build_matmul(b, how, grad_reshape(g, dz, 3, (int64_t[]){pre, out, post}), true, false);
    dim[axis] = in;
    return grad_reshape(g, dz, rank, dim);
}

GRADIENT(resize) {
    const mil_type from = mil_in(op, "x")->type;
    mil_value *dz = grad_of(g, op, 0);
    int64_t dim[MIL_MAX_RANK];
    mil_resize r;
    PROPANE_TRY(mil_resize_read(op, &r, err));
    for (int d = 0; d < from.rank; d++) dim[d] = r.result.dim[d];
    for (int d = r.first; d < from.rank; d++)
        if (dim[d] != from.dim[d] || r.grid == MIL_GRID_OFFSET)
            dz = backward_window_unresize_axis(g, dz, &r, dim, d, from.dim[d], from.dtype);
    grad_give(g, op, "x", dz);
    return PROPANE_OK;
}

/* ---- picks ------------------------------------------------------------------------------------------------------- */

/* Adds dz to zeros of x's shape, at `indices` along `axis`. */
static void backward_window_scatter_back(grad_context *g, const mil_op *op, mil_value *indices, int axis) {
    mil_builder *b = grad_build(g);
    const mil_type type = mil_in(op, "x")->type;
    mil_value *shape = mil_build_ints(b, type.dim, type.rank), *zero = grad_zero(g, type.dtype),
              *dz = grad_of(g, op, 0), *at = mil_build_int(b, axis), *mode = mil_build_text(b, "add");
    mil_op *data = mil_build_op(b, MIL_OP_fill, NULL, (mil_argument[]){{"shape", 1, &shape}, {"value", 1, &zero}}, 2);
    mil_op *back = data ? mil_build_op(b, MIL_OP_scatter_along_axis, NULL,
                                       (mil_argument[]){{"data", 1, &data->results[0]},
                                                        {"indices", 1, &indices},
                                                        {"updates", 1, &dz},
                                                        {"axis", 1, &at},
                                                        {"mode", 1, &mode}},
                                       5)
                        : NULL;
    grad_give(g, op, "x", back ? back->results[0] : NULL);
}

GRADIENT(gather_along_axis) {
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", mil_in(op, "x")->type.rank, &axis, err));
    backward_window_scatter_back(g, op, grad_arg(g, op, "indices"), axis);
    return PROPANE_OK;
}

/* The indices are the op's second result; if it has none, topk is run again. */
GRADIENT(topk) {
    mil_builder *b = grad_build(g);
    int axis = 0;
    bool up = false;
    int64_t k = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", mil_in(op, "x")->type.rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(op, "ascending", &up, err));
    k = op->results[0]->type.dim[axis];
    if (!grad_of(g, op, 0)) return PROPANE_OK;
    mil_value *indices = op->result_count > 1 ? grad_value(g, op->results[1]) : NULL;
    if (op->result_count < 2) {
        mil_value *x = grad_arg(g, op, "x"), *count = mil_build_int(b, (int32_t)k), *at = mil_build_int(b, axis),
                  *direction = mil_build_bool(b, up);
        mil_op *again = mil_build_op(
            b, MIL_OP_topk, NULL,
            (mil_argument[]){{"x", 1, &x}, {"k", 1, &count}, {"axis", 1, &at}, {"ascending", 1, &direction}}, 4);
        indices = again ? again->results[1] : NULL;
    }
    backward_window_scatter_back(g, op, indices, axis);
    return PROPANE_OK;
}
