/* SPDX-License-Identifier: MIT
 * Owns the small pieces that every forward function uses: shapes, names, stages, and the division by a root mean
 * square. Each piece returns NULL for a NULL value, so that callers need no branches.
 */
#include <math.h>

#include "core/base/memory.h"
#include "lm/arch/forward_internal.h"

/* Sets the value's name in programs and plans unless another value, such as another layer's, has the name. */
mil_value *forward_label(forward_context *x, mil_value *v, const char *name) {
    propane_status taken = v ? mil_rename(x->b.function, v, name, NULL) : PROPANE_OK;
    (void)taken; /* a name that is taken is not an error */
    return v;
}

void forward_stage(forward_context *x, const char *name) {
    x->b.stage = *x->prefix ? arena_printf(x->b.module->arena, "%s%s", x->prefix, name) : name;
}

mil_type forward_tensor4(const forward_context *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t dim[] = {a, b, c, d};
    return mil_type_tensor(x->o->dtype, 4, dim);
}

mil_value *forward_reshape4(forward_context *x, mil_value *v, int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t dim[] = {a, b, c, d};
    return mil_build_reshape(&x->b, v, dim, 4);
}

/* Returns the number of rows for a reshape. -1 lets the reshape infer the number if the number of positions is open. */
int64_t forward_rows_of(const forward_context *x, int64_t rows) { return x->cached && x->cached->open ? -1 : rows; }

mil_value *forward_swap_last_two(forward_context *x, mil_value *v) {
    const int64_t perm[] = {0, 1, 3, 2};
    return mil_build_transpose(&x->b, v, perm, 4);
}

/* Computes v / sqrt(mean of squares along `axis` + epsilon). The code squares v / sqrt(n), so that fp16 does not
 * overflow. */
mil_value *forward_divide_by_rms(forward_context *x, mil_value *v, int64_t axis, int64_t n, double eps,
                                 const char *factor) {
    mil_builder *b = &x->b;
    if (x->o->dtype == MIL_fp16) eps = fmax(eps, 0x1p-24); /* the smallest positive fp16 number */
    mil_value *small = mil_build_binary_scalar(b, MIL_OP_mul, v, 1 / sqrt((double)n));
    mil_value *mean = mil_build_reduce(b, MIL_OP_reduce_sum, mil_build_unary(b, MIL_OP_square, small), &axis, 1, true);
    mil_value *epsilon = mil_build_scalar(b, x->o->dtype, eps);
    const mil_argument arguments[] = {{"x", 1, &mean}, {"epsilon", 1, &epsilon}};
    mil_op *op = mil_build_op(b, MIL_OP_rsqrt, factor, arguments, 2);
    return op ? mil_build_binary(b, MIL_OP_mul, v, op->results[0]) : NULL;
}

mil_value *forward_named(forward_context *x, mil_value *v, const char *name) {
    if (v && !x->b.err.status && mil_rename(x->b.function, v, name, &x->b.err)) return NULL;
    return v;
}
