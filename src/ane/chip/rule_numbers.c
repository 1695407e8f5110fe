/* SPDX-License-Identifier: MIT
 * Owns the checks of numbers that fp16 cannot represent. Most checks report only if the range of a value
 * (value_facts.h) allows the problem, so a clip or a subtracted maximum before the operation silences the check.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ane/chip/rule.h"
#include "ane/chip/value_facts.h"
#include "core/mil/ops.h"
#include "core/mil/ops/shape_util.h"

enum { MASK_DEPTH = 8 };
#define HALF_LOWEST   (-65504.0)
#define HALF_SMALLEST 0x1p-24

static const mil_value *rule_numbers_main(const mil_op *op) {
    return op->info->param_count && op->operands[0].count ? op->operands[0].values[0] : NULL;
}

static bool rule_numbers_made_by(const mil_value *v, mil_opcode code) {
    return v && v->def && v->def->info->code == code;
}

static bool rule_numbers_is_half(const mil_op *op) {
    return op->result_count && op->results[0]->type.dtype == MIL_fp16;
}

/* Returns true if the operation computes in fp16 and its operand may exceed `most`. `known` then describes the
 * operand's numbers. */
static bool rule_numbers_passes(const chip_view *view, double most, char known[80]) {
    const mil_value *x = rule_numbers_main(view->op);
    if (!x || !rule_numbers_is_half(view->op) || chip_is_constant(view->op->results[0])) return false;
    const chip_range r = chip_range_of(x);
    if (r.high <= most) return false;
    if (isfinite(r.high))
        snprintf(known, 80, "numbers up to %.4g", r.high);
    else
        snprintf(known, 80, "any fp16 number");
    return true;
}

bool chip_rule_large_input(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    char known[80];
    return rule_numbers_passes(view, view->limit->value, known) &&
           chip_found(out, "%s of %s", view->op->info->name, known);
}

/* The sum of n exponentials fits if each is at most 65504 / n. */
bool chip_rule_large_exp_sum(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    char known[80];
    if (!x || !view->op->result_count) return false;
    const double to = (double)mil_type_count(&view->op->results[0]->type), from = (double)mil_type_count(&x->type);
    return rule_numbers_passes(view, log(view->limit->value * fmax(to, 1) / fmax(from, 1)), known) &&
           chip_found(out, "%s of %s, over %.0f elements", view->op->info->name, known, from / fmax(to, 1));
}

/* Accepts exp(x - y) with a computed y, because y is usually a maximum, with which exp cannot overflow. */
bool chip_rule_raw_exp(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    char known[80];
    if (!rule_numbers_passes(view, view->limit->value, known)) return false;
    if (rule_numbers_made_by(x, MIL_OP_sub) && !chip_is_constant(mil_in(x->def, "y"))) return false;
    return chip_found(out, "nothing is subtracted from '%.60s' first: %s", x->name, known);
}

/* Finds the log of a softmax without a stated epsilon. An epsilon that fp16 can represent keeps the logarithm
 * finite. */
bool chip_rule_log_of_softmax(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double epsilon = 0;
    if (!rule_numbers_is_half(view->op) || !rule_numbers_made_by(rule_numbers_main(view->op), MIL_OP_softmax))
        return false;
    if (mil_attr_float(view->op, "epsilon", &epsilon, NULL) != PROPANE_OK) epsilon = 0;
    return epsilon < HALF_SMALLEST && chip_found(out, "it is the log of a softmax");
}

static bool rule_numbers_is_square(const mil_value *v) {
    if (!v || !v->def) return false;
    const mil_op *op = v->def;
    if (op->info->code == MIL_OP_square) return true;
    if (op->info->code == MIL_OP_mul) return mil_in(op, "x") == mil_in(op, "y");
    const mil_value *y = op->info->code == MIL_OP_pow ? mil_in(op, "y") : NULL;
    return y && y->constant && y->constant->data && mil_type_count(&y->type) == 1 && mil_const_f64(y->constant, 0) == 2;
}

/* Finds a mean or a sum of squares in fp16 that may overflow. If `wide`, it has at least as many terms as the row's
 * value, otherwise fewer. */
static bool rule_numbers_mean_of_squares(const chip_view *view, bool wide, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    if (!rule_numbers_is_half(view->op) || !rule_numbers_is_square(x)) return false;
    const double terms =
        (double)mil_type_count(&x->type) / fmax((double)mil_type_count(&view->op->results[0]->type), 1);
    return (terms >= view->limit->value) == wide && chip_range_of(x).high >= -HALF_LOWEST &&
           chip_found(out, "'%.60s' holds squares in fp16, which overflow from 256, or %.0f in a mean", x->name, terms);
}

bool chip_rule_mean_of_squares(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_numbers_mean_of_squares(view, true, out);
}

bool chip_rule_short_mean_of_squares(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    return rule_numbers_mean_of_squares(view, false, out);
}

/* Finds a division by the largest element, in which a row of zeros divides 0 by 0. If a maximum, an addition or a clip
 * prevents this, the divisor is not itself a reduce_max. */
bool chip_rule_own_maximum(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x"), *most = mil_in(view->op, "y");
    if (!rule_numbers_made_by(most, MIL_OP_reduce_max)) return false;
    const mil_value *of = mil_in(most->def, "x");
    return rule_numbers_made_by(of, MIL_OP_abs) && mil_in(of->def, "x") == x &&
           chip_found(out, "'%.60s' is divided by its own largest element", chip_value_name(x));
}

/* Returns x if the value is the mean of x, otherwise NULL. */
static const mil_value *rule_numbers_mean_of(const mil_value *v) {
    return rule_numbers_made_by(v, MIL_OP_reduce_mean) ? mil_in(v->def, "x") : NULL;
}

/* Returns x if the value is the square of x, otherwise NULL. */
static const mil_value *rule_numbers_squared(const mil_value *v) {
    return rule_numbers_is_square(v) ? mil_in(v->def, "x") : NULL;
}

/* Finds the mean of squares minus the square of the mean. The difference of two numbers near m^2 has lost everything
 * below m^2 / 2,048. */
bool chip_rule_one_pass_variance(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *of = rule_numbers_squared(rule_numbers_mean_of(mil_in(view->op, "x")));
    const mil_value *again = rule_numbers_mean_of(rule_numbers_squared(mil_in(view->op, "y")));
    if (!of || of != again || !rule_numbers_is_half(view->op)) return false;
    const chip_range r = chip_range_of(of);
    return fmax(fabs(r.low), fabs(r.high)) > view->limit->value &&
           chip_found(out, "it is the variance of '%.60s' as the mean of squares minus the square of the mean",
                      chip_value_name(of));
}

/* Returns the single constant by which a product or quotient multiplies its other operand, or 1 if there is none. */
static double rule_numbers_scale(const mil_op *op) {
    const bool divided = op->info->code == MIL_OP_real_div;
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    const mil_value *c = y->constant ? y : divided ? NULL : x;
    if (!c || !c->constant || !c->constant->data || mil_type_count(&c->type) != 1) return 1;
    const double one = mil_const_f64(c->constant, 0);
    return divided && one != 0 ? 1 / one : one;
}

/* Finds logits that are scaled only after their product. Searches the next NEAR operations, because the scaling
 * operation comes shortly after the product in the order of the file. */
bool chip_rule_scaled_behind(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    enum { NEAR = 16 };
    const mil_value *logits = view->op->results[0], *x = mil_in(view->op, "x"), *y = mil_in(view->op, "y");
    if (!rule_numbers_is_half(view->op) || chip_is_constant(x) || chip_is_constant(y)) return false;
    if (chip_range_of(logits).high <= -HALF_LOWEST) return false;
    const mil_value *scaled = NULL;
    double scale = 1;
    const mil_op *op = view->op->next;
    for (int i = 0; op && i < NEAR; op = op->next, i++) {
        const mil_opcode code = op->info->code;
        const bool product = code == MIL_OP_mul || code == MIL_OP_real_div;
        if (!scaled && product && (mil_in(op, "x") == logits || (code == MIL_OP_mul && mil_in(op, "y") == logits))) {
            scale = fabs(rule_numbers_scale(op));
            scaled = scale < 1 ? op->results[0] : NULL;
        } else if (scaled && code == MIL_OP_add && (mil_in(op, "x") == scaled || mil_in(op, "y") == scaled)) {
            scaled = op->results[0];
        } else if (scaled && code == MIL_OP_softmax && mil_in(op, "x") == scaled) {
            return chip_found(out, "its scale of %.3g is applied after the product, which may exceed 65,504", scale);
        }
    }
    return false;
}

/* An epsilon adds more than fp16's rounding to numbers below 2,048 times the epsilon. */
bool chip_rule_added_epsilon(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    double epsilon = 0;
    if (mil_attr_float(view->op, "epsilon", &epsilon, NULL) != PROPANE_OK || chip_is_constant(x)) return false;
    const chip_range r = chip_range_of(x);
    return epsilon * 1000 >= view->limit->value && r.low < view->limit->value && r.high > -view->limit->value &&
           chip_found(out, "epsilon is %.3g, and '%.60s' may be near 0", epsilon, chip_value_name(x));
}

/* Returns the value from which `v` is computed by operations that scale, bound or filter a spectrum or take its
 * root. */
static const mil_value *rule_numbers_spectrum(const mil_value *v) {
    for (int depth = 0; v && v->def && depth < MASK_DEPTH; depth++) {
        const mil_op *op = v->def;
        switch (op->info->code) {
        case MIL_OP_add:
            if (!chip_is_constant(mil_in(op, "x")) && !chip_is_constant(mil_in(op, "y"))) return v;
            v = chip_is_constant(mil_in(op, "x")) ? mil_in(op, "y") : mil_in(op, "x");
            break;
        case MIL_OP_mul:
        case MIL_OP_maximum:
        case MIL_OP_matmul:
            if (mil_in(op, "x") == mil_in(op, "y")) return v;
            v = chip_is_constant(mil_in(op, "x")) ? mil_in(op, "y") : mil_in(op, "x");
            break;
        case MIL_OP_clip:
        case MIL_OP_conv:
        case MIL_OP_linear:
        case MIL_OP_sqrt:
        case MIL_OP_reshape:
        case MIL_OP_transpose:
        case MIL_OP_squeeze:
        case MIL_OP_expand_dims:
        case MIL_OP_slice_by_index:
        case MIL_OP_slice_by_size: v = mil_in(op, "x"); break;
        default: return v;
        }
    }
    return v;
}

bool chip_rule_log_of_power(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    if (!rule_numbers_is_half(view->op)) return false;
    const mil_value *power = rule_numbers_spectrum(rule_numbers_main(view->op));
    if (!rule_numbers_made_by(power, MIL_OP_add) || power->type.dtype != MIL_fp16) return false;
    return rule_numbers_is_square(mil_in(power->def, "x")) && rule_numbers_is_square(mil_in(power->def, "y")) &&
           chip_range_of(power).high >= view->limit->value &&
           chip_found(out, "it is the log of '%.60s', a sum of two squares in fp16", chip_value_name(power));
}

/* Returns a constant operand whose elements are all infinite in fp16, or NULL if there is none. Masks are infinite only
 * in places and have separate rules. */
static const mil_value *rule_numbers_infinite_side(const mil_op *op) {
    const mil_value *pair[] = {mil_in(op, "x"), mil_in(op, "y")};
    for (int i = 0; i < 2; i++) {
        const mil_const *c = pair[i]->constant;
        if (!c || !c->data || !mil_dtype_is_float(pair[i]->type.dtype) || chip_is_constant(pair[1 - i])) continue;
        const chip_range r = chip_range_of(pair[i]);
        if (r.low > -HALF_LOWEST || r.high < HALF_LOWEST) return pair[i];
    }
    return NULL;
}

/* If fp16 cannot represent a constant, coremltools leaves its operation in fp32, and casts the result. */
bool chip_rule_infinite_constant(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_op *op = view->op;
    if (!rule_numbers_is_half(op)) return false;
    if (op->info->code == MIL_OP_cast) {
        op = mil_in(op, "x")->def;
        const mil_opcode code = op ? op->info->code : MIL_OP_const;
        if (code != MIL_OP_add && code != MIL_OP_sub && code != MIL_OP_mul) return false;
        const chip_range r = chip_range_of(op->results[0]);
        if (r.low >= HALF_LOWEST && r.high <= -HALF_LOWEST) return false;
    }
    const mil_value *c = rule_numbers_infinite_side(op);
    if (!c) return false;
    const chip_range r = chip_range_of(c);
    return chip_found(out, "the constant '%.60s' is %.3g, which is infinite in fp16", chip_value_name(c),
                      r.low > 0 ? r.low : r.high);
}

/* ---- masks ------------------------------------------------------------------------------------------------------------------ */

static bool rule_numbers_is_infinite_below(const mil_value *v) {
    const chip_range r = v->constant && mil_dtype_is_float(v->type.dtype) ? chip_range_of(v) : (chip_range){0, 0};
    return r.low < HALF_LOWEST && (isinf(r.low) ? v->constant->data != NULL : true) &&
           mil_type_count(&v->type) <= 1 << 20;
}

/* Returns a constant from which a mask is computed and which contains minus infinity in fp16, or NULL if there is none.
 * Looks through products (in which 0 times infinity is NaN), sums, selections and changes of form, because any other
 * computation destroys a mask. */
static const mil_value *rule_numbers_mask(const mil_value *v, int depth) {
    if (!v || depth > MASK_DEPTH) return NULL;
    if (v->constant) return rule_numbers_is_infinite_below(v) ? v : NULL;
    const mil_op *op = v->def;
    if (!op || op->block_count) return NULL;
    switch (op->info->code) {
    case MIL_OP_add:
    case MIL_OP_sub:
    case MIL_OP_mul:
    case MIL_OP_select:
    case MIL_OP_cast:
    case MIL_OP_reshape:
    case MIL_OP_transpose:
    case MIL_OP_expand_dims:
    case MIL_OP_squeeze:
    case MIL_OP_slice_by_index:
    case MIL_OP_slice_by_size:
    case MIL_OP_tile:
    case MIL_OP_identity: break;
    default: return NULL;
    }
    MIL_FOR_OPERANDS (op, x) {
        const mil_value *found = rule_numbers_mask(x, depth + 1);
        if (found) return found;
    }
    return NULL;
}

bool chip_rule_infinite_mask(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const bool attention = view->op->info->code == MIL_OP_scaled_dot_product_attention;
    const mil_value *mask =
        rule_numbers_is_half(view->op) ? rule_numbers_mask(mil_in(view->op, attention ? "attn_mask" : "x"), 0) : NULL;
    return mask && chip_found(out, "the constant '%.60s' holds %.3g, which is minus infinity in fp16",
                              chip_value_name(mask), chip_range_of(mask).low);
}

/* ---- the engine's treatment of NaN and of a pair of operations --------------------------------------------------- */

bool chip_rule_compared_with_itself(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = mil_in(view->op, "x");
    return x == mil_in(view->op, "y") && x->type.dtype == MIL_fp16 &&
           chip_found(out, "'%.60s' is compared with itself, as a test for NaN", chip_value_name(x));
}

/* If the value is a product or quotient with a single constant, returns the other operand. Otherwise returns NULL. */
static const mil_value *rule_numbers_scaled(const mil_value *v) {
    const mil_op *op = v ? v->def : NULL;
    if (!op || (op->info->code != MIL_OP_mul && op->info->code != MIL_OP_real_div)) return NULL;
    const mil_value *x = mil_in(op, "x"), *y = mil_in(op, "y");
    if (y->constant && mil_type_count(&y->type) == 1) return x;
    return op->info->code == MIL_OP_mul && x->constant && mil_type_count(&x->type) == 1 ? y : NULL;
}

/* Returns x if the value is a hard gate of x: sigmoid_hard, or relu6 or clip of x plus a constant, perhaps scaled.
 * Otherwise returns NULL. */
static const mil_value *rule_numbers_hard_gate(const mil_value *v) {
    if (rule_numbers_made_by(v, MIL_OP_sigmoid_hard)) return mil_in(v->def, "x");
    const mil_value *whole = rule_numbers_scaled(v);
    if (whole) v = whole;
    if (!rule_numbers_made_by(v, MIL_OP_relu6) && !rule_numbers_made_by(v, MIL_OP_clip)) return NULL;
    const mil_value *shifted = mil_in(v->def, "x");
    return rule_numbers_made_by(shifted, MIL_OP_add) && chip_is_constant(mil_in(shifted->def, "y"))
               ? mil_in(shifted->def, "x")
               : NULL;
}

/* Returns true if the value comes from linear or matmul. Looks through sums and thresholded_relu, which coremltools
 * puts before both sides of torch's hardswish. */
static bool rule_numbers_is_product(const mil_value *v) {
    while (rule_numbers_made_by(v, MIL_OP_add) || rule_numbers_made_by(v, MIL_OP_thresholded_relu))
        v = mil_in(v->def, "x");
    return rule_numbers_made_by(v, MIL_OP_linear) || rule_numbers_made_by(v, MIL_OP_matmul);
}

bool chip_rule_flat_hardswish(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *pair[] = {mil_in(view->op, "x"), mil_in(view->op, "y")};
    for (int i = 0; i < 2; i++) {
        const mil_value *v = pair[1 - i];
        if (v && rule_numbers_hard_gate(pair[i]) == v && v->type.rank <= 2 && rule_numbers_is_product(v))
            return chip_found(out, "'%.60s' has %d axes, comes from a product and goes through a hardswish", v->name,
                              v->type.rank);
    }
    return false;
}

/* fp16 numbers beyond 2,048 are 2 apart, a third of a period. */
bool chip_rule_large_angle(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    if (!x || !rule_numbers_is_half(view->op) || chip_is_constant(view->op->results[0])) return false;
    const chip_range r = chip_range_of(x);
    return fmax(fabs(r.low), fabs(r.high)) > view->limit->value &&
           chip_found(out, "nothing keeps '%.60s' within %.0f", chip_value_name(x), view->limit->value);
}

/* The numbers by which an angle is multiplied: the product of all, and the largest one. A factor of two pi turns
 * revolutions into radians, even if other factors scale them. Numbers that differ between channels are trained, as in
 * snake, and do not count. */
typedef struct angle_factor {
    double product, largest;
} angle_factor;

static angle_factor rule_numbers_factor(const mil_value *v, int depth) {
    angle_factor f = {1, 1};
    if (!v->def || depth > MASK_DEPTH || v->constant) return f;
    const mil_op *op = v->def;
    if (op->info->code == MIL_OP_cast || op->info->code == MIL_OP_reshape || op->info->code == MIL_OP_transpose ||
        op->info->code == MIL_OP_expand_dims || op->info->code == MIL_OP_squeeze)
        return rule_numbers_factor(mil_in(op, "x"), depth + 1);
    if (op->info->code != MIL_OP_mul) return f;
    MIL_FOR_OPERANDS (op, x) {
        const bool single = x->constant && x->constant->data && mil_type_count(&x->type) == 1;
        const double one = single ? fabs(mil_const_f64(x->constant, 0)) : 1;
        const angle_factor g = single ? (angle_factor){one, one} : rule_numbers_factor(x, depth + 1);
        f.product *= g.product;
        f.largest = fmax(f.largest, g.largest);
    }
    f.largest = fmax(f.largest, f.product);
    return f;
}

bool chip_rule_turns(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    if (!x || !rule_numbers_is_half(view->op) || chip_is_constant(view->op->results[0])) return false;
    const chip_range r = chip_range_of(x);
    const double factor = rule_numbers_factor(x, 0).largest, most = chip_limit_value("N9");
    return factor >= view->limit->value && fmax(fabs(r.low), fabs(r.high)) > most &&
           chip_found(out, "'%.60s' is multiplied by %.4g in fp16 without a bound of %.0f", chip_value_name(x), factor,
                      most);
}

/* ---- an angle of two numbers ------------------------------------------------------------------------------------------------ */

static bool rule_numbers_compared(const mil_op *op, mil_opcode code, const mil_value *x) {
    const mil_value *y = op->info->code == code ? mil_in(op, "y") : NULL;
    return y && mil_in(op, "x") == x && y->constant && y->constant->data && mil_type_count(&y->type) == 1 &&
           mil_const_f64(y->constant, 0) == 0;
}

/* Finds atan(y / x) with quadrants decided by greater(y, 0) and less(y, 0), which leave y = 0 in no quadrant. */
bool chip_rule_open_quadrant(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op), *y;
    if (!rule_numbers_made_by(x, MIL_OP_real_div) || chip_is_constant(x)) return false;
    y = mil_in(x->def, "x");
    bool above = false, below = false, closed = false;
    for (const mil_op *op = view->function->first; op; op = op->next) {
        above |= rule_numbers_compared(op, MIL_OP_greater, y);
        below |= rule_numbers_compared(op, MIL_OP_less, y);
        closed |= rule_numbers_compared(op, MIL_OP_greater_equal, y) ||
                  rule_numbers_compared(op, MIL_OP_less_equal, y) || rule_numbers_compared(op, MIL_OP_equal, y);
    }
    return above && below && !closed &&
           chip_found(out, "'%.60s' is compared with 0 by greater and less, so a value of 0 belongs to no quadrant",
                      chip_value_name(y));
}

/* One of n numbers is at most (n-1)/n of their span away from the mean. */
bool chip_rule_large_spread(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *x = rule_numbers_main(view->op);
    bool member[MIL_MAX_RANK];
    if (!x || !rule_numbers_is_half(view->op)) return false;
    if (mil_attr_axes(view->op, "axes", x->type.rank, member, NULL) != PROPANE_OK) return false;
    double n = 1;
    for (int i = 0; i < x->type.rank; i++)
        if (member[i]) n *= (double)x->type.dim[i];
    const chip_range r = chip_range_of(x);
    return (r.high - r.low) * (n - 1) / n >= view->limit->value &&
           chip_found(out, "the distance of '%.60s' from its mean has no bound of %.0f", chip_value_name(x),
                      view->limit->value);
}

/* Returns true if a result is an input that is returned unchanged, and so is not rounded again. */
static bool rule_numbers_is_handed_on(const mil_value *v) {
    while (rule_numbers_made_by(v, MIL_OP_identity)) v = mil_in(v->def, "x");
    return !v->def;
}

/* Finds a computed result that may be the next call's parameter, because it has the parameter's type. The first input
 * and the first output do not count, because residual networks give both the same type. */
bool chip_rule_fed_back(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_function *f = view->function;
    for (int i = 1; i < f->param_count; i++)
        for (int k = 1; k < f->result_count; k++) {
            const mil_value *in = f->params[i], *back = f->results[k];
            if (in->type.dtype == MIL_fp16 && in->type.container == MIL_TENSOR && in->type.rank >= 2 &&
                !rule_numbers_is_handed_on(back) && mil_type_equal(&in->type, &back->type))
                return chip_found(out, "'%.60s' has the type of the input '%.60s'", back->name, in->name);
        }
    return false;
}

/* Returns the distance between two adjacent fp16 coordinates at the edge of the image, in pixels. Returns 0 if the
 * coordinates are not fp16. Sets *side to the longer side of the image. Near 1, fp16 has steps of 2^-11; near n pixels,
 * of n * 2^-10 at most. */
static double rule_numbers_coordinate_step(const mil_op *op, double *side) {
    const mil_type *x = &mil_in(op, "x")->type;
    const char *mode = NULL;
    if (mil_in(op, "coordinates")->type.dtype != MIL_fp16 || x->rank != 4) return 0;
    if (mil_attr_text(op, "coordinates_mode", &mode, NULL) != PROPANE_OK || !mode) return 0;
    *side = (double)(x->dim[2] > x->dim[3] ? x->dim[2] : x->dim[3]);
    if (strcmp(mode, "normalized_minus_one_to_one") == 0) return (*side - 1) / 2 * 0x1p-11;
    if (strcmp(mode, "normalized_zero_to_one") == 0) return (*side - 1) * 0x1p-11;
    return exp2(floor(log2(fmax(*side - 1, 1)))) * 0x1p-10;
}

/* Finds fp16 coordinates whose steps at the far edge exceed a fraction of a pixel, the row's value. */
bool chip_rule_half_coordinates(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double side = 0;
    const double step = rule_numbers_coordinate_step(view->op, &side);
    return step > view->limit->value &&
           chip_found(out, "its fp16 coordinates have steps of %.3g pixels at the edge of %.0f", step, side);
}

/* Returns the number of products that linear or matmul adds for each element of its result. Returns 0 for other
 * operations. */
static double rule_numbers_terms(const mil_op *op) {
    const bool linear = op->info->code == MIL_OP_linear, product = op->info->code == MIL_OP_matmul;
    const mil_value *x = linear || product ? mil_in(op, "x") : NULL;
    bool turned = false;
    if (!x || x->type.rank < (product ? 2 : 1)) return 0;
    if (linear) return (double)x->type.dim[x->type.rank - 1];
    if (mil_attr_bool(op, "transpose_x", &turned, NULL) != PROPANE_OK) return 0;
    return (double)x->type.dim[x->type.rank - (turned ? 2 : 1)];
}

/* Returns the number of terms of the matrix product from which a value is computed, or 0 if there is none. Looks only
 * through operations with one variable operand. */
static double rule_numbers_summed(const mil_value *v) {
    for (int depth = 0; depth < MASK_DEPTH && v && v->def; depth++) {
        const double terms = rule_numbers_terms(v->def);
        if (terms > 0) return terms;
        const mil_value *next = NULL;
        MIL_FOR_OPERANDS (v->def, part) {
            if (chip_is_constant(part)) continue;
            if (next) return 0;
            next = part;
        }
        v = next;
    }
    return 0;
}

/* Each of n products is rounded to fp16, so the error of their sum grows with the square root of n. */
bool chip_rule_summed_coordinates(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double side = 0;
    const double step = rule_numbers_coordinate_step(view->op, &side), most = view->limit->value;
    const double terms = rule_numbers_summed(mil_in(view->op, "coordinates"));
    return step <= most && step * sqrt(terms) > most &&
           chip_found(out, "its fp16 coordinates are sums of %.0f products: about %.2g pixels at the edge of %.0f",
                      terms, step * sqrt(terms), side);
}

bool chip_rule_symmetric_bytes(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    const mil_value *zero = mil_in(view->op, "zero_point"), *data = mil_in(view->op, "quantized_data");
    if (!zero || !zero->constant || !zero->constant->data || data->type.dtype != MIL_int8) return false;
    for (int64_t i = 0; i < mil_type_count(&zero->type); i++)
        if (mil_const_f64(zero->constant, i) != 0) return false;
    return chip_found(out, "'%.60s' is int8 with zero point 0", chip_value_name(view->op->results[0]));
}

/* Programs with few products differ only by the rounding of their results, which nobody reports. */
bool chip_rule_rounded_products(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    int count = 0;
    for (const mil_op *op = view->function->first; op; op = op->next)
        count += chip_is_product(op->info->code) && rule_numbers_is_half(op);
    return count >= (int)view->limit->value && chip_found(out, "%d products compute in fp16", count);
}

bool chip_rule_vanishing_epsilon(const chip_view *view, char out[CHIP_TEXT_BYTES]) {
    double epsilon = 0;
    if (!rule_numbers_is_half(view->op) || mil_attr_float(view->op, "epsilon", &epsilon, NULL) != PROPANE_OK)
        return false;
    return epsilon < view->limit->value && chip_found(out, "epsilon is %.3g", epsilon);
}
