/* SPDX-License-Identifier: MIT
 * The tools for writing gradient rules: the op's operands by the names in its row, thin adjoints, and short names for
 * emitting MIL. Every function accepts NULL, and returns NULL once the builder holds an error, so that a rule is
 * straight-line code. Shapes must therefore be read from forward values, never from emitted ones.
 */
#ifndef CORE_GRAD_RULES_H
#define CORE_GRAD_RULES_H

#include "core/grad/grad.h"

/* One rule per name in the GRAD column. `none`, `expanded` and `zero` have one, too, so that the table is complete. */
#define GRAD(rule)                                             propane_status grad_rule_##rule(grad_context *g, const mil_op *op, propane_error *err);
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) grad
#include "core/mil/ops.def"

/* Begins the definition of a rule: the gradient of the operations whose GRAD column is `rule`. */
#define GRADIENT(rule) propane_status grad_rule_##rule(grad_context *g, const mil_op *op, propane_error *err)

/* Returns the operand in the joint function, or NULL if it was left out. A weight or factor is cast to the result's
 * type. */
mil_value *grad_arg(grad_context *g, const mil_op *op, const char *param);
bool grad_wants(const grad_context *g, const mil_op *op, const char *param); /* present, and its gradient is needed */
void grad_give(grad_context *g, const mil_op *op, const char *param, mil_value *adjoint);
mil_value *grad_result(grad_context *g, const mil_op *op); /* results[0] in the joint function */

/* Returns the adjoint of results[0], which may have size 1 in dimensions along which it is constant. Returns it in full
 * if an operand that needs a gradient does not have the result's shape. Only for rules that use the adjoint
 * elementwise: a sum over a thin dimension would count it once. */
mil_value *grad_thin(grad_context *g, const mil_op *op);
/* Sums `adjoint` down to a shape of type's rank that broadcasts against `type`. grad_add does this itself. */
mil_value *grad_fit(grad_context *g, const mil_type *type, mil_value *adjoint);

/* Handles the last op of an fp16 norm that a program spells out as v * rsqrt(sum((k v)^2) + epsilon). Gives v the whole
 * gradient, including the part that flows through the square root, and returns true. Returns false for any other op. */
bool grad_norm_spelt_out(grad_context *g, const mil_op *op);

/* Elementwise ops. */
mil_value *grad_mul(grad_context *g, mil_value *x, mil_value *y);
mil_value *grad_div(grad_context *g, mil_value *x, mil_value *y);
mil_value *grad_plus(grad_context *g, mil_value *x, mil_value *y);
mil_value *grad_minus(grad_context *g, mil_value *x, mil_value *y);
mil_value *grad_scale(grad_context *g, mil_value *x, double k); /* returns x itself if k is 1 */
mil_value *grad_shift(grad_context *g, mil_value *x, double k); /* returns x itself if k is 0 */
mil_value *grad_unary(grad_context *g, mil_opcode code, mil_value *x);
mil_value *grad_compare(grad_context *g, mil_opcode code, mil_value *x, double y);
mil_value *grad_zero(grad_context *g, mil_dtype dtype);
mil_value *grad_select(grad_context *g, mil_value *condition, mil_value *a, mil_value *b);
/* Emits an op with x and the scalar argument `param`. */
mil_value *grad_with_float(grad_context *g, mil_opcode code, mil_value *x, const char *param, double value);

/* Layout. `type` is that of a forward value. */

/* Sums over `axes`, which are kept with size 1. */
mil_value *grad_sum(grad_context *g, mil_value *x, const int64_t *axes, int count);
mil_value *grad_reshape(grad_context *g, mil_value *x, int rank, const int64_t *dim);
mil_value *grad_reshape_as(grad_context *g, mil_value *x, const mil_type *type);
mil_value *grad_pad(grad_context *g, mil_value *x, int rank, const int64_t *before, const int64_t *after);
mil_value *grad_slice_step(grad_context *g, mil_value *x, int rank, const int64_t *begin, const int64_t *end,
                           const int64_t *stride);
mil_value *grad_reverse(grad_context *g, mil_value *x, const int64_t *axes, int count);
mil_value *grad_join(grad_context *g, mil_opcode code, mil_value *const *values, int count,
                     int axis); /* for concat and stack */
/* Spreads x from the shape `dim`, [.., n, ..], to [.., (n-1)*step+1, ..], with step-1 zeros between neighbours along
 * `axis`. Updates `dim`. */
mil_value *grad_spread(grad_context *g, mil_value *x, int rank, int64_t *dim, int axis, int64_t step);

/* An axis or axes attribute as flags and as a list in ascending order. Negative axes count from the end; an attribute
 * that is left out means all axes. */
typedef struct grad_axes {
    bool on[MIL_MAX_RANK];
    int64_t list[MIL_MAX_RANK];
    int count;
    int64_t elements;           /* how many elements are combined */
    int64_t kept[MIL_MAX_RANK]; /* x's dimensions, with 1 on the axes */
} grad_axes;
propane_status grad_axes_get(const mil_op *op, const char *param, const mil_type *x, grad_axes *out,
                             propane_error *err);
propane_status grad_axis_get(const mil_op *op, const mil_type *x, int *out, propane_error *err);
void grad_axes_set(grad_axes *out, const mil_type *x); /* computes the rest from out->on */
/* Returns the product of dim[from .. to-1]. */
int64_t grad_product(const int64_t *dim, int from, int to);

#endif
