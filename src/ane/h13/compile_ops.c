/* SPDX-License-Identifier: MIT
 * Owns the list of operations that this compiler supports, and compiles elementwise operations and activations. If the
 * engine lacks the form of an operation, the error names that form.
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

/* ---- kinds of operations ------------------------------------------------------------------------------------------ */

bool compile_by_element(const mil_op *op) {
    engine_table table;
    bool relu;
    switch (op->info->code) {
    case MIL_OP_add:
    case MIL_OP_sub:
    case MIL_OP_mul:
    case MIL_OP_maximum:
    case MIL_OP_minimum:
    case MIL_OP_abs:
    case MIL_OP_square: return true;
    default: return compile_activation(op, &table, &relu);
    }
}

static bool compile_is_product(const mil_op *op) {
    mil_opcode code = op->info->code;
    return code == MIL_OP_matmul || code == MIL_OP_linear || code == MIL_OP_conv;
}

bool compile_may_be_absorbed(const compile *c, const mil_op *op) {
    while (op && compile_by_element(op)) {
        const mil_value *x = mil_in(op, "x");
        if (x->constant) x = mil_in(op, "y");
        if (!x->def || c->users[x->id] != 1) return false;
        op = x->def;
    }
    return op && compile_is_product(op);
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

/* Computes x op v, or v op x if `first` is set. A quotient is always x / v, because compile_rewrite has replaced all
 * others. */
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
    if (a.h == 1 && a.w == 1) { /* constants per channel, as Apple's compiler makes them */
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

/* Returns x if v is relu(x) and is used only once, else NULL. */
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

/* Returns the number of batches of a if b is repeated within each batch, else 0. Each batch uses its part of b or, if
 * *shared is set, all of b. */
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
                         : lower_broadcast(&c->e, code, &a, &b, NULL, &y, err));
    }
    return PROPANE_OK;
}

/* Returns the computed operand that is repeated for every row, column or channel of the other, or NULL. */
static mil_value *compile_repeated(const mil_op *op) {
    propane_error err;
    emit_tensor a, b;
    uint32_t code = compile_planar(op->info->code);
    if (!code) return NULL;
    mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    if (x->constant || y->constant || !compile_aligned(&x->type, &y->type)) return NULL;
    if (compile_shape(op, x, &a, &err) || compile_shape(op, y, &b, &err)) return NULL;
    if (compile_smaller(&b, &a)) return y;
    return compile_smaller(&a, &b) && code != LOWER_SUB ? x : NULL;
}

const mil_op *compile_brought(const compile *c, const mil_op *op) {
    engine_table table;
    bool relu;
    const mil_value *small = compile_repeated(op);
    const mil_op *def = small ? small->def : NULL;
    if (!def || c->users[small->id] != 1 || !compile_activation(def, &table, &relu) || relu) return NULL;
    return compile_behind(mil_in(def, "x")) || compile_may_be_absorbed(c, def) ? NULL : def;
}

/* Computes x op table(b), where the task that brings b on chip applies the table. */
static propane_status compile_binary_brought(compile *c, const mil_op *op, const mil_op *def, propane_error *err) {
    emit_tensor big, small, y;
    engine_table table;
    bool relu, first = mil_in(op, "x") == def->results[0];
    (void)compile_activation(def, &table, &relu);
    PROPANE_TRY(compile_tensor(c, op, mil_in(op, first ? "y" : "x"), &big, err));
    PROPANE_TRY(compile_tensor(c, def, mil_in(def, "x"), &small, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    return lower_broadcast(&c->e, compile_planar(op->info->code), &big, &small, &table, &y, err);
}

propane_status compile_binary(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    emit_tensor a, b, to;
    double v;
    if (compile_scalar(y, &v)) return compile_with_scalar(c, op, x, v, false, err);
    if (compile_scalar(x, &v)) return compile_with_scalar(c, op, y, v, true, err);
    const mil_op *brought = compile_brought(c, op);
    if (brought) return compile_binary_brought(c, op, brought, err);
    uint32_t code = compile_planar(op->info->code);
    bool clamp = op->info->code == MIL_OP_add && compile_relu_of(c, y, x) != NULL;
    if (clamp) y = x;
    PROPANE_TRY(compile_result(c, op, op->results[0], &to, err));
    if (!x->constant || y->constant) PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    bool aligned = compile_aligned(&x->type, &y->type);
    bool fixed = aligned && !c->patchable; /* a constant that may be overwritten must be an operand in memory */
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
    if (compile_smaller(&b, &a)) return lower_broadcast(&c->e, code, &a, &b, NULL, &to, err);
    if (compile_smaller(&a, &b) && code != LOWER_SUB) return lower_broadcast(&c->e, code, &b, &a, NULL, &to, err);
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
    if (op->info->code == MIL_OP_relu) { /* in x + relu(x), the addition clamps its second operand */
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
