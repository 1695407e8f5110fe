/* SPDX-License-Identifier: MIT
 * Owns the geometry of the larger ops: which elements matmul, conv, slices, pad, split, gather, einsum and attention
 * combine. Each _read function checks shapes and attributes and refuses those that do not fit, naming dimension and
 * value.
 */
#include "core/mil/ops/shape_util.h"

#include <string.h>

#define BAD(...) mil_op_fail(op, err, PROPANE_ERR_INVALID, __VA_ARGS__)

static const mil_type *shape_ops_type_of(const mil_op *op, const char *param) {
    const mil_value *value = mil_in(op, param);
    return value ? &value->type : NULL;
}

/* ---- matmul --------------------------------------------------------------------------------------------------------- */

propane_status mil_matmul_read(const mil_op *op, mil_matmul *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x"), *y = shape_ops_type_of(op, "y");
    bool tx = false, ty = false;
    PROPANE_TRY(mil_attr_bool(op, "transpose_x", &tx, err));
    PROPANE_TRY(mil_attr_bool(op, "transpose_y", &ty, err));
    if (x->rank == 0 || y->rank == 0)
        return BAD("%s is a scalar; matmul takes vectors and matrices", x->rank ? "y" : "x");
    if ((tx && x->rank == 1) || (ty && y->rank == 1))
        return BAD("transpose_%s is true, but %s is a vector", tx && x->rank == 1 ? "x" : "y",
                   tx && x->rank == 1 ? "x" : "y");
    *out = (mil_matmul){.m = 1, .n = 1};
    int64_t inner = 0;
    if (x->rank == 1) {
        out->k = x->dim[0], out->x_col = 1;
    } else {
        int64_t rows = x->dim[x->rank - 2], cols = x->dim[x->rank - 1];
        out->m = tx ? cols : rows, out->k = tx ? rows : cols;
        out->x_row = tx ? 1 : cols, out->x_col = tx ? cols : 1;
    }
    if (y->rank == 1) {
        inner = y->dim[0], out->y_row = 1;
    } else {
        int64_t rows = y->dim[y->rank - 2], cols = y->dim[y->rank - 1];
        out->n = ty ? rows : cols, inner = ty ? cols : rows;
        out->y_row = ty ? 1 : cols, out->y_col = ty ? cols : 1;
    }
    char tx_text[160], ty_text[160];
    if (out->k != inner)
        return BAD("x %s%s has %lld columns, but y %s%s has %lld rows", mil_shape_print(tx_text, x),
                   tx ? " transposed" : "", (long long)out->k, mil_shape_print(ty_text, y), ty ? " transposed" : "",
                   (long long)inner);
    mil_type bx = *x, by = *y, batch;
    bx.rank = x->rank > 2 ? x->rank - 2 : 0, by.rank = y->rank > 2 ? y->rank - 2 : 0;
    int bad = 0;
    if (!mil_broadcast(&bx, &by, &batch, &bad))
        return BAD("batch dimension %d of x %s and y %s differs and is not 1", bad, mil_shape_print(tx_text, x),
                   mil_shape_print(ty_text, y));
    out->batch_rank = batch.rank;
    memcpy(out->batch, batch.dim, sizeof out->batch);
    mil_broadcast_strides(&bx, &batch, out->x_step);
    mil_broadcast_strides(&by, &batch, out->y_step);
    for (int d = 0; d < batch.rank; d++) out->x_step[d] *= out->m * out->k, out->y_step[d] *= out->n * out->k;
    if (batch.rank + (x->rank > 1) + (y->rank > 1) > MIL_MAX_RANK)
        return BAD("the result would have more than 8 dimensions");
    if (x->rank > 1) batch.dim[batch.rank++] = out->m;
    if (y->rank > 1) batch.dim[batch.rank++] = out->n;
    out->result = batch;
    out->result.dtype = x->dtype;
    return PROPANE_OK;
}

/* ---- conv ----------------------------------------------------------------------------------------------------------- */

/* Reads one positive number per spatial dimension; the default is 1. */
propane_status mil_spatial_vector(const mil_op *op, const char *param, int spatial, int64_t out[3],
                                  propane_error *err) {
    int count = 0;
    int64_t values[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_vector(op, param, MIL_MAX_RANK, values, &count, err));
    if (count >= 0 && count != spatial)
        return BAD("%s has %d entries, but x has %d spatial dimensions", param, count, spatial);
    for (int d = 0; d < spatial; d++) {
        out[d] = count < 0 ? 1 : values[d];
        if (out[d] < 1 || out[d] > INT32_MAX)
            return BAD("%s[%d] is %lld; it must be at least 1", param, d, (long long)out[d]);
    }
    return PROPANE_OK;
}

propane_status mil_conv_padding(const mil_op *op, mil_conv *c, propane_error *err) {
    const char *mode = NULL;
    PROPANE_TRY(mil_attr_text(op, "pad_type", &mode, err));
    bool custom = !strcmp(mode, "custom"), same = !strcmp(mode, "same"), lower = !strcmp(mode, "same_lower");
    if (!custom && !same && !lower && strcmp(mode, "valid") != 0)
        return BAD("pad_type is \"%.40s\"; it must be valid, custom, same or same_lower", mode);
    int64_t pad[2 * MIL_MAX_RANK] = {0};
    int count = -1;
    if (custom) PROPANE_TRY(mil_attr_vector(op, "pad", 2 * MIL_MAX_RANK, pad, &count, err));
    if (count >= 0 && count != 2 * c->spatial)
        return BAD("pad has %d entries; %d spatial dimensions need %d", count, c->spatial, 2 * c->spatial);
    for (int d = 0; d < c->spatial; d++) {
        int64_t reach = (c->kernel[d] - 1) * c->dilation[d] + 1;
        if (custom) {
            c->before[d] = pad[2 * d], c->after[d] = pad[2 * d + 1];
            if (c->before[d] < 0 || c->after[d] < 0)
                return BAD("pad[%d] is %lld; it must not be negative", c->before[d] < 0 ? 2 * d : 2 * d + 1,
                           (long long)(c->before[d] < 0 ? c->before[d] : c->after[d]));
        } else if (same || lower) {
            /* The result has ceil(in / stride) rows. An odd row of padding is after x, or before x for same_lower. */
            int64_t rows = (c->in[d] + c->stride[d] - 1) / c->stride[d];
            int64_t total = (rows - 1) * c->stride[d] + reach - c->in[d];
            if (total < 0) total = 0;
            c->before[d] = lower ? (total + 1) / 2 : total / 2;
            c->after[d] = total - c->before[d];
        }
        int64_t room = c->in[d] + c->before[d] + c->after[d] - reach;
        if (room < 0)
            return BAD("spatial dimension %d has %lld elements with padding, fewer than the kernel's %lld (size %lld, "
                       "dilation %lld)",
                       d, (long long)(room + reach), (long long)reach, (long long)c->kernel[d],
                       (long long)c->dilation[d]);
        c->out[d] = room / c->stride[d] + 1;
    }
    return PROPANE_OK;
}

propane_status mil_conv_read(const mil_op *op, mil_conv *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x"), *w = shape_ops_type_of(op, "weight"),
                   *bias = shape_ops_type_of(op, "bias");
    char text[160];
    if (x->rank < 3 || x->rank > 5)
        return BAD("x is %s; conv takes [n, c, d1], [n, c, d1, d2] or [n, c, d1, d2, d3]", mil_shape_print(text, x));
    if (w->rank != x->rank) return BAD("weight has rank %d, but x has rank %d", w->rank, x->rank);
    *out = (mil_conv){.spatial = x->rank - 2, .n = x->dim[0], .c_in = x->dim[1], .c_out = w->dim[0]};
    PROPANE_TRY(mil_attr_int(op, "groups", &out->groups, err));
    if (out->groups < 1 || out->c_in % out->groups || out->c_out % out->groups)
        return BAD("groups is %lld; it must divide the %lld input and the %lld output channels", (long long)out->groups,
                   (long long)out->c_in, (long long)out->c_out);
    if (w->dim[1] != out->c_in / out->groups)
        return BAD("weight has %lld input channels, but x has %lld in %lld groups", (long long)w->dim[1],
                   (long long)out->c_in, (long long)out->groups);
    if (bias && (bias->rank != 1 || bias->dim[0] != out->c_out))
        return BAD("bias is %s; it must be [%lld], one number per output channel", mil_shape_print(text, bias),
                   (long long)out->c_out);
    for (int d = 0; d < out->spatial; d++) out->in[d] = x->dim[d + 2], out->kernel[d] = w->dim[d + 2];
    PROPANE_TRY(mil_spatial_vector(op, "strides", out->spatial, out->stride, err));
    PROPANE_TRY(mil_spatial_vector(op, "dilations", out->spatial, out->dilation, err));
    for (int d = 0; d < out->spatial; d++)
        if (out->kernel[d] > INT32_MAX || out->in[d] > INT32_MAX)
            return BAD("spatial dimension %d is larger than 2^31", d);
    return mil_conv_padding(op, out, err);
}

/* ---- slices, pad, split --------------------------------------------------------------------------------------------- */

static int64_t shape_ops_clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

static propane_status shape_ops_per_dimension(const mil_op *op, const char *param, int rank, int64_t *out,
                                              propane_error *err) {
    int count = 0;
    PROPANE_TRY(mil_attr_vector(op, param, MIL_MAX_RANK, out, &count, err));
    if (count >= 0 && count != rank) return BAD("%s has %d entries, but x has rank %d", param, count, rank);
    if (count < 0)
        for (int d = 0; d < rank; d++) out[d] = 1;
    return PROPANE_OK;
}

static propane_status shape_ops_slice_by_size(const mil_op *op, const mil_type *x, mil_slice *out, propane_error *err) {
    for (int d = 0; d < x->rank; d++) {
        int64_t begin = out->begin[d], size = out->count[d], dim = x->dim[d];
        if (begin < 0) begin += dim;
        if (begin < 0 || begin >= dim)
            return BAD("begin[%d] is %lld, but dimension %d of x has %lld elements", d, (long long)out->begin[d], d,
                       (long long)dim);
        if (size == -1) size = dim - begin;
        if (size < 0) return BAD("size[%d] is %lld; it must not be negative, or -1 for the rest", d, (long long)size);
        if (size > dim - begin)
            return BAD("begin[%d] %lld and size[%d] %lld end beyond dimension %d of x, which has %lld elements", d,
                       (long long)begin, d, (long long)size, d, (long long)dim);
        out->begin[d] = begin, out->count[d] = size, out->step[d] = 1;
    }
    return PROPANE_OK;
}

/* Resolves a slice as Python does: negative bounds count from the end, bounds are clamped, and masks mean "from the
 * edge". A slice that ends where it begins has no elements. */
propane_status mil_slice_resolve(const mil_op *op, const int64_t *end, mil_slice *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x");
    bool from_edge[MIL_MAX_RANK], to_edge[MIL_MAX_RANK];
    PROPANE_TRY(shape_ops_per_dimension(op, "stride", x->rank, out->step, err));
    PROPANE_TRY(mil_attr_bools(op, "begin_mask", x->rank, from_edge, err));
    PROPANE_TRY(mil_attr_bools(op, "end_mask", x->rank, to_edge, err));
    PROPANE_TRY(mil_attr_bools(op, "squeeze_mask", x->rank, out->squeeze, err));
    for (int d = 0; d < x->rank; d++) {
        int64_t dim = x->dim[d], begin = out->begin[d], step = out->step[d];
        if (step == 0) return BAD("stride[%d] is 0", d);
        if (out->squeeze[d]) {
            int64_t at = from_edge[d] ? 0 : begin < 0 ? begin + dim : begin;
            if (at < 0 || at >= dim)
                return BAD("begin[%d] is %lld, but dimension %d of x has %lld elements", d, (long long)begin, d,
                           (long long)dim);
            out->begin[d] = at, out->count[d] = 1, out->step[d] = 1;
            continue;
        }
        int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
        int64_t first =
            from_edge[d] ? (step > 0 ? low : high) : shape_ops_clamp(begin < 0 ? begin + dim : begin, low, high);
        int64_t last =
            to_edge[d] ? (step > 0 ? high : low) : shape_ops_clamp(end[d] < 0 ? end[d] + dim : end[d], low, high);
        const int64_t span = step > 0 ? last - first : first - last, stride = step > 0 ? step : -step;
        out->begin[d] = first, out->count[d] = span > 0 ? (span + stride - 1) / stride : 0;
    }
    return PROPANE_OK;
}

propane_status mil_slice_read(const mil_op *op, mil_slice *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x");
    const bool by_size = mil_op_param(op->info, "size") >= 0;
    *out = (mil_slice){.rank = x->rank};
    PROPANE_TRY(shape_ops_per_dimension(op, "begin", x->rank, out->begin, err));
    if (!by_size) {
        int64_t end[MIL_MAX_RANK];
        PROPANE_TRY(shape_ops_per_dimension(op, "end", x->rank, end, err));
        return mil_slice_resolve(op, end, out, err);
    }
    PROPANE_TRY(shape_ops_per_dimension(op, "size", x->rank, out->count, err));
    return shape_ops_slice_by_size(op, x, out, err);
}

propane_status mil_pad_read(const mil_op *op, mil_pad *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x");
    const char *mode = NULL;
    int64_t pad[2 * MIL_MAX_RANK];
    int count = 0;
    *out = (mil_pad){.mode = MIL_PAD_CONSTANT};
    PROPANE_TRY(mil_attr_text(op, "mode", &mode, err));
    const mil_value *value = mil_in(op, "constant_val"); /* of x's element type, which may be an integer type */
    if (value && value->constant) out->value = mil_const_f64(value->constant, 0);
    PROPANE_TRY(mil_attr_vector(op, "pad", 2 * MIL_MAX_RANK, pad, &count, err));
    if (!strcmp(mode, "reflect"))
        out->mode = MIL_PAD_REFLECT;
    else if (!strcmp(mode, "replicate"))
        out->mode = MIL_PAD_REPLICATE;
    else if (strcmp(mode, "constant") != 0)
        return BAD("mode is \"%.40s\"; it must be constant, reflect or replicate", mode);
    if (count % 2 || count > 2 * x->rank)
        return BAD("pad has %d entries; it takes two per dimension, at most %d for rank %d", count, 2 * x->rank,
                   x->rank);
    for (int i = 0; i < count; i++) {
        int d = x->rank - count / 2 + i / 2;
        int64_t most = out->mode == MIL_PAD_REFLECT ? x->dim[d] - 1 : MIL_MAX_COUNT;
        if (pad[i] < 0) return BAD("pad[%d] is %lld; it must not be negative", i, (long long)pad[i]);
        if (pad[i] > most)
            return BAD("pad[%d] is %lld; reflecting dimension %d of %lld elements allows at most %lld", i,
                       (long long)pad[i], d, (long long)x->dim[d], (long long)most);
        *(i % 2 ? &out->after[d] : &out->before[d]) = pad[i];
    }
    return PROPANE_OK;
}

propane_status mil_split_read(const mil_op *op, mil_split *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x");
    int64_t parts = 0, total = 0;
    int count = 0;
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &out->axis, err));
    PROPANE_TRY(mil_attr_vector(op, "split_sizes", MIL_MAX_RESULTS, out->size, &count, err));
    const int64_t dim = x->dim[out->axis];
    if (mil_in(op, "num_splits")) {
        PROPANE_TRY(mil_attr_int(op, "num_splits", &parts, err));
        if (count >= 0 && count != parts)
            return BAD("num_splits is %lld, but split_sizes has %d entries", (long long)parts, count);
        if (parts < 1 || parts > MIL_MAX_RESULTS)
            return BAD("num_splits is %lld; it must be 1 to %d", (long long)parts, MIL_MAX_RESULTS);
        if (count < 0 && dim % parts)
            return BAD("num_splits %lld does not divide dimension %d of x, which has %lld elements", (long long)parts,
                       out->axis, (long long)dim);
        if (count < 0)
            for (int k = 0; k < parts; k++) out->size[k] = dim / parts;
    } else if (count < 1) {
        return BAD("num_splits or split_sizes is required");
    }
    out->count = count < 0 ? (int)parts : count;
    for (int k = 0; k < out->count; k++) {
        if (out->size[k] < 0 || out->size[k] > dim - total)
            return BAD("split_sizes[%d] is %lld, with %lld elements left of the %lld of dimension %d", k,
                       (long long)out->size[k], (long long)(dim - total), (long long)dim, out->axis);
        out->begin[k] = total;
        total += out->size[k];
    }
    if (total != dim)
        return BAD("split_sizes add up to %lld, but dimension %d of x has %lld elements", (long long)total, out->axis,
                   (long long)dim);
    return PROPANE_OK;
}

/* ---- gather --------------------------------------------------------------------------------------------------------- */

propane_status mil_gather_read(const mil_op *op, mil_gather *out, propane_error *err) {
    const mil_type *x = shape_ops_type_of(op, "x"), *indices = shape_ops_type_of(op, "indices");
    int64_t batch_dims = 0;
    *out = (mil_gather){.batch = 1, .outer = 1, .inner = 1, .picks = 1};
    PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &out->axis, err));
    PROPANE_TRY(mil_attr_int(op, "batch_dims", &batch_dims, err));
    if (batch_dims < 0) batch_dims += indices->rank;
    if (batch_dims < 0 || batch_dims > indices->rank || batch_dims > out->axis)
        return BAD("batch_dims is %lld; it must be at most the axis %d and the rank %d of indices",
                   (long long)batch_dims, out->axis, indices->rank);
    out->batch_dims = (int)batch_dims;
    for (int d = 0; d < out->batch_dims; d++) {
        if (x->dim[d] != indices->dim[d])
            return BAD("batch dimension %d is %lld in x and %lld in indices", d, (long long)x->dim[d],
                       (long long)indices->dim[d]);
        out->batch *= x->dim[d];
    }
    for (int d = out->batch_dims; d < out->axis; d++) out->outer *= x->dim[d];
    for (int d = out->axis + 1; d < x->rank; d++) out->inner *= x->dim[d];
    for (int d = out->batch_dims; d < indices->rank; d++) out->picks *= indices->dim[d];
    out->size = x->dim[out->axis];
    return PROPANE_OK;
}

/* ---- einsum --------------------------------------------------------------------------------------------------------- */

static bool shape_ops_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int shape_ops_label_of(const mil_einsum *e, char letter) {
    for (int k = 0; k < e->label_count; k++)
        if (e->letter[k] == letter) return k;
    return -1;
}

/* Numbers the result's labels first, so that the walk over labels visits the result in order. */
static propane_status shape_ops_einsum_result(const mil_op *op, const char *equation, const char *arrow, mil_einsum *e,
                                              propane_error *err) {
    for (const char *c = arrow + 2; *c; c++) {
        if (*c == ' ') continue;
        if (!shape_ops_is_letter(*c)) return BAD("equation \"%.60s\": '%c' is not a letter", equation, *c);
        if (shape_ops_label_of(e, *c) >= 0) return BAD("equation \"%.60s\": the result names '%c' twice", equation, *c);
        if (e->label_count == MIL_MAX_RANK)
            return BAD("equation \"%.60s\": the result has more than %d dimensions", equation, MIL_MAX_RANK);
        e->letter[e->label_count++] = *c;
    }
    e->result_rank = e->label_count;
    return PROPANE_OK;
}

static propane_status shape_ops_einsum_label(const mil_op *op, const char *equation, char letter, int64_t size,
                                             int64_t step, int operand, mil_einsum *e, propane_error *err) {
    int label = shape_ops_label_of(e, letter);
    if (label < 0) {
        label = e->label_count++;
        e->letter[label] = letter;
    }
    if (e->size[label] <= 1) e->size[label] = size;
    if (size != 1 && size != e->size[label])
        return BAD("equation \"%.60s\": '%c' is %lld and %lld", equation, letter, (long long)e->size[label],
                   (long long)size);
    if (size != 1) e->step[operand][label] += step;
    return PROPANE_OK;
}

propane_status mil_einsum_read(const mil_op *op, mil_einsum *out, propane_error *err) {
    mil_value *const *values = NULL;
    const char *equation = NULL;
    *out = (mil_einsum){.operand_count = mil_in_list(op, "values", &values)};
    PROPANE_TRY(mil_attr_text(op, "equation", &equation, err));
    if (out->operand_count < 1 || out->operand_count > MIL_MAX_EINSUM)
        return BAD("%d values; einsum takes 1 to %d", out->operand_count, MIL_MAX_EINSUM);
    const char *arrow = strstr(equation, "->");
    if (!arrow) return BAD("equation \"%.60s\" has no \"->\"", equation);
    PROPANE_TRY(shape_ops_einsum_result(op, equation, arrow, out, err));
    const char *c = equation;
    for (int k = 0; k < out->operand_count; k++) {
        const mil_type *type = &values[k]->type;
        int64_t stride[MIL_MAX_RANK];
        int rank = 0;
        mil_strides(type, stride);
        for (; c < arrow && *c != ','; c++) {
            if (*c == ' ') continue;
            if (!shape_ops_is_letter(*c)) return BAD("equation \"%.60s\": '%c' is not a letter", equation, *c);
            if (rank == type->rank)
                return BAD("equation \"%.60s\": more letters than the %d dimensions of operand %d", equation,
                           type->rank, k);
            PROPANE_TRY(shape_ops_einsum_label(op, equation, *c, type->dim[rank], stride[rank], k, out, err));
            rank++;
        }
        if (rank != type->rank)
            return BAD("equation \"%.60s\": %d letters for operand %d of rank %d", equation, rank, k, type->rank);
        if ((c == arrow) != (k == out->operand_count - 1))
            return BAD("equation \"%.60s\" does not have one term for each of the %d values", equation,
                       out->operand_count);
        c++;
    }
    for (int l = 0; l < out->result_rank; l++)
        if (out->size[l] == 0)
            return BAD("equation \"%.60s\": no operand has the result's '%c'", equation, out->letter[l]);
    return PROPANE_OK;
}

/* ---- attention ------------------------------------------------------------------------------------------------------ */

propane_status mil_sdpa_read(const mil_op *op, mil_sdpa *out, propane_error *err) {
    const mil_type *q = shape_ops_type_of(op, "query"), *k = shape_ops_type_of(op, "key"),
                   *v = shape_ops_type_of(op, "value"), *mask = shape_ops_type_of(op, "attn_mask");
    char a[160], b[160];
    const int rank = q->rank;
    if (rank < 3 || k->rank != rank || v->rank != rank)
        return BAD("query, key and value have ranks %d, %d, %d; they need the same, at least 3", rank, k->rank,
                   v->rank);
    *out = (mil_sdpa){
        .batch = 1, .l = q->dim[rank - 2], .s = k->dim[rank - 2], .e = q->dim[rank - 1], .v = v->dim[rank - 1]};
    mil_type batch = mil_type_tensor(q->dtype, rank - 2, q->dim), other = batch;
    const mil_type *more[2] = {k, v};
    for (int i = 0; i < 2; i++) {
        int bad = 0;
        memcpy(other.dim, more[i]->dim, (size_t)(rank - 2) * sizeof *other.dim);
        if (!mil_broadcast(&batch, &other, &batch, &bad))
            return BAD("batch dimension %d of query, key and value is %lld, %lld, %lld; sizes must be equal or 1", bad,
                       (long long)q->dim[bad], (long long)k->dim[bad], (long long)v->dim[bad]);
    }
    out->batch = mil_type_count(&batch);
    if (k->dim[rank - 1] != out->e)
        return BAD("query has %lld features, but key has %lld", (long long)out->e, (long long)k->dim[rank - 1]);
    if (v->dim[rank - 2] != out->s)
        return BAD("key has %lld positions, but value has %lld", (long long)out->s, (long long)v->dim[rank - 2]);
    out->scores = *q;
    memcpy(out->scores.dim, batch.dim, (size_t)(rank - 2) * sizeof *batch.dim);
    out->scores.dim[rank - 1] = out->s;
    if (!mask) return PROPANE_OK;
    if (mask->dtype != MIL_bool && mask->dtype != q->dtype)
        return BAD("attn_mask is %s; it must be bool or %s, like query", mil_dtype_get(mask->dtype)->name,
                   mil_dtype_get(q->dtype)->name);
    mil_type joined;
    int bad = 0;
    if (!mil_broadcast(&out->scores, mask, &joined, &bad) || !mil_shape_equal(&joined, &out->scores))
        return BAD("attn_mask %s cannot be broadcast to the scores %s", mil_shape_print(a, mask),
                   mil_shape_print(b, &out->scores));
    return PROPANE_OK;
}
