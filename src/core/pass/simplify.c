/* SPDX-License-Identifier: MIT
 * Owns the peephole rewrites: an op that changes nothing is removed, two ops that undo each other are removed, and two
 * moves become one. Every bit is preserved, so nothing is reassociated and no narrowing cast is dropped. The only
 * exception is that dropping x + 0 may leave -0 instead of 0.
 *
 * A rewrite is a function that returns the value that can replace the op's result, or NULL. The table at the end lists
 * the rewrite for each operation.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/pass/rewrite.h"

typedef mil_value *(*simplifier)(rewrite *r, const mil_op *op);

static bool simplify_same_type(const mil_value *a, const mil_value *b) { return mil_type_equal(&a->type, &b->type); }

/* Returns true if a constant holds `wanted` everywhere. */
static bool simplify_all_equal(const mil_value *v, double wanted) {
    if (!v || !v->constant || !v->constant->data) return false;
    int64_t count = mil_type_count(&v->type);
    for (int64_t i = 0; i < count; i++)
        if (mil_const_f64(v->constant, i) != wanted) return false;
    return count > 0;
}

static mil_value *simplify_if_same_type(const mil_op *op, mil_value *v) {
    return v && simplify_same_type(v, op->results[0]) ? v : NULL;
}

/* Returns the op that makes v if it is a `code`, else NULL. */
static const mil_op *simplify_made_by(const mil_value *v, mil_opcode code) {
    return v->def && v->def->info->code == code ? v->def : NULL;
}

static mil_value *simplify_drop(rewrite *r, const mil_op *op) {
    (void)r;
    return simplify_if_same_type(op, mil_in(op, "x"));
}

static mil_value *simplify_neutral_right(const mil_op *op, double neutral) {
    return simplify_all_equal(mil_in(op, "y"), neutral) ? simplify_if_same_type(op, mil_in(op, "x")) : NULL;
}

static mil_value *simplify_neutral_either(const mil_op *op, double neutral) {
    mil_value *x = simplify_neutral_right(op, neutral);
    if (!x && simplify_all_equal(mil_in(op, "x"), neutral)) x = simplify_if_same_type(op, mil_in(op, "y"));
    return x;
}

static mil_value *simplify_plus(rewrite *r, const mil_op *op) { return (void)r, simplify_neutral_either(op, 0); }
static mil_value *simplify_minus(rewrite *r, const mil_op *op) { return (void)r, simplify_neutral_right(op, 0); }
static mil_value *simplify_times(rewrite *r, const mil_op *op) { return (void)r, simplify_neutral_either(op, 1); }
static mil_value *simplify_divide(rewrite *r, const mil_op *op) { return (void)r, simplify_neutral_right(op, 1); }

/* Drops a cast that changes nothing, or that undoes a widening cast. */
static mil_value *simplify_cast(rewrite *r, const mil_op *op) {
    (void)r;
    mil_value *x = mil_in(op, "x");
    if (simplify_same_type(x, op->results[0])) return x;
    const mil_op *inner = simplify_made_by(x, MIL_OP_cast);
    if (!inner) return NULL;
    mil_value *origin = mil_in(inner, "x");
    bool widened = origin->type.dtype == MIL_fp16 && x->type.dtype == MIL_fp32;
    return widened && simplify_same_type(origin, op->results[0]) ? origin : NULL;
}

static bool simplify_permutation(const mil_op *op, int64_t perm[MIL_MAX_RANK * 2]) {
    int count;
    propane_error err;
    int rank = op->results[0]->type.rank;
    if (mil_attr_ints(op, "perm", perm, &count, &err) != PROPANE_OK || count != rank) return false;
    for (int i = 0; i < count; i++)
        if (perm[i] < 0) perm[i] += rank;
    return true;
}

static bool simplify_in_order(const int64_t *perm, int rank) {
    for (int i = 0; i < rank; i++)
        if (perm[i] != i) return false;
    return true;
}

static mil_value *simplify_transpose(rewrite *r, const mil_op *op) {
    int64_t outer[MIL_MAX_RANK * 2], inner[MIL_MAX_RANK * 2], both[MIL_MAX_RANK];
    mil_value *x = mil_in(op, "x");
    int rank = x->type.rank;
    if (!simplify_permutation(op, outer)) return NULL;
    if (simplify_in_order(outer, rank)) return x;
    const mil_op *first = simplify_made_by(x, MIL_OP_transpose);
    if (!first || !simplify_permutation(first, inner)) return NULL;
    for (int i = 0; i < rank; i++) both[i] = inner[outer[i]];
    mil_value *origin = mil_in(first, "x");
    if (simplify_in_order(both, rank)) return origin;
    return rewrite_is_result(r, op->results[0]) ? NULL : mil_build_transpose(&r->build, origin, both, rank);
}

static bool simplify_keeps_order(const mil_op *op) {
    mil_opcode code = op->info->code;
    return code == MIL_OP_reshape || code == MIL_OP_expand_dims || code == MIL_OP_squeeze;
}

/* Of two ops that only change the shape, the first is not needed. */
static mil_value *simplify_reshape(rewrite *r, const mil_op *op) {
    mil_value *x = mil_in(op, "x");
    const mil_type *type = &op->results[0]->type;
    if (simplify_same_type(x, op->results[0])) return x;
    if (!x->def || !simplify_keeps_order(x->def)) return NULL;
    mil_value *origin = mil_in(x->def, "x");
    if (simplify_same_type(origin, op->results[0])) return origin;
    if (rewrite_is_result(r, op->results[0]) || type->rank == 0) return NULL;
    return mil_build_reshape(&r->build, origin, type->dim, type->rank);
}

/* Drops two reversals of the same axes. */
static mil_value *simplify_reverse(rewrite *r, const mil_op *op) {
    (void)r;
    int64_t outer[MIL_MAX_RANK * 2], inner[MIL_MAX_RANK * 2];
    int outer_count, inner_count;
    propane_error err;
    const mil_op *first = simplify_made_by(mil_in(op, "x"), MIL_OP_reverse);
    if (!first) return NULL;
    if (mil_attr_ints(op, "axes", outer, &outer_count, &err) || mil_attr_ints(first, "axes", inner, &inner_count, &err))
        return NULL;
    bool equal = outer_count == inner_count && memcmp(outer, inner, (size_t)outer_count * sizeof *outer) == 0;
    return equal ? mil_in(first, "x") : NULL;
}

/* Drops reductions (sum, mean, maximum, minimum, product) over single elements. */
static mil_value *simplify_reduce(rewrite *r, const mil_op *op) {
    const mil_value *result = op->results[0];
    mil_value *x = mil_in(op, "x");
    if (mil_type_count(&x->type) != mil_type_count(&result->type)) return NULL;
    if (simplify_same_type(x, result)) return x;
    if (rewrite_is_result(r, result) || result->type.rank == 0) return NULL;
    return mil_build_reshape(&r->build, x, result->type.dim, result->type.rank);
}

static mil_value *simplify_concat(rewrite *r, const mil_op *op) {
    (void)r;
    mil_value *const *values;
    return mil_in_list(op, "values", &values) == 1 ? simplify_if_same_type(op, values[0]) : NULL;
}

static mil_value *simplify_slice(rewrite *r, const mil_op *op) {
    (void)r;
    return simplify_if_same_type(op, mil_in(op, "x")); /* a slice of x's size is all of x */
}

static const struct {
    mil_opcode code;
    simplifier run;
} simplifiers[] = {
    {MIL_OP_identity, simplify_drop},
    {MIL_OP_add, simplify_plus},
    {MIL_OP_sub, simplify_minus},
    {MIL_OP_mul, simplify_times},
    {MIL_OP_real_div, simplify_divide},
    {MIL_OP_pow, simplify_divide},
    {MIL_OP_cast, simplify_cast},
    {MIL_OP_transpose, simplify_transpose},
    {MIL_OP_reshape, simplify_reshape},
    {MIL_OP_expand_dims, simplify_reshape},
    {MIL_OP_squeeze, simplify_reshape},
    {MIL_OP_reverse, simplify_reverse},
    {MIL_OP_reduce_sum, simplify_reduce},
    {MIL_OP_reduce_mean, simplify_reduce},
    {MIL_OP_reduce_max, simplify_reduce},
    {MIL_OP_reduce_min, simplify_reduce},
    {MIL_OP_reduce_prod, simplify_reduce},
    {MIL_OP_concat, simplify_concat},
    {MIL_OP_pad, simplify_drop},
    {MIL_OP_tile, simplify_drop},
    {MIL_OP_slice_by_size, simplify_slice},
};

propane_status pass_simplify(rewrite *r, propane_error *err) {
    for (mil_op *op = r->function->first, *next; op; op = next) {
        next = op->next;
        rewrite_operands(r, op);
        for (size_t i = 0; i < sizeof simplifiers / sizeof simplifiers[0]; i++) {
            if (simplifiers[i].code != op->info->code) continue;
            rewrite_replace(r, op, simplifiers[i].run(r, op));
            break;
        }
        if (r->build.err.status) {
            if (err) *err = r->build.err;
            return r->build.err.status;
        }
    }
    return PROPANE_OK;
}
