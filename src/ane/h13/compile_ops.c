/* SPDX-License-Identifier: MIT
 * Owns the list of operations that compile, and the compilation of elementwise operations, activations and layout. If
 * the engine lacks the form of an operation, the error names that form.
 */
#include <math.h>
#include <stdlib.h>

#include "ane/h13/compile_parts.h"
#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"

static const struct {
    mil_opcode code;
    compile_op compile;
} compile_list[] = {{MIL_OP_add, compile_binary},
                    {MIL_OP_sub, compile_binary},
                    {MIL_OP_mul, compile_binary},
                    {MIL_OP_maximum, compile_binary},
                    {MIL_OP_minimum, compile_binary},
                    {MIL_OP_real_div, compile_binary},
                    {MIL_OP_square, compile_unary},
                    {MIL_OP_abs, compile_unary},
                    {MIL_OP_relu, compile_unary},
                    {MIL_OP_sigmoid, compile_unary},
                    {MIL_OP_tanh, compile_unary},
                    {MIL_OP_gelu, compile_unary},
                    {MIL_OP_silu, compile_unary},
                    {MIL_OP_exp, compile_unary},
                    {MIL_OP_exp2, compile_unary},
                    {MIL_OP_sqrt, compile_unary},
                    {MIL_OP_rsqrt, compile_unary},
                    {MIL_OP_inverse, compile_unary},
                    {MIL_OP_leaky_relu, compile_unary},
                    {MIL_OP_clip, compile_unary},
                    {MIL_OP_pow, compile_pow},
                    {MIL_OP_cast, compile_layout},
                    {MIL_OP_identity, compile_layout},
                    {MIL_OP_reshape, compile_layout},
                    {MIL_OP_expand_dims, compile_layout},
                    {MIL_OP_squeeze, compile_layout},
                    {MIL_OP_transpose, compile_transpose},
                    {MIL_OP_slice_by_index, compile_slice},
                    {MIL_OP_slice_by_size, compile_slice},
                    {MIL_OP_concat, compile_concat},
                    {MIL_OP_conv, compile_conv},
                    {MIL_OP_matmul, compile_matmul},
                    {MIL_OP_linear, compile_linear},
                    {MIL_OP_reduce_sum, compile_reduce},
                    {MIL_OP_reduce_mean, compile_reduce},
                    {MIL_OP_reduce_max, compile_reduce},
                    {MIL_OP_softmax, compile_softmax},
                    {MIL_OP_layer_norm, compile_layer_norm}};

compile_op compile_find(mil_opcode code) {
    for (size_t i = 0; i < sizeof compile_list / sizeof compile_list[0]; i++)
        if (compile_list[i].code == code) return compile_list[i].compile;
    return NULL;
}

/* ---- two operands ------------------------------------------------------------------------------------------------------------------ */

static uint32_t compile_planar(mil_opcode code) {
    switch (code) {
    case MIL_OP_add: return LOWER_ADD;
    case MIL_OP_sub: return LOWER_SUB;
    case MIL_OP_mul: return LOWER_MUL;
    case MIL_OP_maximum: return LOWER_MAX;
    case MIL_OP_minimum: return LOWER_MIN;
    default: return 0;
    }
}

static uint16_t compile_half(double v) { return fp16_from_f64(v); }

/* Computes x op v, or v op x. */
static propane_status compile_with_scalar(compile *c, const mil_op *op, mil_value *x, double v, bool first,
                                          propane_error *err) {
    emit_tensor a, y;
    const uint16_t one = 0x3c00, minus = 0xbc00;
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    switch (op->info->code) {
    case MIL_OP_add: return lower_scaled(&c->e, LOWER_COPY, &a, one, compile_half(v), &y, err);
    case MIL_OP_sub:
        return lower_scaled(&c->e, LOWER_COPY, &a, first ? minus : one, compile_half(first ? v : -v), &y, err);
    case MIL_OP_mul: return lower_scaled(&c->e, LOWER_COPY, &a, compile_half(v), 0, &y, err);
    case MIL_OP_maximum:
    case MIL_OP_minimum: {
        bool upper = op->info->code == MIL_OP_minimum;
        engine_table t = engine_table_clip(upper ? -INFINITY : v, upper ? v : INFINITY);
        return lower_activation(&c->e, &a, &t, &y, err);
    }
    default: break;
    }
    if (first)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "dividing a number by a tensor is not supported; use inverse and mul");
    if (a.h == 1 && a.w == 1) { /* constants per channel, as Apple's compiler does it */
        uint16_t *pair = ARENA_ARRAY(c->object->arena, 2 * a.c, uint16_t);
        if (!pair) return propane_fail_memory(err, (size_t)a.c * 4);
        for (int64_t i = 0; i < a.c; i++) pair[a.c + i] = compile_half(1 / v);
        return lower_channels(&c->e, &a, pair, pair + a.c, &y, err);
    }
    return lower_scaled(&c->e, LOWER_COPY, &a, compile_half(1 / v), 0, &y, err);
}

/* Returns whether a constant per channel can be a bias or scale of the planar engine. */
static bool compile_by_channel(const mil_op *op, const mil_value *k, const emit_tensor *x) {
    int64_t d[3];
    bool code = op->info->code == MIL_OP_add || op->info->code == MIL_OP_mul;
    return code && k->constant && compile_chw(&k->type, d) && d[0] == x->c && d[1] == 1 && d[2] == 1 && x->c > 1;
}

static propane_status compile_with_channels(compile *c, const mil_op *op, const emit_tensor *x, const mil_value *k,
                                            const emit_tensor *y, propane_error *err) {
    const uint16_t *given = compile_halves(c, k->constant);
    uint16_t *other = ARENA_ARRAY(c->object->arena, x->c, uint16_t);
    if (!given || !other) return propane_fail_memory(err, (size_t)x->c * 2);
    bool add = op->info->code == MIL_OP_add;
    for (int64_t i = 0; i < x->c; i++) other[i] = add ? 0x3c00 : 0;
    return lower_channels(&c->e, x, add ? given : other, add ? other : given, y, err);
}

static bool compile_smaller(const emit_tensor *a, const emit_tensor *b) {
    return a->c <= b->c && a->h <= b->h && a->w <= b->w && a->c * a->h * a->w < b->c * b->h * b->w;
}

/* Returns x if the value is relu of that same x and has no other use, else NULL. */
static mil_value *compile_relu_of(const compile *c, mil_value *v, const mil_value *x) {
    const mil_op *def = v->def;
    if (!def || def->info->code != MIL_OP_relu || c->users[v->id] != 1) return NULL;
    return mil_in(def, "x") == x ? mil_in(def, "x") : NULL;
}

/* Returns whether the dimensions that form the channels are the same in both operands, or all 1 in one. */
static bool compile_aligned(const mil_type *a, const mil_type *b) {
    int64_t ones_a = 1, ones_b = 1;
    bool same = true;
    for (int d = 3; d <= a->rank || d <= b->rank; d++) {
        int64_t da = d <= a->rank ? a->dim[a->rank - d] : 1, db = d <= b->rank ? b->dim[b->rank - d] : 1;
        ones_a *= da, ones_b *= db;
        same = same && da == db;
    }
    return same || ones_a == 1 || ones_b == 1;
}

/* Handles a b that is repeated within each batch of a. Returns the number of batches of a, each of which uses its
 * part of b or, if *shared is set, all of b. Returns 0 in any other case. */
static int64_t compile_batches(const mil_type *a, const mil_type *b, bool *shared) {
    int64_t outer = 1, ca = a->rank < 3 ? 1 : a->dim[a->rank - 3], cb = b->rank < 3 ? 1 : b->dim[b->rank - 3];
    *shared = compile_plain(b);
    if (cb != ca && cb != 1) return 0;
    for (int d = 4; d <= a->rank || d <= b->rank; d++) {
        int64_t da = d <= a->rank ? a->dim[a->rank - d] : 1, db = d <= b->rank ? b->dim[b->rank - d] : 1;
        if (!*shared && da != db) return 0;
        outer *= da;
    }
    return outer;
}

static emit_tensor compile_batch(const emit_tensor *x, int64_t i, int64_t batches) {
    emit_tensor part = *x;
    part.c /= batches;
    part.base += i * part.c * x->plane;
    return part;
}

/* Computes big op small, batch after batch. */
static propane_status compile_by_batch(compile *c, const mil_op *op, uint32_t code, const emit_tensor *big,
                                       const emit_tensor *small, bool shared, int64_t batches, const emit_tensor *to,
                                       propane_error *err) {
    for (int64_t i = 0; i < batches; i++) {
        emit_tensor a = compile_batch(big, i, batches), y = compile_batch(to, i, batches);
        emit_tensor b = shared ? *small : compile_batch(small, i, batches);
        bool same = a.c == b.c && a.h == b.h && a.w == b.w;
        PROPANE_TRY(same ? lower_binary(&c->e, code, &a, &b, false, &y, err)
                         : lower_broadcast(&c->e, code, &a, &b, &y, err));
    }
    return PROPANE_OK;
}

propane_status compile_binary(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    emit_tensor a, b, to;
    double v;
    if (compile_scalar(y, &v)) return compile_with_scalar(c, op, x, v, false, err);
    if (compile_scalar(x, &v)) return compile_with_scalar(c, op, y, v, true, err);
    uint32_t code = compile_planar(op->info->code);
    if (!code)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "division by a tensor is not supported; use inverse and mul");
    bool clamp = op->info->code == MIL_OP_add && compile_relu_of(c, y, x) != NULL;
    if (clamp) y = x;
    PROPANE_TRY(compile_result(c, op, op->results[0], &to, err));
    if (!x->constant || y->constant) PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    bool aligned = compile_aligned(&x->type, &y->type);
    bool fixed = aligned && !c->patchable; /* what may be overwritten must be an operand in memory */
    if (fixed && y->constant && compile_by_channel(op, y, &a)) return compile_with_channels(c, op, &a, y, &to, err);
    PROPANE_TRY(compile_tensor(c, op, y, &b, err));
    if (fixed && x->constant && compile_by_channel(op, x, &b)) return compile_with_channels(c, op, &b, x, &to, err);
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    if (!compile_aligned(&x->type, &y->type)) {
        bool shared;
        int64_t n = compile_batches(&x->type, &y->type, &shared);
        if (n && b.h <= a.h && b.w <= a.w) return compile_by_batch(c, op, code, &a, &b, shared, n, &to, err);
        n = compile_batches(&y->type, &x->type, &shared);
        if (n && a.h <= b.h && a.w <= b.w && code != LOWER_SUB)
            return compile_by_batch(c, op, code, &b, &a, shared, n, &to, err);
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "broadcasting one of several dimensions before rows and columns is not supported");
    }
    if (a.c == b.c && a.h == b.h && a.w == b.w) return lower_binary(&c->e, code, &a, &b, clamp, &to, err);
    if (compile_smaller(&b, &a)) return lower_broadcast(&c->e, code, &a, &b, &to, err);
    if (compile_smaller(&a, &b) && code != LOWER_SUB) return lower_broadcast(&c->e, code, &b, &a, &to, err);
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "both operands are repeated, or the first of a difference is");
}

/* ---- one operand ---------------------------------------------------------------------------------------------------------------------- */

bool compile_activation(const mil_op *op, engine_table *table, bool *relu) {
    propane_error err;
    double value = 0, high = 0;
    mil_opcode code = op->info->code;
    *relu = code == MIL_OP_relu;
    if (*relu) return true;
    if (code == MIL_OP_clip && mil_attr_float(op, "alpha", &value, &err) == PROPANE_OK &&
        mil_attr_float(op, "beta", &high, &err) == PROPANE_OK) {
        *table = engine_table_clip(value, high);
        return true;
    }
    if (code == MIL_OP_leaky_relu && mil_attr_float(op, "alpha", &value, &err) == PROPANE_OK) {
        *table = engine_table_leaky(value);
        return true;
    }
    return engine_table_of(op, table);
}

propane_status compile_unary(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    emit_tensor a, y;
    engine_table table;
    bool relu;
    if (op->info->code == MIL_OP_relu) { /* x + relu(x): the addition clamps */
        const mil_op *user = compile_only_user(c, op->results[0]);
        if (user && user->info->code == MIL_OP_add && mil_in(user, "y") == op->results[0] && mil_in(user, "x") == x)
            return PROPANE_OK;
    }
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    if (op->info->code == MIL_OP_square) return lower_binary(&c->e, LOWER_MUL, &a, &a, false, &y, err);
    if (op->info->code == MIL_OP_abs) return lower_scaled(&c->e, LOWER_ABS, &a, 0x3c00, 0, &y, err);
    if (!compile_activation(op, &table, &relu))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "its numbers are not constants");
    return lower_activation(&c->e, &a, relu ? NULL : &table, &y, err);
}

/* Computes x to a constant power that the engine supports. */
propane_status compile_pow(compile *c, const mil_op *op, propane_error *err) {
    emit_tensor a, y;
    double power = 0;
    engine_table table;
    if (!compile_scalar(mil_in(op, "y"), &power) || (power != 2 && power != 0.5 && power != -0.5 && power != -1))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the power must be 2, 0.5, -0.5 or -1");
    PROPANE_TRY(compile_tensor(c, op, mil_in(op, "x"), &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    if (power == 2) return lower_binary(&c->e, LOWER_MUL, &a, &a, false, &y, err);
    table = *engine_table_find(power == -1 ? "recip" : power > 0 ? "sqrt" : "rsqrt");
    table.bias = 0;
    return lower_activation(&c->e, &a, &table, &y, err);
}

/* ---- layout ------------------------------------------------------------------------------------------------------------------------------ */

/* Copies between rows of different strides: of equal length, or with several rows of one side in one row of the
 * other. */
propane_status compile_layout(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    emit_tensor a, y;
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    int64_t wide = y.w > a.w ? y.w : a.w, small = y.w > a.w ? a.w : y.w;
    if (wide % small)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "rows of %lld become rows of %lld", (long long)a.w,
                            (long long)y.w);
    if (a.w == y.w) {
        y.c = a.c, y.h = a.h, y.plane = y.row * a.h;
        return lower_copy(&c->e, &a, &y, err);
    }
    /* [rows of the wide side, parts of each, the small side] on both sides */
    int64_t parts = wide / small, rows = a.c * a.h * a.w / wide;
    bool split = a.w > y.w;
    emit_tensor from = {a.bar, a.base, rows, parts, small, a.row, a.row * parts, a.total};
    emit_tensor to = {y.bar, y.base, rows, parts, small, y.row, y.row * parts, y.total};
    if (split)
        from.row = 2 * small, from.plane = a.row;
    else
        to.row = 2 * small, to.plane = y.row;
    return lower_copy(&c->e, &from, &to, err);
}

/* One of the dimensions that form the channels, with its steps in channels of the source and of the result. */
typedef struct compile_lead {
    int64_t count, from, to;
} compile_lead;

/* Lists the dimensions in front of the last two in the order of x, joined where both sides step alike. Returns how many
 * there are. */
static int compile_lead_list(const mil_type *x, const int *perm, compile_lead *out) {
    int64_t from = 1, to = 1, steps[MIL_MAX_RANK];
    int lead = x->rank - 2, count = 0;
    for (int d = lead - 1; d >= 0; d--) steps[perm[d]] = to, to *= x->dim[perm[d]];
    for (int d = lead - 1; d >= 0; d--) {
        compile_lead *last = count ? &out[count - 1] : NULL;
        if (x->dim[d] == 1) continue;
        if (last && last->to * last->count == steps[d])
            last->count *= x->dim[d];
        else
            out[count++] = (compile_lead){x->dim[d], from, steps[d]};
        from *= x->dim[d];
    }
    return count;
}

/* Copies planes to their new places: the longest of the dimensions in one task, the others task by task. */
static propane_status compile_transpose_lead(compile *c, const mil_type *x, const int *perm, const emit_tensor *a,
                                             const emit_tensor *y, propane_error *err) {
    compile_lead lead[MIL_MAX_RANK] = {{1, 1, 1}};
    int count = compile_lead_list(x, perm, lead), run = 0;
    for (int k = 1; k < count; k++)
        if (lead[k].count > lead[run].count) run = k;
    for (int64_t i = 0, rest = a->c / lead[run].count; i < rest; i++) {
        emit_tensor from = *a, to = *y;
        int64_t at = i;
        for (int k = 0; k < count; k++) {
            if (k == run) continue;
            from.base += at % lead[k].count * lead[k].from * a->plane;
            to.base += at % lead[k].count * lead[k].to * y->plane;
            at /= lead[k].count;
        }
        from.c = to.c = lead[run].count, from.plane *= lead[run].from, to.plane *= lead[run].to;
        PROPANE_TRY(lower_copy(&c->e, &from, &to, err));
    }
    return PROPANE_OK;
}

/* Exchanges axes of [c, h, w]: through channels if the width moves, by strides otherwise. */
propane_status compile_transpose(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    int perm[MIL_MAX_RANK], rank = x->type.rank, p[3] = {0, 1, 2};
    emit_tensor a, y;
    PROPANE_TRY(mil_attr_perm(op, perm, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    bool rows_only = true;
    for (int d = 0; d < rank - 2; d++) rows_only = rows_only && perm[d] == d;
    bool planes = rank > 3 && perm[rank - 2] == rank - 2 && perm[rank - 1] == rank - 1;
    if (planes) return compile_transpose_lead(c, &x->type, perm, &a, &y, err);
    if (!compile_plain(&x->type) && !rows_only)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a transpose must not move the batch dimension");
    int lead = rank > 3 ? rank - 3 : 0, pad = rank < 3 ? 3 - rank : 0;
    for (int d = 0; d < rank; d++)
        if (!rows_only && (d < lead) != (perm[d] < lead) && (x->type.dim[perm[d]] != 1 || x->type.dim[d] != 1))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "a transpose must not move the batch dimension");
    for (int d = lead; d < rank; d++) p[d - lead + pad] = perm[d] < lead ? d - lead + pad : perm[d] - lead + pad;
    /* y[i0, i1, i2] = x with axis p[k] at ik, seen as copies of [c, h, w] of x into strides of y */
    const int64_t stride_y[3] = {y.plane, y.row, 2}, dims[3] = {a.c, a.h, a.w}, stride_x[3] = {a.plane, a.row, 2};
    int64_t to[3];
    for (int k = 0; k < 3; k++) to[p[k]] = stride_y[k]; /* stride in y of each axis of x */
    if (to[2] == 2) {
        if (p[0] == 1) { /* read with the rows as channels, as Apple's compiler does */
            emit_tensor from = {a.bar, a.base, a.h, a.c, a.w, a.plane, a.row, a.total};
            return lower_copy(&c->e, &from, &y, err);
        }
        return lower_copy(&c->e, &a, &y, err);
    }
    /* the axis of x that becomes y's width is the channel of the task, and x's width becomes its channel */
    int wide = p[2], rest = 3 - wide - 2;
    emit_tensor from = {a.bar, a.base, dims[wide], dims[rest], dims[2], stride_x[rest], stride_x[wide], a.total};
    emit_tensor into = {y.bar, y.base, dims[2], dims[rest], dims[wide], to[rest], to[2], y.total};
    if (dims[rest] == 1) from.row = a.total, into.row = y.total;
    return lower_transpose(&c->e, &from, &into, err);
}

/* Slices one of the dimensions that form the channels, which must be the first that is not 1. */
static propane_status compile_slice_lead(const mil_slice *s, const mil_value *x, int d, int64_t *begin, int64_t *count,
                                         propane_error *err) {
    int64_t inner = 1, outer = 1;
    if (s->count[d] == x->type.dim[d]) return PROPANE_OK;
    for (int i = 0; i < d; i++) outer *= s->count[i];
    for (int i = d + 1; i < s->rank - 2; i++) inner *= x->type.dim[i];
    if (outer != 1 || s->step[d] != 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "slicing dimension %d needs a step of 1 and a single element in each dimension before it",
                            d);
    *begin += s->begin[d] * inner;
    *count = s->count[d] * inner;
    return PROPANE_OK;
}

propane_status compile_slice(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    mil_slice s;
    emit_tensor a, y;
    PROPANE_TRY(mil_slice_read(op, &s, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    int64_t begin[3] = {0}, step[3] = {1, 1, 1}, count[3] = {a.c, a.h, a.w};
    for (int d = 0; d < s.rank; d++) {
        int to = d - (s.rank - 3);
        if (to < 0 && s.count[d] != x->type.dim[d] && s.count[d] != 1)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "slicing the batch is not supported");
        if (to < 0 || (to == 0 && !compile_plain(&x->type))) {
            PROPANE_TRY(compile_slice_lead(&s, x, d, &begin[0], &count[0], err));
            continue;
        }
        begin[to] = s.begin[d], step[to] = s.step[d], count[to] = s.count[d];
    }
    if (step[2] != 1 || step[0] < 1 || step[1] < 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "steps of %lld, %lld and %lld are not supported",
                            (long long)step[0], (long long)step[1], (long long)step[2]);
    emit_tensor from = {a.bar,
                        a.base + begin[0] * a.plane + begin[1] * a.row + 2 * begin[2],
                        count[0],
                        count[1],
                        count[2],
                        a.row * step[1],
                        a.plane * step[0],
                        a.total};
    int64_t rows = y.row, planes = y.plane;
    if (y.c != count[0] || y.h != count[1]) { /* dimensions of 1 were dropped */
        rows = y.w == count[2] ? y.row : 0;
        planes = rows * count[1];
    }
    if (!rows) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the last dimension is dropped");
    emit_tensor to = {y.bar, y.base, count[0], count[1], count[2], rows, planes, y.total};
    return lower_copy(&c->e, &from, &to, err);
}

propane_status compile_concat(compile *c, const mil_op *op, propane_error *err) {
    mil_value *const *values;
    int count = mil_in_list(op, "values", &values), axis;
    emit_tensor y;
    bool interleave = false;
    PROPANE_TRY(mil_attr_bool(op, "interleave", &interleave, err));
    PROPANE_TRY(mil_attr_axis(op, "axis", op->results[0]->type.rank, &axis, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    if (interleave) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "an interleaved concatenation");
    const mil_type *type = &op->results[0]->type;
    int which = axis - (type->rank - 3) < 0 ? 0 : axis - (type->rank - 3);
    int64_t outer = 1, at = 0;
    for (int d = 0; which == 0 && d < axis; d++) outer *= type->dim[d]; /* parts of the inputs alternate */
    const int64_t strides[3] = {y.plane, y.row, 2};
    for (int i = 0; i < count; i++) {
        emit_tensor a;
        PROPANE_TRY(compile_tensor(c, op, values[i], &a, err));
        const int64_t dims[3] = {a.c / outer, a.h, a.w};
        for (int64_t o = 0; o < outer; o++) {
            emit_tensor from = a, to = y;
            from.base += o * dims[0] * a.plane;
            to.base += at * strides[which] + (outer > 1 ? o * (y.c / outer) * y.plane : 0);
            from.c = to.c = dims[0], to.h = a.h, to.w = a.w;
            if (from.bar == to.bar && from.base == to.base) continue; /* the part was made here */
            PROPANE_TRY(lower_copy(&c->e, &from, &to, err));
        }
        at += dims[which];
    }
    return PROPANE_OK;
}
