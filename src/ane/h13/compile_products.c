/* SPDX-License-Identifier: MIT
 * Compiles matrix products, convolutions, reductions and normalisations: brings shapes to the forms of
 * ane/h13/lower_parts.h, splits batches of matrices, and absorbs operations into a product's task.
 */
#include <stdio.h>
#include <string.h>

#include "ane/h13/compile_parts.h"
#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"

/* ---- operations that a product absorbs --------------------------------------------------------------------------- */

/* Returns the elements of a constant with one number per output along `axis`: 2 for a row vector, 0 for channels.
 * Returns NULL for any other operand. */
static const uint16_t *compile_bias(compile *c, const mil_value *k, int64_t outputs, int axis) {
    int64_t d[3];
    if (!k->constant || !compile_chw(&k->type, d) || d[axis] != outputs || d[0] * d[1] * d[2] != outputs) return NULL;
    return compile_halves(c, k->constant);
}

/* Records for the report why the next operation was not absorbed. */
static void compile_distinguish(compile *c, const mil_value *v, const compile_post *out) {
    const mil_op *op = compile_only_user(c, v);
    if (!op && c->users[v->id] < 2)
        snprintf(c->apart, sizeof c->apart, "'%.60s' is a result", v->name);
    else if (!op)
        snprintf(c->apart, sizeof c->apart, "'%.60s' is read %d times", v->name, c->users[v->id]);
    else if (out->relu || out->table)
        snprintf(c->apart, sizeof c->apart, "%s '%.60s' is not merged: a function comes before it", op->info->name,
                 op->results[0]->name);
    else
        snprintf(c->apart, sizeof c->apart,
                 "%s '%.60s' is not merged: after a matrix product come a bias per output, a scalar factor, then ReLU "
                 "or a table",
                 op->info->name, op->results[0]->name);
}

static propane_status compile_take(compile *c, const mil_value *v, int64_t outputs, int axis, compile_post *out,
                                   propane_error *err) {
    const uint16_t *given = out->bias;
    *out = (compile_post){.bias = given, .bias_of = out->bias_of, .scale = 0x3c00, .result = v};
    for (const mil_op *op; !out->relu && !out->table && (op = compile_only_user(c, out->result));) {
        double scale;
        mil_opcode code = op->info->code;
        if (code == MIL_OP_add || code == MIL_OP_mul) {
            mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y"), *other = x == out->result ? y : x;
            if (code == MIL_OP_mul && out->scale == 0x3c00 && compile_scalar(other, &scale))
                out->scale = fp16_from_f64(scale);
            else if (code == MIL_OP_add && !out->bias && out->scale == 0x3c00 && other->constant &&
                     mil_type_equal(&op->results[0]->type, &v->type) &&
                     (out->bias = compile_bias(c, other, outputs, axis)))
                out->bias_of = other;
            else
                break;
        } else {
            bool relu = false;
            if (out->scale != 0x3c00 || !compile_activation(op, &out->made, &relu)) break;
            if (!relu && outputs < 0) break; /* a computed kernel has no room for a table */
            if (!relu && (out->made.bias || out->made.scale != 0x3c00)) break; /* such a table needs the words itself */
            out->relu = relu;
            if (!relu) out->table = &out->made;
        }
        c->taken[op->results[0]->id] = true;
        out->result = op->results[0];
    }
    compile_distinguish(c, out->result, out);
    return PROPANE_OK;
}

/* Returns the origin of the elements of constant v. The name is NULL if they are never overwritten. */
static lower_origin compile_origin(const compile *c, const mil_value *v, int64_t row, int64_t column) {
    return v ? (lower_origin){compile_patched(c, v), mil_type_count(&v->type), 0, row, column} : (lower_origin){0};
}

/* ---- convolution ------------------------------------------------------------------------------------------------------------------ */

propane_status compile_conv(compile *c, const mil_op *op, propane_error *err) {
    mil_conv k;
    emit_tensor x, y;
    compile_post post = {0};
    mil_value *weight = mil_in(op, "weight"), *bias = mil_in(op, "bias");
    PROPANE_TRY(mil_conv_read(op, &k, err));
    if (k.spatial > 2 || !weight->constant || (bias && !bias->constant))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "kernels and biases must be constants, with at most two spatial dimensions");
    int last = k.spatial - 1;
    for (int d = 0; d < k.spatial; d++)
        if (k.dilation[d] != 1 || k.stride[d] != k.stride[0])
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "dilation %lld and strides %lld, %lld",
                                (long long)k.dilation[d], (long long)k.stride[0], (long long)k.stride[last]);
    if (bias && !(post.bias = compile_halves(c, bias->constant))) return propane_fail_memory(err, (size_t)k.c_out * 2);
    post.bias_of = bias;
    PROPANE_TRY(compile_take(c, op->results[0], k.c_out, 0, &post, err));
    PROPANE_TRY(compile_tensor(c, op, mil_in(op, "x"), &x, err));
    PROPANE_TRY(compile_result(c, op, post.result, &y, err));
    if (k.spatial == 1 && k.n != 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a batch of %lld", (long long)k.n);
    if (k.spatial == 1) { /* [1, C, W]: the canonical form has the channels as rows */
        x.c = x.h, x.h = 1, x.plane = x.row, x.row = x.total;
        y.c = y.h, y.h = 1, y.plane = y.row, y.row = y.total;
    }
    lower_conv l = {.outputs = k.c_out,
                    .groups = k.groups,
                    .kh = k.spatial == 2 ? k.kernel[0] : 1,
                    .kw = k.kernel[last],
                    .stride = k.stride[0],
                    .pad_h = k.spatial == 2 ? k.before[0] : 0,
                    .pad_w = k.before[last],
                    .bias = post.bias,
                    .table = post.table,
                    .relu = post.relu,
                    .scale = post.scale,
                    .weight_from = compile_origin(c, weight, mil_type_count(&weight->type) / k.c_out, 1),
                    .bias_from = compile_origin(c, post.bias_of, 1, 0)};
    if (!(l.weight = compile_halves(c, weight->constant))) return propane_fail_memory(err, sizeof l);
    for (int64_t i = 0; i < k.n; i++) {
        emit_tensor part = x, to = y;
        part.c = k.c_in, to.c = k.c_out;
        part.base += i * k.c_in * x.plane;
        to.base += i * k.c_out * y.plane;
        PROPANE_TRY(lower_convolution(&c->e, &l, &part, &to, err));
    }
    return PROPANE_OK;
}

/* ---- matrix products ------------------------------------------------------------------------------------------------------------------ */

/* Returns a constant second operand as [n, k]. */
static const uint16_t *compile_weight(compile *c, const mil_const *k, int64_t n, int64_t inner, bool transposed) {
    const uint16_t *given = compile_halves(c, k);
    if (!given || transposed) return given;
    uint16_t *out = ARENA_ARRAY(c->object->arena, n * inner, uint16_t);
    for (int64_t i = 0; out && i < n; i++)
        for (int64_t j = 0; j < inner; j++) out[i * inner + j] = given[j * n + i];
    return out;
}

/* Returns matrix `i` of a tensor [batch, rows, columns]; a single matrix serves every i. */
static emit_tensor compile_matrix(const emit_tensor *x, int64_t i) {
    emit_tensor m = *x;
    if (x->c > 1) m.base += i * x->plane;
    m.c = 1;
    m.total = x->row * x->h;
    m.plane = m.total;
    return m;
}

/* Returns whether both operands have the same batches, or one of them is a single matrix. */
static bool compile_pair(const mil_type *a, const mil_type *b) {
    int64_t one_a = 1, one_b = 1;
    for (int d = 0; d < a->rank - 2; d++) one_a *= a->dim[d];
    for (int d = 0; d < b->rank - 2; d++) one_b *= b->dim[d];
    if (one_a == 1 || one_b == 1) return true;
    for (int d = 0; d < a->rank - 2; d++)
        if (a->rank != b->rank || a->dim[d] != b->dim[d]) return false;
    return a->rank == b->rank;
}

/* Returns whether the operation is a product whose second operand and bias are constant, and whose first operand is not
 * transposed. */
static bool compile_constant_product(const mil_op *op) {
    bool transposed = false;
    propane_error err;
    const mil_value *w = mil_in(op, op->info->code == MIL_OP_linear ? "weight" : "y"), *bias = NULL;
    if (op->info->code == MIL_OP_linear)
        bias = mil_in(op, "bias");
    else if (op->info->code != MIL_OP_matmul || mil_attr_bool(op, "transpose_x", &transposed, &err) || transposed)
        return false;
    return w && w->constant && w->type.rank == 2 && (!bias || bias->constant);
}

/* Returns the product with a constant that is the only reader of `between`, so that it can be joined with the product
 * before it. Returns NULL if there is none. */
static const mil_op *compile_second(const compile *c, const mil_value *between) {
    const mil_op *op = compile_only_user(c, between);
    if (!op || (op->info->code != MIL_OP_linear && op->info->code != MIL_OP_matmul)) return NULL;
    return compile_constant_product(op) && mil_in(op, "x") == between ? op : NULL;
}

bool compile_is_second(const compile *c, const mil_op *op) {
    bool product = op->info->code == MIL_OP_linear || op->info->code == MIL_OP_matmul;
    return product && compile_second(c, mil_in(op, "x")) == op;
}

static propane_status compile_read_second(compile *c, const mil_op *op, int64_t rows, lower_product *q,
                                          compile_post *post, propane_error *err) {
    bool linear = op->info->code == MIL_OP_linear, transposed = linear;
    mil_value *w = mil_in(op, linear ? "weight" : "y"), *bias = linear ? mil_in(op, "bias") : NULL;
    if (!linear) PROPANE_TRY(mil_attr_bool(op, "transpose_y", &transposed, err));
    *post = (compile_post){0};
    *q = (lower_product){.m = rows, .n = w->type.dim[transposed ? 0 : 1], .k = w->type.dim[transposed ? 1 : 0]};
    if (bias && !(post->bias = compile_halves(c, bias->constant))) return propane_fail_memory(err, (size_t)q->n * 2);
    post->bias_of = bias;
    PROPANE_TRY(compile_take(c, op->results[0], q->n, 2, post, err));
    q->bias = post->bias, q->relu = post->relu, q->scale = post->scale, q->table = post->table;
    q->weight = compile_weight(c, w->constant, q->n, q->k, transposed);
    q->weight_from = compile_origin(c, w, transposed ? q->k : 1, transposed ? 1 : q->n);
    q->bias_from = compile_origin(c, post->bias_of, 1, 0);
    c->taken[op->results[0]->id] = true;
    return q->weight ? PROPANE_OK : propane_fail_memory(err, (size_t)(q->n * q->k) * 2);
}

/* Compiles a product with a constant, and the product that reads its result, as three tasks. Sets *done to false if
 * there is no second product, or both do not fit on chip. */
static propane_status compile_two(compile *c, const mil_op *op, const lower_product *p, const mil_value *between,
                                  const emit_tensor *a, bool *done, propane_error *err) {
    const mil_op *next = p->weight && !p->transpose_x ? compile_second(c, between) : NULL;
    lower_product q = {.m = p->m, .k = p->n, .weight = p->weight}; /* only to find out whether both products fit */
    emit_tensor y;
    compile_post post;
    *done = next && lower_matmul_two_fit(p, &q);
    if (!*done) return PROPANE_OK;
    PROPANE_TRY(compile_read_second(c, next, p->m, &q, &post, err));
    PROPANE_TRY(compile_result(c, op, post.result, &y, err));
    y.h *= y.c, y.c = 1, y.plane = y.total;
    return lower_matmul_two(&c->e, p, &q, a, &y, err);
}

/* Makes the constant first operand x the kernel of *p. */
static propane_status compile_kernel(compile *c, const mil_value *x, lower_product *p, propane_error *err) {
    p->kernel = compile_halves(c, x->constant);
    p->kernel_from = compile_origin(c, x, p->transpose_x ? 1 : p->k, p->transpose_x ? p->m : 1);
    return p->kernel ? PROPANE_OK : propane_fail_memory(err, (size_t)(p->m * p->k) * 2);
}

propane_status compile_matmul(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x"), *w = mil_in(op, "y");
    compile_post post = {0};
    mil_matmul m;
    lower_product p = {0};
    emit_tensor a = {0}, b = {0}, y;
    compile_attention attention;
    if (compile_attention_of(c, op, &attention)) return compile_attend(c, &attention, err);
    PROPANE_TRY(mil_matmul_read(op, &m, err));
    if (!compile_plain(&op->results[0]->type) && !compile_pair(&x->type, &w->type))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "one of several batch dimensions is repeated");
    PROPANE_TRY(mil_attr_bool(op, "transpose_x", &p.transpose_x, err));
    PROPANE_TRY(mil_attr_bool(op, "transpose_y", &p.transpose_y, err));
    if (x->type.rank < 2 || w->type.rank < 2)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "a matrix product with a vector is not supported; give the vector a second dimension");
    p.m = m.m, p.n = m.n, p.k = m.k;
    bool weight = w->constant && w->type.rank == 2;
    PROPANE_TRY(compile_take(c, op->results[0], weight ? p.n : -1, 2, &post, err));
    if (weight && !(p.weight = compile_weight(c, w->constant, p.n, p.k, p.transpose_y)))
        return propane_fail_memory(err, (size_t)(p.n * p.k) * 2);
    p.bias = post.bias, p.relu = post.relu, p.scale = post.scale, p.table = weight ? post.table : NULL;
    p.weight_from = compile_origin(c, weight ? w : NULL, p.transpose_y ? p.k : 1, p.transpose_y ? 1 : p.n);
    p.bias_from = compile_origin(c, post.bias_of, 1, 0);
    const mil_value *fixed = weight ? NULL : compile_behind(x);
    bool kernel = fixed && mil_type_count(&x->type) == p.m * p.k;
    if (kernel)
        PROPANE_TRY(compile_kernel(c, fixed, &p, err));
    else
        PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    if (!weight) PROPANE_TRY(compile_tensor(c, op, w, &b, err));
    PROPANE_TRY(compile_result(c, op, post.result, &y, err));
    bool done = false;
    if (!weight) return lower_matmul(&c->e, &p, &a, &b, &y, err);
    if (y.c == 1) PROPANE_TRY(compile_two(c, op, &p, post.result, &a, &done, err));
    for (int64_t i = 0; i < y.c && !done; i++) {
        emit_tensor ai = compile_matrix(&a, i), yi = compile_matrix(&y, i);
        PROPANE_TRY(lower_matmul(&c->e, &p, &ai, &b, &yi, err));
    }
    return PROPANE_OK;
}

propane_status compile_linear(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x"), *w = mil_in(op, "weight"), *bias = mil_in(op, "bias");
    compile_post post = {0};
    emit_tensor a, b = {0}, y;
    lower_product p = {.n = w->type.dim[0], .k = w->type.dim[1], .transpose_y = true};
    if (!w->constant || (bias && !bias->constant))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "weights must be constants; otherwise use matmul");
    if (bias && !(post.bias = compile_halves(c, bias->constant))) return propane_fail_memory(err, (size_t)p.n * 2);
    post.bias_of = bias;
    PROPANE_TRY(compile_take(c, op->results[0], p.n, 2, &post, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, post.result, &y, err));
    p.m = a.c * a.h;
    p.bias = post.bias, p.relu = post.relu, p.scale = post.scale, p.table = post.table;
    p.weight_from = compile_origin(c, w, p.k, 1);
    p.bias_from = compile_origin(c, post.bias_of, 1, 0);
    if (!(p.weight = compile_halves(c, w->constant))) return propane_fail_memory(err, (size_t)(p.n * p.k) * 2);
    a.h *= a.c, y.h *= y.c, a.c = y.c = 1, a.plane = a.total, y.plane = y.total;
    bool done = false;
    PROPANE_TRY(compile_two(c, op, &p, post.result, &a, &done, err));
    return done ? PROPANE_OK : lower_matmul(&c->e, &p, &a, &b, &y, err);
}

/* ---- reductions ------------------------------------------------------------------------------------------------------------------------- */

propane_status compile_reduce(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    bool member[MIL_MAX_RANK];
    emit_tensor a, y;
    int axes = 0, rank = x->type.rank;
    PROPANE_TRY(mil_attr_axes(op, "axes", rank, member, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    int64_t outer = 1;
    for (int d = 0; d < rank; d++) {
        if (member[d] && d - (rank - 3) >= 0) axes |= 1 << (d - (rank - 3));
        if (d >= rank - 3) continue;
        if (member[d] && x->type.dim[d] != 1)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "reducing over the batch is not supported");
        outer *= x->type.dim[d];
    }
    if (axes & 1)
        a.c /= outer; /* one batch after the other */
    else
        outer = 1;
    /* the result as [c, h, w] with the reduced dimensions kept */
    int64_t dc = axes & 1 ? 1 : a.c, dh = axes & 2 ? 1 : a.h, dw = axes & 4 ? 1 : a.w;
    if (outer > 1 && (y.c != outer * dc || y.h != dh || y.w != dw))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "batches: keep the dimensions");
    y.c /= outer;
    if (y.c != dc || y.h != dh || y.w != dw) {
        if (dc * dh * dw == y.w) { /* one row */
            y.c = dc, y.h = dh;
            y.plane = y.row = 2 * dw;
            if (dw == 1 && dh == 1) y.plane = 2;
            if (dw == 1 && dh > 1) y.row = 2, y.plane = 2 * dh;
            y.w = dw;
        } else
            y.row = dw == y.w ? y.row : 0, y.plane = y.row * dh, y.c = dc, y.h = dh;
        if (!y.row)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "the result's shape is not supported; keep the dimensions");
    }
    mil_opcode code = op->info->code;
    lower_reduction kind = code == MIL_OP_reduce_sum    ? LOWER_SUM
                           : code == MIL_OP_reduce_mean ? LOWER_MEAN
                                                        : LOWER_MAXIMUM;
    for (int64_t i = 0; i < outer; i++) {
        emit_tensor part = a, to = y;
        part.base += i * a.c * a.plane;
        to.base += i * y.c * y.plane;
        PROPANE_TRY(lower_reduce(&c->e, kind, axes, &part, &to, err));
    }
    return PROPANE_OK;
}

propane_status compile_softmax(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    emit_tensor a, y;
    int axis;
    PROPANE_TRY(mil_attr_axis(op, "axis", x->type.rank, &axis, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    if (axis != x->type.rank - 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "softmax over axis %d is not supported; transpose so that this axis is the last", axis);
    return lower_softmax(&c->e, &a, &y, err);
}

propane_status compile_layer_norm(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    bool member[MIL_MAX_RANK];
    emit_tensor a, y;
    double epsilon;
    if (mil_in(op, "gamma") || mil_in(op, "beta"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "scale and offset are not supported: multiply and add them afterwards");
    PROPANE_TRY(mil_attr_float(op, "epsilon", &epsilon, err));
    PROPANE_TRY(mil_attr_axes(op, "axes", x->type.rank, member, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    int axes = 0;
    for (int d = 0; d < x->type.rank; d++) {
        if (member[d] && d - (x->type.rank - 3) >= 0) axes |= 1 << (d - (x->type.rank - 3));
        if (!member[d] && x->type.dim[d] != 1)
            return propane_fail(
                err, PROPANE_ERR_UNSUPPORTED,
                "layer_norm must cover every dimension that is not 1; dimension %d of %lld is not among its axes", d,
                (long long)x->type.dim[d]);
    }
    return lower_layer_norm(&c->e, axes, epsilon, &a, &y, err);
}
