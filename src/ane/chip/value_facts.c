/* SPDX-License-Identifier: MIT
 * Owns the derivation of facts about a value from the operations that made it. The derivation walks back through
 * operands with a budget, because checks ask about single operations and graphs are wide. Beyond the budget, nothing is
 * known. Ranges assume exact arithmetic. A rounded value may exceed a bound by an ulp, but no rule is precise enough to
 * notice this.
 */
#include "ane/chip/value_facts.h"

#include <math.h>
#include <string.h>

#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

enum { WALK = 200, LARGEST_CONSTANT = 1 << 20 };

/* ---- constants -------------------------------------------------------------------------------------------------------------- */

static bool facts_is_random(const mil_op *op) {
    const mil_opcode code = op->info->code;
    return code == MIL_OP_random_bernoulli || code == MIL_OP_random_categorical || code == MIL_OP_random_normal ||
           code == MIL_OP_random_uniform;
}

/* Returns true if the value is a constant, and adds its stored bytes to *bytes. A computed constant counts with the
 * bytes of its sources. */
static bool facts_walk_constant(const mil_value *v, int *budget, double *bytes) {
    if (v->constant && (!v->def || v->def->info->code == MIL_OP_const)) {
        *bytes += (double)mil_type_bytes(&v->type);
        return true;
    }
    if (!v->def || (*budget)-- <= 0 || facts_is_random(v->def) || v->def->block_count) return false;
    int operands = 0;
    MIL_FOR_OPERANDS (v->def, x) {
        if (x->type.dtype == MIL_string) continue;
        operands++;
        if (!facts_walk_constant(x, budget, bytes)) return v->constant != NULL;
    }
    return operands > 0 || v->constant;
}

bool chip_is_constant(const mil_value *v) {
    int budget = WALK;
    double bytes = 0;
    return v->constant || facts_walk_constant(v, &budget, &bytes);
}

double chip_stored_bytes(const mil_value *v) {
    int budget = WALK;
    double bytes = 0;
    return facts_walk_constant(v, &budget, &bytes) ? bytes : 0;
}

bool chip_is_product(mil_opcode code) {
    return code == MIL_OP_conv || code == MIL_OP_conv_transpose || code == MIL_OP_linear || code == MIL_OP_matmul;
}

int chip_product_count(const int *counts) {
    int count = 0;
    for (int code = 0; code < MIL_OP_COUNT; code++)
        if (chip_is_product((mil_opcode)code)) count += counts[code];
    return count;
}

const mil_value *chip_weight_of(const mil_op *op) {
    const mil_value *pair[2] = {NULL, NULL};
    if (op->info->code == MIL_OP_matmul) {
        pair[0] = mil_in(op, "y");
        pair[1] = mil_in(op, "x");
    } else {
        pair[0] = mil_in(op, "weight");
    }
    for (int i = 0; i < 2; i++)
        if (pair[i] && chip_is_constant(pair[i])) return pair[i];
    return NULL;
}

bool chip_op_is_open(const mil_op *op) {
    bool open = false;
    MIL_FOR_OPERANDS (op, v) open |= mil_type_is_open(&v->type);
    for (int i = 0; i < op->result_count; i++) open |= mil_type_is_open(&op->results[i]->type);
    return open;
}

/* ---- ranges ----------------------------------------------------------------------------------------------------------------- */

static const chip_range unknown = {-INFINITY, INFINITY};

static chip_range facts_range(const mil_value *v, int *budget);

static chip_range facts_of_constant(const mil_const *c) {
    const int64_t count = mil_type_count(&c->type);
    chip_range r = {INFINITY, -INFINITY};
    if (!c->data || count == 0 || count > LARGEST_CONSTANT || c->type.dtype == MIL_string) return unknown;
    for (int64_t i = 0; i < count; i++) {
        const double v = mil_const_f64(c, i);
        if (isnan(v)) return unknown;
        r.low = fmin(r.low, v);
        r.high = fmax(r.high, v);
    }
    return r;
}

static chip_range facts_join(chip_range a, chip_range b) {
    return (chip_range){fmin(a.low, b.low), fmax(a.high, b.high)};
}

/* 0 times infinity is 0 here, because an unknown bound does not matter to a factor of 0. */
static double facts_times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

static chip_range facts_product(chip_range a, chip_range b) {
    const double p[4] = {facts_times(a.low, b.low), facts_times(a.low, b.high), facts_times(a.high, b.low),
                         facts_times(a.high, b.high)};
    return (chip_range){fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), fmax(fmax(p[0], p[1]), fmax(p[2], p[3]))};
}

static chip_range facts_square(chip_range r) {
    const double a = fabs(r.low), b = fabs(r.high);
    return (chip_range){r.low <= 0 && r.high >= 0 ? 0 : fmin(a, b) * fmin(a, b), fmax(a, b) * fmax(a, b)};
}

static chip_range facts_clip(chip_range r, double low, double high) {
    return (chip_range){fmin(fmax(r.low, low), high), fmin(fmax(r.high, low), high)};
}

static chip_range facts_map(chip_range r, double (*f)(double)) { return (chip_range){f(r.low), f(r.high)}; }

static double facts_attribute(const mil_op *op, const char *param, double standard) {
    double v = standard;
    return mil_attr_float(op, param, &v, NULL) == PROPANE_OK ? v : standard;
}

/* Returns true if y is the maximum of x over some axes, so that x - y is at most 0. */
static bool facts_is_own_maximum(const mil_value *x, const mil_value *y) {
    for (int depth = 0; depth < 4 && y && y->def; depth++) {
        if (y->def->info->code == MIL_OP_reduce_max) return mil_in(y->def, "x") == x;
        y = y->def->operands[0].count ? y->def->operands[0].values[0] : NULL;
    }
    return false;
}

/* Returns true if y is the maximum of |x| over some axes, perhaps with a lower bound or an added constant that is not
 * negative, so that x / y is between -1 and 1. */
static bool facts_is_own_magnitude(const mil_value *x, const mil_value *y) {
    for (int depth = 0; depth < 4 && y && y->def; depth++) {
        if (y->def->info->code == MIL_OP_reduce_max) {
            const mil_value *of = mil_in(y->def, "x");
            return of->def && of->def->info->code == MIL_OP_abs && mil_in(of->def, "x") == x;
        }
        const mil_opcode code = y->def->info->code;
        const mil_value *floor = code == MIL_OP_maximum || code == MIL_OP_add ? mil_in(y->def, "y") : NULL;
        if (!floor || !floor->constant || facts_of_constant(floor->constant).low < 0) return false;
        y = mil_in(y->def, "x");
    }
    return false;
}

static const mil_value *facts_operand(const mil_value *v, mil_opcode code, const char *param) {
    return v && v->def && v->def->info->code == code ? mil_in(v->def, param) : NULL;
}

/* Returns the lower bound of mean((x/m)^2) + e/m/m with m = max(|x|, 1). If m is 1, all of e remains; otherwise, one of
 * the n quotients is 1. Returns minus infinity for any other sum. */
static double facts_scaled_norm(const mil_value *mean, const mil_value *rest) {
    const mil_value *inner = facts_operand(rest, MIL_OP_real_div, "x"), *m = facts_operand(rest, MIL_OP_real_div, "y");
    const mil_value *e = facts_operand(inner, MIL_OP_real_div, "x"), *q = facts_operand(mean, MIL_OP_reduce_mean, "x");
    const mil_value *s = facts_operand(q, MIL_OP_square, "x"), *one = facts_operand(m, MIL_OP_maximum, "y");
    if (!s && facts_operand(q, MIL_OP_mul, "x") == facts_operand(q, MIL_OP_mul, "y"))
        s = facts_operand(q, MIL_OP_mul, "x");
    if (!s || !e || !e->constant || !one || !one->constant || facts_operand(inner, MIL_OP_real_div, "y") != m)
        return -INFINITY;
    if (facts_operand(s, MIL_OP_real_div, "y") != m || facts_of_constant(one->constant).high > 1) return -INFINITY;
    if (!facts_is_own_magnitude(facts_operand(s, MIL_OP_real_div, "x"), m)) return -INFINITY;
    return fmin(facts_of_constant(e->constant).low,
                (double)mil_type_count(&mean->type) / (double)mil_type_count(&q->type));
}

/* Recognises exp(x - max(x)), one element of which is 1. */
static bool facts_has_one(const mil_value *v) {
    const mil_op *op = v->def, *from = op && op->info->code == MIL_OP_exp ? mil_in(op, "x")->def : NULL;
    return from && from->info->code == MIL_OP_sub && facts_is_own_maximum(mil_in(from, "x"), mil_in(from, "y"));
}

static bool facts_is_pair(const mil_op *op) {
    const mil_param *p = op->info->params;
    return op->info->param_count == 2 && strcmp(p[0].name, "x") == 0 && strcmp(p[1].name, "y") == 0;
}

static chip_range facts_pair(const mil_op *op, int *budget) {
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    const chip_range a = facts_range(x, budget), b = facts_range(y, budget);
    switch (op->info->code) {
    case MIL_OP_add: return (chip_range){fmax(a.low + b.low, facts_scaled_norm(x, y)), a.high + b.high};
    case MIL_OP_sub: return (chip_range){a.low - b.high, facts_is_own_maximum(x, y) ? 0 : a.high - b.low};
    case MIL_OP_mul: return x == y ? facts_square(a) : facts_product(a, b);
    case MIL_OP_minimum: return (chip_range){fmin(a.low, b.low), fmin(a.high, b.high)};
    case MIL_OP_maximum: return (chip_range){fmax(a.low, b.low), fmax(a.high, b.high)};
    case MIL_OP_pow: return b.low == 2 && b.high == 2 ? facts_square(a) : unknown;
    case MIL_OP_real_div:
        if (facts_is_own_magnitude(x, y)) return (chip_range){-1, 1};
        return b.low > 0 || b.high < 0 ? facts_product(a, (chip_range){1 / b.high, 1 / b.low}) : unknown;
    default: return unknown;
    }
}

static double facts_silu(double x) { return x == -INFINITY ? 0 : x / (1 + exp(-x)); }
static double facts_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double facts_softplus(double x) { return x > 700 ? x : log1p(exp(x)); }

/* Returns the range of a function of one value whose range is `r`. */
static chip_range facts_single(const mil_op *op, chip_range r) {
    static const double silu_low = -0.2785, gelu_low = -0.17;
    switch (op->info->code) {
    case MIL_OP_relu: return facts_clip(r, 0, INFINITY);
    case MIL_OP_relu6: return facts_clip(r, 0, 6);
    case MIL_OP_clip:
        return facts_clip(r, facts_attribute(op, "alpha", -INFINITY), facts_attribute(op, "beta", INFINITY));
    case MIL_OP_clamped_relu: return (chip_range){-INFINITY, fmin(r.high, facts_attribute(op, "beta", INFINITY))};
    case MIL_OP_threshold: return facts_clip(r, facts_attribute(op, "alpha", -INFINITY), INFINITY);
    case MIL_OP_sigmoid: return facts_map(r, facts_sigmoid);
    case MIL_OP_sigmoid_hard: return facts_clip(unknown, 0, 1);
    case MIL_OP_tanh: return facts_map(r, tanh);
    case MIL_OP_erf: return facts_map(r, erf);
    case MIL_OP_softsign:
    case MIL_OP_sin:
    case MIL_OP_cos:
    case MIL_OP_sign: return (chip_range){-1, 1};
    case MIL_OP_softplus: return facts_map(r, facts_softplus);
    case MIL_OP_silu: return (chip_range){r.low >= 0 ? facts_silu(r.low) : silu_low, fmax(0, facts_silu(r.high))};
    case MIL_OP_gelu: return (chip_range){r.low >= 0 ? 0 : gelu_low, fmax(0, r.high)};
    case MIL_OP_abs: {
        const chip_range s = facts_square(r);
        return (chip_range){sqrt(s.low), sqrt(s.high)};
    }
    case MIL_OP_square: return facts_square(r);
    case MIL_OP_exp: return facts_map(r, exp);
    case MIL_OP_sqrt: return facts_map(facts_clip(r, 0, INFINITY), sqrt);
    case MIL_OP_linear_activation: {
        const double a = facts_attribute(op, "alpha", 1), b = facts_attribute(op, "beta", 0);
        r = facts_product(r, (chip_range){a, a});
        return (chip_range){r.low + b, r.high + b};
    }
    case MIL_OP_reduce_sum_square:
    case MIL_OP_reduce_l1_norm:
    case MIL_OP_reduce_l2_norm: return facts_clip(unknown, 0, INFINITY);
    case MIL_OP_reduce_sum:
        if (facts_has_one(mil_in(op, "x"))) return (chip_range){1, INFINITY};
        return (chip_range){r.low >= 0 ? r.low : -INFINITY, r.high <= 0 ? r.high : INFINITY};
    case MIL_OP_softmax: return (chip_range){0, 1};
    default: return unknown;
    }
}

/* Returns true if an operation only moves, selects, averages or rounds numbers, so that its result has the range of its
 * operand. */
static bool facts_moves(mil_opcode code) {
    static const mil_opcode codes[] = {MIL_OP_identity,
                                       MIL_OP_cast,
                                       MIL_OP_reshape,
                                       MIL_OP_transpose,
                                       MIL_OP_expand_dims,
                                       MIL_OP_squeeze,
                                       MIL_OP_slice_by_size,
                                       MIL_OP_slice_by_index,
                                       MIL_OP_split,
                                       MIL_OP_tile,
                                       MIL_OP_reverse,
                                       MIL_OP_gather,
                                       MIL_OP_reduce_max,
                                       MIL_OP_reduce_min,
                                       MIL_OP_reduce_mean,
                                       MIL_OP_max_pool,
                                       MIL_OP_depth_to_space,
                                       MIL_OP_space_to_depth,
                                       MIL_OP_pixel_shuffle,
                                       MIL_OP_flatten2d,
                                       MIL_OP_reshape_like,
                                       MIL_OP_pixel_unshuffle,
                                       MIL_OP_gather_along_axis,
                                       MIL_OP_gather_nd,
                                       MIL_OP_upsample_nearest_neighbor,
                                       MIL_OP_upsample_bilinear,
                                       MIL_OP_resize_bilinear,
                                       MIL_OP_resize_nearest_neighbor};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i] == code) return true;
    return false;
}

static chip_range facts_range(const mil_value *v, int *budget) {
    if (v->constant) return facts_of_constant(v->constant);
    const mil_op *op = v->def;
    if (!op || (*budget)-- <= 0 || op->block_count || !op->info->param_count) return unknown;
    const mil_opcode code = op->info->code;
    if (facts_is_pair(op)) return facts_pair(op, budget);
    if (code == MIL_OP_select)
        return facts_join(facts_range(mil_in(op, "a"), budget), facts_range(mil_in(op, "b"), budget));
    if (code == MIL_OP_concat || code == MIL_OP_stack) {
        mil_value *const *values;
        const int count = mil_in_list(op, "values", &values);
        chip_range r = {INFINITY, -INFINITY};
        for (int i = 0; i < count; i++) r = facts_join(r, facts_range(values[i], budget));
        return count ? r : unknown;
    }
    const mil_value *x = op->operands[0].count ? op->operands[0].values[0] : NULL;
    if (!x) return unknown;
    const chip_range r = facts_range(x, budget);
    if (code == MIL_OP_cast && !mil_dtype_is_float(v->type.dtype)) /* towards zero */
        return (chip_range){r.low < 0 ? ceil(r.low) : floor(r.low), r.high < 0 ? ceil(r.high) : floor(r.high)};
    return facts_moves(code) ? r : facts_single(op, r);
}

chip_range chip_range_of(const mil_value *v) {
    int budget = WALK;
    const chip_range r = facts_range(v, &budget);
    return isnan(r.low) || isnan(r.high) ? unknown : r;
}
