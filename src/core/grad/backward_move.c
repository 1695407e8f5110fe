/* SPDX-License-Identifier: MIT
 * Owns the gradients of operations that move elements between channels, batch and space, of reversed sequences, and of
 * elements picked or overwritten by index. A permutation's gradient is the inverse permutation. Gather and a scatter
 * that adds are each other's gradients. A scatter of another mode uses the same scatter for data's gradient, or divides
 * the adjoint into shares.
 */
#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

/* Builds an op whose first argument is `x` and whose other arguments are operands of `op` under other names. `names`
 * lists pairs of old and new names and ends with NULL. */
static mil_value *backward_move_with_operands(grad_context *g, const mil_op *op, mil_opcode code, const char *first,
                                              mil_value *x, const char *const *names) {
    mil_value *values[8];
    mil_argument arguments[8] = {{first, 1, &x}};
    int count = 1;
    for (; *names; names += 2) {
        if (!mil_in(op, names[0])) continue;
        values[count] = grad_arg(g, op, names[0]);
        arguments[count] = (mil_argument){names[1], 1, &values[count]};
        count++;
    }
    mil_op *made = x ? mil_build_op(grad_build(g), code, NULL, arguments, count) : NULL;
    return made ? made->results[0] : NULL;
}

/* ---- permutations ------------------------------------------------------------------------------------------------ */

static propane_status backward_move_undone(grad_context *g, const mil_op *op, mil_opcode code,
                                           const char *const *names) {
    grad_give(g, op, "x", backward_move_with_operands(g, op, code, "x", grad_of(g, op, 0), names));
    return PROPANE_OK;
}

static const char *const block[] = {"block_size", "block_size", NULL};

GRADIENT(depth_to_space) { return backward_move_undone(g, op, MIL_OP_space_to_depth, block); }
GRADIENT(space_to_depth) { return backward_move_undone(g, op, MIL_OP_depth_to_space, block); }
GRADIENT(pixel_shuffle) {
    return backward_move_undone(g, op, MIL_OP_pixel_unshuffle,
                                (const char *const[]){"upscale_factor", "downscale_factor", NULL});
}
GRADIENT(pixel_unshuffle) {
    return backward_move_undone(g, op, MIL_OP_pixel_shuffle,
                                (const char *const[]){"downscale_factor", "upscale_factor", NULL});
}
GRADIENT(space_to_batch) {
    return backward_move_undone(g, op, MIL_OP_batch_to_space,
                                (const char *const[]){"block_shape", "block_shape", "paddings", "crops", NULL});
}
GRADIENT(batch_to_space) {
    return backward_move_undone(g, op, MIL_OP_space_to_batch,
                                (const char *const[]){"block_shape", "block_shape", "crops", "paddings", NULL});
}
GRADIENT(reverse_sequence) {
    return backward_move_undone(
        g, op, MIL_OP_reverse_sequence,
        (const char *const[]){"lengths", "lengths", "seq_axis", "seq_axis", "batch_axis", "batch_axis", NULL});
}

GRADIENT(crop) {
    const mil_type *x = &mil_in(op, "x")->type;
    int64_t before[MIL_MAX_RANK], after[MIL_MAX_RANK];
    mil_type type;
    PROPANE_TRY(mil_crop_read(op, before, &type, err));
    for (int d = 0; d < x->rank; d++) after[d] = x->dim[d] - before[d] - type.dim[d];
    grad_give(g, op, "x", grad_pad(g, grad_of(g, op, 0), x->rank, before, after));
    return PROPANE_OK;
}

/* Takes element k of every window, spreads it by the stride and puts it back in position, then sums over k. */
GRADIENT(sliding_windows) {
    const mil_type x = mil_in(op, "x")->type;
    mil_windows w;
    PROPANE_TRY(mil_windows_read(op, &w, err));
    if (w.size > 256)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                           "no gradient for windows of %lld elements; the maximum is 256", (long long)w.size);
    const int64_t pre = grad_product(x.dim, 0, w.axis), post = grad_product(x.dim, w.axis + 1, x.rank);
    mil_value *dz = grad_reshape(g, grad_of(g, op, 0), 4, (int64_t[]){pre, w.count, w.size, post}), *sum = NULL;
    for (int64_t k = 0; k < w.size; k++) {
        int64_t dim[] = {pre, w.count, post};
        mil_value *part =
            grad_slice_step(g, dz, 4, (int64_t[]){0, 0, k, 0}, (int64_t[]){pre, w.count, k + 1, post}, NULL);
        part = grad_spread(g, grad_reshape(g, part, 3, dim), 3, dim, 1, w.stride);
        part = grad_pad(g, part, 3, (int64_t[]){0, k, 0}, (int64_t[]){0, x.dim[w.axis] - k - dim[1], 0});
        sum = sum ? grad_plus(g, sum, part) : part;
    }
    grad_give(g, op, "x", grad_reshape_as(g, sum, &x));
    return PROPANE_OK;
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */

static mil_value *backward_move_zeros(grad_context *g, const mil_type *type) {
    mil_builder *b = grad_build(g);
    mil_value *shape = mil_build_ints(b, type->dim, type->rank), *zero = grad_zero(g, type->dtype);
    mil_op *op = mil_build_op(b, MIL_OP_fill, NULL, (mil_argument[]){{"shape", 1, &shape}, {"value", 1, &zero}}, 2);
    return op ? op->results[0] : NULL;
}

/* Makes coordinates [.., batch + k] of x's elements from indices [.., k] that are relative to `batch` leading
 * dimensions. */
static mil_value *backward_move_coordinates(grad_context *g, const mil_op *op, int batch) {
    const mil_type *type = &mil_in(op, "indices")->type;
    mil_value *indices = grad_arg(g, op, "indices");
    if (batch == 0) return indices;
    mil_builder *b = grad_build(g);
    mil_type own = *type;
    own.dtype = MIL_int32;
    own.dim[own.rank - 1] = batch;
    const int64_t count = mil_type_count(&own);
    double *at = mem_array((size_t)count + 1, sizeof *at);
    if (!at) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)count * sizeof *at);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        const int d = (int)(i % batch);
        at[i] = (double)(i / batch / grad_product(own.dim, d + 1, own.rank - 1) % own.dim[d]);
    }
    mil_value *places = mil_build_const_f64(b, "places", &own, at);
    mem_free(at);
    if (type->dtype != MIL_int32) indices = mil_build_cast(b, indices, MIL_int32);
    return mil_build_concat(b, (mil_value *[]){places, indices}, 2, own.rank - 1);
}

GRADIENT(gather_nd) {
    mil_builder *b = grad_build(g);
    mil_gather_nd d;
    PROPANE_TRY(mil_gather_nd_read(op, "x", &d, err));
    mil_value *data = backward_move_zeros(g, &mil_in(op, "x")->type),
              *indices = backward_move_coordinates(g, op, d.batch_dims), *dz = grad_of(g, op, 0),
              *mode = mil_build_text(b, "add");
    mil_op *back = mil_build_op(
        b, MIL_OP_scatter_nd, NULL,
        (mil_argument[]){{"data", 1, &data}, {"indices", 1, &indices}, {"updates", 1, &dz}, {"mode", 1, &mode}}, 4);
    grad_give(g, op, "x", back ? back->results[0] : NULL);
    return PROPANE_OK;
}

/* Scatters `updates` into `data` at the indices of `op`, by the same operation but with `mode`. */
static mil_value *backward_move_scatter(grad_context *g, const mil_op *op, mil_value *data, mil_value *updates,
                                        const char *mode) {
    mil_value *how = mil_build_text(grad_build(g), mode), *indices = grad_arg(g, op, "indices"), *axis = NULL;
    mil_argument arguments[5] = {
        {"data", 1, &data}, {"indices", 1, &indices}, {"updates", 1, &updates}, {"mode", 1, &how}, {"axis", 1, &axis}};
    const bool along = mil_op_param(op->info, "axis") >= 0 && mil_in(op, "axis");
    if (along) axis = grad_arg(g, op, "axis");
    mil_op *made = data && updates ? mil_build_op(grad_build(g), op->info->code, NULL, arguments, along ? 5 : 4) : NULL;
    return made ? made->results[0] : NULL;
}

/* Picks, by the operation `gather`, the elements of x to which `op` scatters. */
static mil_value *backward_move_pick(grad_context *g, const mil_op *op, mil_opcode gather, mil_value *x) {
    static const char *const names[] = {"indices", "indices", "axis", "axis", NULL};
    const char *const *used = gather == MIL_OP_gather_nd ? (const char *const[]){"indices", "indices", NULL} : names;
    return backward_move_with_operands(g, op, gather, "x", x, used);
}

/* Handles the modes mul and div. An element of data is multiplied (or divided) by all of its updates, so data gets dz
 * scaled in the same way. An update gets the gradient of the whole product, divided by the update. An update of 0 is
 * treated as the only update of its element. */
static void backward_move_scaled(grad_context *g, const mil_op *op, mil_opcode gather, mil_value *dz, bool divides) {
    mil_value *u = grad_arg(g, op, "updates"), *data = grad_arg(g, op, "data");
    if (grad_wants(g, op, "data"))
        grad_give(g, op, "data", backward_move_scatter(g, op, dz, u, divides ? "div" : "mul"));
    if (!grad_wants(g, op, "updates")) return;
    mil_value *whole = backward_move_pick(g, op, gather, grad_mul(g, dz, grad_result(g, op)));
    mil_value *share = grad_scale(g, grad_div(g, whole, u), divides ? -1 : 1);
    if (!divides) {
        mil_value *alone = backward_move_pick(g, op, gather, grad_mul(g, dz, data));
        share = grad_select(g, grad_compare(g, MIL_OP_equal, u, 0), alone, share);
    }
    grad_give(g, op, "updates", share);
}

/* Handles the modes max and min. The largest (or smallest) value for an element gets dz; equal ones share it. */
static void backward_move_chosen(grad_context *g, const mil_op *op, mil_opcode gather, mil_value *dz) {
    mil_builder *b = grad_build(g);
    mil_value *z = grad_result(g, op), *u = grad_arg(g, op, "updates"), *data = grad_arg(g, op, "data");
    const mil_dtype dtype = op->results[0]->type.dtype;
    mil_value *at_data = mil_build_binary(b, MIL_OP_equal, data, z),
              *at_updates = mil_build_binary(b, MIL_OP_equal, u, backward_move_pick(g, op, gather, z));
    mil_value *from_data = mil_build_cast(b, at_data, dtype), *from_updates = mil_build_cast(b, at_updates, dtype);
    mil_value *share = grad_div(g, dz, backward_move_scatter(g, op, from_data, from_updates, "add"));
    if (grad_wants(g, op, "data")) grad_give(g, op, "data", grad_mul(g, share, from_data));
    if (grad_wants(g, op, "updates"))
        grad_give(g, op, "updates", grad_mul(g, backward_move_pick(g, op, gather, share), from_updates));
}

/* `gather` is the operation that picks what `op` scatters. An overwritten element passes nothing to data. If an element
 * has several updates, each gets the whole adjoint, though only the last one counts. */
static propane_status backward_move_scattered(grad_context *g, const mil_op *op, mil_opcode gather,
                                              propane_error *err) {
    mil_value *dz = grad_of(g, op, 0);
    mil_scatter_mode mode;
    PROPANE_TRY(mil_scatter_mode_read(op, &mode, err));
    if (mode == MIL_SCATTER_MUL || mode == MIL_SCATTER_DIV) {
        backward_move_scaled(g, op, gather, dz, mode == MIL_SCATTER_DIV);
        return PROPANE_OK;
    }
    if (mode == MIL_SCATTER_MAX || mode == MIL_SCATTER_MIN) {
        backward_move_chosen(g, op, gather, dz);
        return PROPANE_OK;
    }
    if (grad_wants(g, op, "updates"))
        grad_give(g, op, "updates",
                  grad_scale(g, backward_move_pick(g, op, gather, dz), mode == MIL_SCATTER_SUB ? -1 : 1));
    if (!grad_wants(g, op, "data")) return PROPANE_OK;
    if (mode == MIL_SCATTER_UPDATE)
        dz = backward_move_scatter(g, op, dz, backward_move_zeros(g, &mil_in(op, "updates")->type), "update");
    grad_give(g, op, "data", dz);
    return PROPANE_OK;
}

GRADIENT(scatter) { return backward_move_scattered(g, op, MIL_OP_gather, err); }
GRADIENT(scatter_along_axis) { return backward_move_scattered(g, op, MIL_OP_gather_along_axis, err); }
GRADIENT(scatter_nd) { return backward_move_scattered(g, op, MIL_OP_gather_nd, err); }

/* The update gets its slice of dz, and x the rest. */
GRADIENT(slice_update) {
    static const char *const names[] = {"begin",        "begin",        "end",        "end",      "stride",
                                        "stride",       "begin_mask",   "begin_mask", "end_mask", "end_mask",
                                        "squeeze_mask", "squeeze_mask", NULL};
    const mil_value *begin = mil_in(op, "begin"), *end = mil_in(op, "end");
    mil_value *dz = grad_of(g, op, 0);
    if (grad_wants(g, op, "update")) {
        if (!begin->constant || !end->constant)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                               "no gradient with respect to update if begin and end are known only at run time");
        grad_give(g, op, "update", backward_move_with_operands(g, op, MIL_OP_slice_by_index, "x", dz, names));
    }
    if (!grad_wants(g, op, "x")) return PROPANE_OK;
    mil_value *none = backward_move_zeros(g, &mil_in(op, "update")->type), *values[8];
    mil_argument arguments[8] = {{"x", 1, &dz}, {"update", 1, &none}};
    int count = 2;
    for (const char *const *name = names; *name; name += 2) {
        if (!mil_in(op, name[0])) continue;
        values[count] = grad_arg(g, op, name[0]);
        arguments[count] = (mil_argument){name[1], 1, &values[count]};
        count++;
    }
    mil_op *cleared = mil_build_op(grad_build(g), MIL_OP_slice_update, NULL, arguments, count);
    grad_give(g, op, "x", cleared ? cleared->results[0] : NULL);
    return PROPANE_OK;
}
