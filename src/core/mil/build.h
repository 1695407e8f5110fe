/* SPDX-License-Identifier: MIT
 * The builder: makes functions op by op, with the same rows and the same checks as the parser. The first error stays in
 * the builder and all later calls do nothing, so a model is written as straight code and checked once, at the end.
 */
#ifndef CORE_MIL_BUILD_H
#define CORE_MIL_BUILD_H

#include "core/mil/mil.h"
#include "core/mil/ops.h"

typedef struct mil_builder {
    mil_module *module;
    mil_function *function;
    const char *stage; /* given to every op that is added */
    bool backward;     /* likewise */
    bool waits;        /* an op may wait for values of a run; it has open dimensions then, and the function is late */
    mil_op *before;    /* insert before this op; NULL: at the end */
    propane_error err; /* the first error */
} mil_builder;

/* A new function at the end of the module. `name` is copied. */
void mil_build_begin(mil_builder *b, mil_module *m, const char *name, mil_opset opset);
/* Goes on with a function that exists. */
void mil_build_resume(mil_builder *b, mil_function *f);
mil_value *mil_build_param(mil_builder *b, const char *name, mil_type type);
void mil_build_result(mil_builder *b, mil_value *v);
/* Verifies the function; returns the first error. */
PROPANE_CHECK propane_status mil_build_end(mil_builder *b, propane_error *err);

/* One argument of an op. */
typedef struct mil_argument {
    const char *param;
    int count;
    mil_value *const *values;
} mil_argument;

/* Adds an op; `name` (of the result; results of a multi-result op get _0, _1, ... after it) may be NULL: made from the
 * op's name. A name that is taken gets a number after it. Returns the op, NULL on an error. */
mil_op *mil_build_op(mil_builder *b, mil_opcode code, const char *name, const mil_argument *arguments, int count);

/* Ops with blocks: open the op, then for each block of its row in order begin it, add its inputs (mil_build_param), ops
 * and results (mil_build_result), end it; close the op. Values from around a block may be used in it and are
 * captured. */
mil_op *mil_build_open(mil_builder *b, mil_opcode code, const mil_argument *arguments, int count);
void mil_build_block(mil_builder *b, mil_op *op);
void mil_build_block_end(mil_builder *b);
mil_op *mil_build_close(mil_builder *b, mil_op *op, const char *name); /* the op; NULL on an error */

/* Constants. Scalars and short lists are shared where they are equal. */
mil_value *mil_build_int(mil_builder *b, int32_t value);
mil_value *mil_build_ints(mil_builder *b, const int64_t *values, int count); /* tensor<int32, [count]> */
mil_value *mil_build_bool(mil_builder *b, bool value);
mil_value *mil_build_text(mil_builder *b, const char *value);
mil_value *mil_build_scalar(mil_builder *b, mil_dtype dtype, double value);
/* Takes dense elements of type->dtype; copied. */
mil_value *mil_build_const(mil_builder *b, const char *name, const mil_type *type, const void *data);
/* From doubles, rounded to type->dtype. */
mil_value *mil_build_const_f64(mil_builder *b, const char *name, const mil_type *type, const double *data);

/* The ops that models and gradients write all the time. Broadcasting as in MIL. */
mil_value *mil_build_unary(mil_builder *b, mil_opcode code, mil_value *x); /* ops with x alone */
mil_value *mil_build_binary(mil_builder *b, mil_opcode code, mil_value *x, mil_value *y);
mil_value *mil_build_binary_scalar(mil_builder *b, mil_opcode code, mil_value *x, double y);
mil_value *mil_build_matmul(mil_builder *b, mil_value *x, mil_value *y, bool transpose_x, bool transpose_y);
mil_value *mil_build_conv1x1(mil_builder *b, mil_value *x, mil_value *weight);
mil_value *mil_build_reduce(mil_builder *b, mil_opcode code, mil_value *x, const int64_t *axes, int count,
                            bool keep_dims);
mil_value *mil_build_softmax(mil_builder *b, mil_value *x, int axis);
mil_value *mil_build_reshape(mil_builder *b, mil_value *x, const int64_t *dim, int rank);
mil_value *mil_build_transpose(mil_builder *b, mil_value *x, const int64_t *perm, int rank);
mil_value *mil_build_slice(mil_builder *b, mil_value *x, const int64_t *begin, const int64_t *size);
mil_value *mil_build_concat(mil_builder *b, mil_value *const *values, int count, int axis);
mil_value *mil_build_cast(mil_builder *b, mil_value *x, mil_dtype dtype);

/* Edits. */
void mil_op_remove(mil_op *op); /* from its function; nothing may use its results */
void mil_replace_uses(mil_function *f, mil_value *from, mil_value *to); /* operands and results */
/* A pass that replaces many values goes from the first operation to the last, notes what takes a value's place in the value
 * (replaced_by), and settles each operation's operands as it comes to it. Between begin and end mil_replace_uses does the first,
 * and changes results at once; end settles all. */
mil_value *mil_replaced(mil_value *v); /* what it is now: itself, or the last that took its place */
void mil_replace_settle(mil_op *op);
void mil_replace_begin(mil_function *f);
void mil_replace_end(mil_function *f);
/* Copies `op` to where b inserts, with its operands mapped: map[value id in the source] = value here. The results
 * are entered into map. In a late function an operation that waits keeps the types that it has. */
mil_op *mil_build_copy(mil_builder *b, const mil_op *op, mil_value **map);
PROPANE_CHECK propane_status mil_rename(mil_function *f, mil_value *v, const char *name, propane_error *err);

#endif
