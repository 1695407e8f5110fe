/* SPDX-License-Identifier: MIT
 * Owns finding out that a loop's condition, which depends on run-time values, is false in every run because a counter
 * has passed a limit. Each number has a lower and an upper bound, which is infinite if nothing is known. Comparing two
 * such ranges may decide a comparison of unknown numbers.
 */
#include <math.h>

#include "core/pass/unroll_loop.h"

enum { MAX_DEPTH = 32 };

typedef struct bound {
    double low, high;
} bound;

static const mil_value *bound_operand(const mil_value *v, const char *param) {
    return mil_replaced(mil_in(v->def, param));
}

static bound bound_of(const mil_value *v, int depth) {
    const bound unknown = {-INFINITY, INFINITY};
    if (v->constant && v->constant->data && mil_type_count(&v->type) == 1) {
        const double value = mil_const_f64(v->constant, 0);
        return (bound){value, value};
    }
    if (v->constant || !v->def || depth == MAX_DEPTH) return unknown;
    const mil_opcode code = v->def->info->code;
    if (code == MIL_OP_cast || code == MIL_OP_identity) return bound_of(bound_operand(v, "x"), depth + 1);
    if (code != MIL_OP_minimum && code != MIL_OP_maximum) return unknown;
    const bound x = bound_of(bound_operand(v, "x"), depth + 1), y = bound_of(bound_operand(v, "y"), depth + 1);
    return code == MIL_OP_minimum ? (bound){fmin(x.low, y.low), fmin(x.high, y.high)}
                                  : (bound){fmax(x.low, y.low), fmax(x.high, y.high)};
}

/* Returns true if `v` is false in every run. Sets *ends if a comparison in `v` is decided, or is between a known
 * counter and a limit, so that later rounds will decide it. */
static bool bound_is_false(const mil_value *v, int depth, bool *ends) {
    if (v->constant && v->constant->data) {
        *ends = true; /* it may be a comparison that was decided earlier */
        return mil_const_f64(v->constant, 0) == 0;
    }
    if (v->constant || !v->def || depth == MAX_DEPTH) return false;
    const mil_opcode code = v->def->info->code;
    const bool upward = code == MIL_OP_less || code == MIL_OP_less_equal,
               downward = code == MIL_OP_greater || code == MIL_OP_greater_equal;
    if (code == MIL_OP_logical_and) {
        const bool x = bound_is_false(bound_operand(v, "x"), depth + 1, ends);
        return bound_is_false(bound_operand(v, "y"), depth + 1, ends) || x;
    }
    if (!upward && !downward) return false;
    const bound x = bound_of(bound_operand(v, downward ? "y" : "x"), depth + 1),
                y = bound_of(bound_operand(v, downward ? "x" : "y"), depth + 1); /* x < y */
    *ends |= isfinite(x.low) && isfinite(y.high);
    return code == MIL_OP_less || code == MIL_OP_greater ? x.low >= y.high : x.low > y.high;
}

bool unroll_is_false(const mil_value *v, bool *ends) {
    *ends = false;
    return bound_is_false(mil_replaced((mil_value *)(uintptr_t)v), 0, ends);
}
