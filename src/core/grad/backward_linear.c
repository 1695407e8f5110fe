/* SPDX-License-Identifier: MIT
 * Owns the gradients of operations that multiply matrices: matmul, linear, conv, einsum, attention. A weight gradient
 * is one matmul of two taps; batch dimensions that the operand lacks are summed afterwards. A convolution's input
 * gradient is a convolution with the flipped and transposed weight. Its weight gradient is one matmul with the columns
 * of x, or one per kernel position if the columns would be too large.
 *
 * Refuses weight gradients of convolutions with more than 256 kernel positions unless the windows tile x, and
 * einsums of more than 8 values.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

/* Reshapes a vector to a matrix: [K] to [1,K] for x, to [K,1] for y. */
static mil_value *backward_linear_as_matrix(grad_context *g, const mil_op *op, const char *param, bool column) {
    const mil_type *type = &mil_in(op, param)->type;
    mil_value *v = grad_arg(g, op, param);
    if (type->rank != 1) return v;
    return grad_reshape(g, v, 2, column ? (int64_t[]){type->dim[0], 1} : (int64_t[]){1, type->dim[0]});
}

static mil_value *backward_linear_product(grad_context *g, mil_value *x, mil_value *y, bool tx, bool ty) {
    return mil_build_matmul(grad_build(g), x, y, tx, ty);
}

/* For C = A B with A = x or x' and B = y or y', the gradients are dA = dC B' and dB = A' dC, transposed as x and y
 * are. */
GRADIENT(matmul) {
    mil_matmul m;
    bool tx, ty;
    PROPANE_TRY(mil_matmul_read(op, &m, err));
    PROPANE_TRY(mil_attr_bool(op, "transpose_x", &tx, err));
    PROPANE_TRY(mil_attr_bool(op, "transpose_y", &ty, err));
    int64_t dim[MIL_MAX_RANK + 2];
    memcpy(dim, m.batch, sizeof m.batch);
    dim[m.batch_rank] = m.m;
    dim[m.batch_rank + 1] = m.n;
    mil_value *dz = grad_of(g, op, 0), *x = backward_linear_as_matrix(g, op, "x", false),
              *y = backward_linear_as_matrix(g, op, "y", true);
    const mil_value *vx = mil_in(op, "x"), *vy = mil_in(op, "y");
    if (vx->type.rank == 1 || vy->type.rank == 1) dz = grad_reshape(g, dz, m.batch_rank + 2, dim);
    if (grad_wanted(g, vx))
        grad_add(g, vx,
                 tx ? backward_linear_product(g, y, dz, ty, true) : backward_linear_product(g, dz, y, false, !ty));
    if (!grad_wanted(g, vy)) return PROPANE_OK;
    mil_value *dy = ty ? backward_linear_product(g, dz, x, true, tx) : backward_linear_product(g, x, dz, !tx, false);
    if (vy->type.rank == 1) {
        dim[m.batch_rank] = m.k; /* [.., K, 1] as [.., K] */
        dy = grad_reshape(g, dy, m.batch_rank + 1, dim);
    }
    grad_add(g, vy, dy);
    return PROPANE_OK;
}

/* The shapes are x [.., I], weight [O,I], bias [O]. */
GRADIENT(linear) {
    const mil_type *x = &mil_in(op, "x")->type, *w = &mil_in(op, "weight")->type;
    mil_value *dz = grad_of(g, op, 0);
    if (grad_wants(g, op, "x"))
        grad_give(g, op, "x", backward_linear_product(g, dz, grad_arg(g, op, "weight"), false, false));
    if (grad_wants(g, op, "bias")) grad_give(g, op, "bias", dz);
    if (grad_wants(g, op, "weight")) {
        int64_t rows = grad_product(x->dim, 0, x->rank - 1);
        mil_value *flat_dz = grad_reshape(g, dz, 2, (int64_t[]){rows, w->dim[0]});
        mil_value *flat_x = grad_reshape(g, grad_arg(g, op, "x"), 2, (int64_t[]){rows, w->dim[1]});
        grad_give(g, op, "weight", backward_linear_product(g, flat_dz, flat_x, true, false));
    }
    return PROPANE_OK;
}

/* ---- conv -------------------------------------------------------------------------------------------------------- */

enum { MAX_PLACES = 256, MAX_COLUMNS = 1 << 27 };

static mil_value *backward_linear_build_conv(grad_context *g, mil_value *x, mil_value *weight, const mil_conv *c,
                                             const int64_t *pad) {
    mil_builder *b = grad_build(g);
    int64_t ones[3] = {1, 1, 1};
    mil_value *strides = mil_build_ints(b, ones, c->spatial), *dilations = mil_build_ints(b, c->dilation, c->spatial);
    mil_value *amount = mil_build_ints(b, pad, 2 * c->spatial), *groups = mil_build_int(b, (int32_t)c->groups);
    bool any = false;
    for (int i = 0; i < 2 * c->spatial; i++) any |= pad[i] != 0;
    mil_value *type = mil_build_text(b, any ? "custom" : "valid");
    mil_op *op = mil_build_op(b, MIL_OP_conv, NULL,
                              (mil_argument[]){{"x", 1, &x},
                                               {"weight", 1, &weight},
                                               {"strides", 1, &strides},
                                               {"pad_type", 1, &type},
                                               {"pad", 1, &amount},
                                               {"dilations", 1, &dilations},
                                               {"groups", 1, &groups}},
                              7);
    return op ? op->results[0] : NULL;
}

/* Reorders [O, I/g, k..] to [I, O/g, k..], with the kernel reversed. */
static mil_value *backward_linear_turned_weight(grad_context *g, const mil_conv *c, mil_value *weight) {
    int64_t dim[MIL_MAX_RANK], perm[MIL_MAX_RANK], axes[3];
    int64_t out = c->c_out / c->groups, in = c->c_in / c->groups;
    int count = 0;
    for (int i = 0; i < c->spatial; i++) {
        dim[3 + i] = c->kernel[i];
        perm[3 + i] = 3 + i;
        if (c->kernel[i] > 1) axes[count++] = 2 + i;
    }
    if (c->groups == 1) {
        for (int i = 0; i < c->spatial; i++) perm[2 + i] = 2 + i;
        perm[0] = 1, perm[1] = 0;
        weight = mil_build_transpose(grad_build(g), weight, perm, 2 + c->spatial);
    } else {
        dim[0] = c->groups, dim[1] = out, dim[2] = in;
        perm[0] = 0, perm[1] = 2, perm[2] = 1;
        weight = mil_build_transpose(grad_build(g), grad_reshape(g, weight, 3 + c->spatial, dim), perm, 3 + c->spatial);
        dim[1] = c->c_in, dim[2] = out;
        weight = grad_reshape(g, weight, 2 + c->spatial, dim + 1);
    }
    return grad_reverse(g, weight, axes, count);
}

/* Computes the full correlation of dz, spread by the strides, with the reversed weight, cut to the extent of x. */
static mil_value *backward_linear_conv_dx(grad_context *g, const mil_conv *c, mil_value *dz, mil_value *weight) {
    int rank = 2 + c->spatial;
    int64_t dim[MIL_MAX_RANK] = {c->n, c->c_out}, before[MIL_MAX_RANK] = {0}, after[MIL_MAX_RANK] = {0};
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK] = {c->n, c->c_out}, pad[6] = {0};
    bool cut = false;
    for (int i = 0; i < c->spatial; i++) dim[2 + i] = c->out[i];
    for (int i = 0; i < c->spatial; i++) dz = grad_spread(g, dz, rank, dim, 2 + i, c->stride[i]);
    for (int i = 0; i < c->spatial; i++) {
        int64_t reach = (c->kernel[i] - 1) * c->dilation[i] + 1;
        int64_t unused = c->in[i] + c->before[i] + c->after[i] - (dim[2 + i] - 1) - reach;
        pad[2 * i] = reach - 1 - c->before[i];
        pad[2 * i + 1] = reach - 1 + unused - c->after[i];
        cut |= pad[2 * i] < 0 || pad[2 * i + 1] < 0;
    }
    if (!cut) return backward_linear_build_conv(g, dz, backward_linear_turned_weight(g, c, weight), c, pad);
    for (int i = 0; i < c->spatial; i++) { /* negative padding cuts off rows that saw only padding */
        int64_t low = pad[2 * i], high = pad[2 * i + 1];
        before[2 + i] = low > 0 ? low : 0;
        after[2 + i] = high > 0 ? high : 0;
        begin[2 + i] = low < 0 ? -low : 0;
        end[2 + i] = dim[2 + i] + before[2 + i] + after[2 + i] + (high < 0 ? high : 0);
    }
    dz = grad_slice_step(g, grad_pad(g, dz, rank, before, after), rank, begin, end, NULL);
    return backward_linear_build_conv(g, dz, backward_linear_turned_weight(g, c, weight), c, (int64_t[6]){0});
}

/* Handles a kernel with a single position: multiplies dz [N,g,O/g,P] by the elements of x under it, [N,g,I/g,P]. */
static void backward_linear_point_dw(grad_context *g, const mil_op *op, const mil_conv *c, mil_value *x,
                                     mil_value *dz) {
    const int rank = 2 + c->spatial;
    const int64_t points = grad_product(c->out, 0, c->spatial);
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK] = {c->n, c->c_in}, stride[MIL_MAX_RANK] = {1, 1};
    for (int i = 0; i < c->spatial; i++) end[2 + i] = (c->out[i] - 1) * c->stride[i] + 1, stride[2 + i] = c->stride[i];
    dz = grad_reshape(g, dz, 4, (int64_t[]){c->n, c->groups, c->c_out / c->groups, points});
    mil_value *under = grad_slice_step(g, x, rank, begin, end, stride);
    under = grad_reshape(g, under, 4, (int64_t[]){c->n, c->groups, c->c_in / c->groups, points});
    mil_value *all = backward_linear_product(g, dz, under, false, true); /* [N,g,O/g,I/g] */
    if (c->n > 1) all = grad_sum(g, all, (int64_t[]){0}, 1);
    grad_give(g, op, "weight", grad_reshape_as(g, all, &mil_in(op, "weight")->type));
}

/* Reorders [N,C,..] to [C,N,..]. */
static mil_value *backward_linear_channels_first(grad_context *g, mil_value *v, int64_t n, int64_t channels,
                                                 int spatial, const int64_t *space) {
    int64_t perm[MIL_MAX_RANK] = {1, 0}, dim[MIL_MAX_RANK] = {channels, n};
    for (int i = 0; i < spatial; i++) perm[2 + i] = 2 + i, dim[2 + i] = space[i];
    if (n == 1) return grad_reshape(g, v, 2 + spatial, dim);
    return mil_build_transpose(grad_build(g), v, perm, 2 + spatial);
}

static bool backward_linear_in_patches(const mil_conv *c) {
    bool yes = true;
    for (int i = 0; i < c->spatial; i++)
        yes &= c->stride[i] == c->kernel[i] && c->dilation[i] == 1 && !c->before[i] && !c->after[i];
    return yes;
}

/* Returns the columns for windows that tile x: x itself in another order, [I,k..,N,out..]. */
static mil_value *backward_linear_patch_columns(grad_context *g, const mil_conv *c, mil_value *x) {
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK] = {c->n, c->c_in}, dim[MIL_MAX_RANK] = {c->n, c->c_in};
    int64_t perm[MIL_MAX_RANK] = {1};
    const int n = c->spatial;
    perm[1 + n] = 0;
    for (int i = 0; i < n; i++) {
        end[2 + i] = c->out[i] * c->kernel[i];
        dim[2 + 2 * i] = c->out[i], dim[3 + 2 * i] = c->kernel[i];
        perm[1 + i] = 3 + 2 * i, perm[2 + n + i] = 2 + 2 * i;
    }
    x = grad_reshape(g, grad_slice_step(g, x, 2 + n, begin, end, NULL), 2 + 2 * n, dim);
    return mil_build_transpose(grad_build(g), x, perm, 2 + 2 * n);
}

/* Returns the elements of x [I,N,..] under kernel position p, as [g,I/g,N*P]. */
static mil_value *backward_linear_place_rows(grad_context *g, const mil_conv *c, mil_value *x, int64_t p) {
    int64_t begin[MIL_MAX_RANK] = {0}, end[MIL_MAX_RANK] = {c->c_in, c->n}, stride[MIL_MAX_RANK] = {1, 1};
    for (int i = c->spatial - 1; i >= 0; i--) {
        begin[2 + i] = p % c->kernel[i] * c->dilation[i];
        end[2 + i] = begin[2 + i] + (c->out[i] - 1) * c->stride[i] + 1;
        stride[2 + i] = c->stride[i];
        p /= c->kernel[i];
    }
    const int64_t points = grad_product(c->out, 0, c->spatial);
    x = grad_slice_step(g, x, 2 + c->spatial, begin, end, stride);
    return grad_reshape(g, x, 3, (int64_t[]){c->groups, c->c_in / c->groups, c->n * points});
}

/* Multiplies dz [g,O/g,N*P] by the columns [g,I/g*places,N*P]: one matrix product whose sums run over samples and
 * points. If the columns would be too large, multiplies position by position. */
static propane_status backward_linear_conv_dw(grad_context *g, const mil_op *op, const mil_conv *c, mil_value *dz,
                                              propane_error *err) {
    const int64_t places = grad_product(c->kernel, 0, c->spatial), points = grad_product(c->out, 0, c->spatial);
    const int64_t in = c->c_in / c->groups, length = c->n * points;
    int64_t before[MIL_MAX_RANK] = {0}, after[MIL_MAX_RANK] = {0}, space[3];
    mil_value *part[MAX_PLACES], *columns;
    for (int i = 0; i < c->spatial; i++) {
        before[2 + i] = c->before[i], after[2 + i] = c->after[i];
        space[i] = c->in[i] + c->before[i] + c->after[i];
    }
    mil_value *x = grad_pad(g, grad_arg(g, op, "x"), 2 + c->spatial, before, after);
    if (places == 1) {
        backward_linear_point_dw(g, op, c, x, dz);
        return PROPANE_OK;
    }
    const bool patches = backward_linear_in_patches(c);
    if (!patches && places > MAX_PLACES)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                           "the kernel has %lld elements; weight gradients support at most %d", (long long)places,
                           MAX_PLACES);
    dz = backward_linear_channels_first(g, dz, c->n, c->c_out, c->spatial, c->out);
    dz = grad_reshape(g, dz, 3, (int64_t[]){c->groups, c->c_out / c->groups, length});
    if (patches) {
        columns = backward_linear_patch_columns(g, c, x);
    } else {
        const bool whole = places * c->c_in * length <= MAX_COLUMNS;
        x = backward_linear_channels_first(g, x, c->n, c->c_in, c->spatial, space);
        for (int64_t p = 0; p < places; p++) {
            part[p] = backward_linear_place_rows(g, c, x, p);
            if (!whole) part[p] = backward_linear_product(g, dz, part[p], false, true); /* [g,O/g,I/g] */
        }
        columns = grad_join(g, MIL_OP_stack, part, (int)places, whole ? 2 : 3);
        if (!whole) {
            grad_give(g, op, "weight", grad_reshape_as(g, columns, &mil_in(op, "weight")->type));
            return PROPANE_OK;
        }
    }
    columns = grad_reshape(g, columns, 3, (int64_t[]){c->groups, in * places, length});
    grad_give(g, op, "weight",
              grad_reshape_as(g, backward_linear_product(g, dz, columns, false, true), &mil_in(op, "weight")->type));
    return PROPANE_OK;
}

/* The shapes are x [N,I,..], weight [O,I/g,k..]. For a 1x1 kernel, the gradient of x is a matmul. If the weight is a
 * constant, it is a conv instead, whose weight can be baked. */
GRADIENT(conv) {
    mil_conv c;
    PROPANE_TRY(mil_conv_read(op, &c, err));
    mil_value *dz = grad_of(g, op, 0);
    const mil_value *weight = mil_in(op, "weight");
    if (grad_wants(g, op, "bias")) {
        int64_t axes[MIL_MAX_RANK] = {0};
        for (int i = 0; i < c.spatial; i++) axes[1 + i] = 2 + i;
        grad_give(g, op, "bias", grad_reshape(g, grad_sum(g, dz, axes, 1 + c.spatial), 1, &c.c_out));
    }
    if (grad_wants(g, op, "weight")) PROPANE_TRY(backward_linear_conv_dw(g, op, &c, dz, err));
    if (!grad_wants(g, op, "x")) return PROPANE_OK;
    bool pointwise = true;
    for (int i = 0; i < c.spatial; i++)
        pointwise &= c.kernel[i] == 1 && c.stride[i] == 1 && c.before[i] == 0 && c.after[i] == 0;
    mil_value *w = grad_arg(g, op, "weight");
    if (!pointwise || weight->constant) {
        grad_give(g, op, "x", backward_linear_conv_dx(g, &c, dz, w));
        return PROPANE_OK;
    }
    int64_t points = grad_product(c.out, 0, c.spatial), out = c.c_out / c.groups;
    w = grad_reshape(g, w, 3, (int64_t[]){c.groups, out, c.c_in / c.groups});
    dz = grad_reshape(g, dz, 4, (int64_t[]){c.n, c.groups, out, points});
    grad_give(g, op, "x", grad_reshape_as(g, backward_linear_product(g, w, dz, true, false), &mil_in(op, "x")->type));
    return PROPANE_OK;
}

/* ---- einsum ------------------------------------------------------------------------------------------------------ */

typedef struct equation {
    char term[MIL_MAX_EINSUM][MIL_MAX_RANK + 1]; /* letters of each operand */
    char result[MIL_MAX_RANK + 1];
    int count;
    mil_value *const *values;
} equation;

static void backward_linear_equation_read(const mil_op *op, const char *text, equation *out) {
    char *at = out->term[0];
    *out = (equation){.count = 1};
    for (const char *c = text; *c; c++) {
        if (*c == ',')
            at = out->term[out->count++];
        else if (*c == '-')
            at = out->result;
        else if (*c != ' ' && *c != '>')
            *at++ = *c;
    }
    mil_in_list(op, "values", &out->values);
}

/* Returns the largest size of `letter` in the result and all operands except `without`, or 0 if the letter does not
 * occur. */
static int64_t backward_linear_letter_size(const mil_op *op, const equation *e, char letter, int without) {
    int64_t size = 0;
    const char *found = strchr(e->result, letter);
    if (found) size = op->results[0]->type.dim[found - e->result];
    for (int k = 0; k < e->count; k++) {
        found = k == without ? NULL : strchr(e->term[k], letter);
        if (found && e->values[k]->type.dim[found - e->term[k]] > size)
            size = e->values[k]->type.dim[found - e->term[k]];
    }
    return size;
}

/* The adjoint of operand k: an einsum of dz, the other operands and, for diagonals, unit matrices. */
typedef struct adjoint_sum {
    char text[2 * (MIL_MAX_EINSUM + 1) * (MIL_MAX_RANK + 2)];
    mil_value *values[MIL_MAX_EINSUM + MIL_MAX_RANK];
    int count;
    size_t used;
} adjoint_sum;

static void backward_linear_sum_term(adjoint_sum *s, mil_value *v, const char *letters) {
    s->values[s->count] = v;
    int n = snprintf(s->text + s->used, sizeof s->text - s->used, "%s%s", s->count++ ? "," : "", letters);
    s->used += (size_t)n;
}

/* Returns a letter that is not yet used, or 0 if there is none. */
static char backward_linear_fresh_letter(const equation *e, const adjoint_sum *s) {
    for (char c = 'a'; c <= 'z'; c++) {
        bool used = strchr(e->result, c) || strchr(s->text, c);
        for (int k = 0; k < e->count; k++) used |= strchr(e->term[k], c) != NULL;
        if (!used) return c;
    }
    return 0;
}

static mil_value *backward_linear_unit_matrix(grad_context *g, mil_dtype dtype, int64_t n) {
    mil_builder *b = grad_build(g);
    double *data = mem_array((size_t)(n * n), sizeof *data);
    if (!data && !b->err.status) propane_fail_memory(&b->err, (size_t)(n * n) * sizeof *data);
    if (!data) return NULL;
    for (int64_t i = 0; i < n; i++) data[i * n + i] = 1;
    mil_type type = mil_type_tensor(dtype, 2, (int64_t[]){n, n});
    mil_value *v = mil_build_const_f64(b, "unit", &type, data);
    mem_free(data);
    return v;
}

/* Gives operand k its adjoint. A letter that occurs only in k makes the adjoint thin, and a dimension along which k is
 * broadcast is summed. The second occurrence in a diagonal gets a fresh letter and a unit matrix. */
static propane_status backward_linear_einsum_operand(grad_context *g, const mil_op *op, const equation *e, int k,
                                                     propane_error *err) {
    const mil_value *v = e->values[k];
    const char *term = e->term[k];
    adjoint_sum sum = {.count = 0};
    char out[MIL_MAX_RANK + 1] = "";
    int64_t dim[MIL_MAX_RANK];
    backward_linear_sum_term(&sum, grad_of(g, op, 0), e->result);
    for (int i = 0; i < e->count; i++)
        if (i != k) backward_linear_sum_term(&sum, grad_value(g, e->values[i]), e->term[i]);
    for (int i = 0, n = 0; i < v->type.rank; i++) {
        char letter = term[i];
        int first = (int)(strchr(term, letter) - term);
        bool diagonal = strchr(term + first + 1, letter) != NULL;
        dim[i] = v->type.dim[i];
        if (i == first) {
            if (!diagonal && dim[i] != backward_linear_letter_size(op, e, letter, k))
                dim[i] = 1;
            else
                out[n++] = letter;
            continue;
        }
        char pair[3] = {letter, backward_linear_fresh_letter(e, &sum), 0};
        if (dim[i] != dim[first] || !pair[1] || sum.count == MIL_MAX_EINSUM)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "no gradient for the diagonal '%c' of operand %d",
                               letter, k);
        backward_linear_sum_term(&sum, backward_linear_unit_matrix(g, v->type.dtype, dim[i]), pair);
        out[n++] = pair[1];
    }
    snprintf(sum.text + sum.used, sizeof sum.text - sum.used, "->%s", out);
    mil_value *how = mil_build_text(grad_build(g), sum.text);
    mil_op *made = mil_build_op(grad_build(g), MIL_OP_einsum, NULL,
                                (mil_argument[]){{"values", sum.count, sum.values}, {"equation", 1, &how}}, 2);
    grad_add(g, v, grad_reshape(g, made ? made->results[0] : NULL, v->type.rank, dim));
    return PROPANE_OK;
}

GRADIENT(einsum) {
    const char *text;
    mil_einsum checked;
    equation e;
    PROPANE_TRY(mil_einsum_read(op, &checked, err)); /* checks that lengths are within bounds */
    PROPANE_TRY(mil_attr_text(op, "equation", &text, err));
    backward_linear_equation_read(op, text, &e);
    for (int k = 0; k < e.count; k++)
        if (grad_wanted(g, e.values[k])) PROPANE_TRY(backward_linear_einsum_operand(g, op, &e, k, err));
    return PROPANE_OK;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* P = softmax(Q K' / sqrt(E) + mask), O = P V. P is recomputed, because it is not a result of the op. */
GRADIENT(sdpa) {
    mil_sdpa a;
    PROPANE_TRY(mil_sdpa_read(op, &a, err));
    mil_builder *b = grad_build(g);
    double scale = 1.0 / sqrt((double)a.e);
    mil_value *q = grad_scale(g, grad_arg(g, op, "query"), scale), *k = grad_arg(g, op, "key"),
              *v = grad_arg(g, op, "value");
    mil_value *mask = grad_arg(g, op, "attn_mask"), *d_o = grad_of(g, op, 0),
              *scores = backward_linear_product(g, q, k, false, true);
    mil_dtype dtype = a.scores.dtype;
    if (mask && mil_in(op, "attn_mask")->type.dtype == MIL_bool)
        scores = grad_select(g, mask, scores, mil_build_scalar(b, dtype, dtype == MIL_fp16 ? -6e4 : -1e30));
    else if (mask)
        scores = grad_plus(g, scores, mask);
    int last = a.scores.rank - 1;
    mil_value *p = mil_build_softmax(b, scores, last);
    if (grad_wants(g, op, "value")) grad_give(g, op, "value", backward_linear_product(g, p, d_o, true, false));
    bool wants_mask = grad_wants(g, op, "attn_mask");
    if (!grad_wants(g, op, "query") && !grad_wants(g, op, "key") && !wants_mask) return PROPANE_OK;
    mil_value *dp = backward_linear_product(g, d_o, v, false, true);
    mil_value *dot = grad_sum(g, grad_mul(g, p, dp), (int64_t[]){last}, 1);
    mil_value *ds = grad_mul(g, p, grad_minus(g, dp, dot));
    if (wants_mask) grad_give(g, op, "attn_mask", ds);
    if (grad_wants(g, op, "query"))
        grad_give(g, op, "query", grad_scale(g, backward_linear_product(g, ds, k, false, false), scale));
    if (grad_wants(g, op, "key")) grad_give(g, op, "key", backward_linear_product(g, ds, q, true, false));
    return PROPANE_OK;
}
