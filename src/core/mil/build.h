/* SPDX-License-Identifier: MIT
 * The builder: makes functions op by op, with the same rows and the same checks as the parser. The builder keeps the
 * first error, and all later calls do nothing. A model can thus be written as straight-line code and checked once, at
 * the end.
 */
#ifndef CORE_MIL_BUILD_H
#define CORE_MIL_BUILD_H

#include "core/mil/mil.h"
#include "core/mil/ops.h"

typedef struct mil_builder {
    mil_module *module;
    mil_function *function;
    const char *stage; /* copied to every op that is added */
    bool backward;     /* likewise */
    /* Ops may wait for values of a run. Such an op has open dimensions and makes its function late. */
    bool waits;
    mil_op *before;    /* insert before this op; NULL means at the end */
    propane_error err; /* the first error */
} mil_builder;

/* Begins a new function at the end of the module. `name` is copied. */
void mil_build_begin(mil_builder *b, mil_module *m, const char *name, mil_opset opset);
/* Continues an existing function. */
void mil_build_resume(mil_builder *b, mil_function *f);
mil_value *mil_build_param(mil_builder *b, const char *name, mil_type type);
void mil_build_result(mil_builder *b, mil_value *v);
/* Verifies the function and returns the first error. */
PROPANE_CHECK propane_status mil_build_end(mil_builder *b, propane_error *err);

/* One argument of an op: the values of one parameter. */
typedef struct mil_argument {
    const char *param;
    int count;
    mil_value *const *values;
} mil_argument;

/* Adds an op. `name` names the result; several results are named name_0, name_1, ... NULL takes the name from the op. A
 * name already in use gets a numeric suffix. Returns the op, or NULL on an error. */
mil_op *mil_build_op(mil_builder *b, mil_opcode code, const char *name, const mil_argument *arguments, int count);

/* Builds ops with blocks. Open the op; for each block of its row, in order, begin it, add its inputs (mil_build_param),
 * ops and results (mil_build_result), and end it; then close the op. A block may use values from around it; they are
 * captured. */
mil_op *mil_build_open(mil_builder *b, mil_opcode code, const mil_argument *arguments, int count);
void mil_build_block(mil_builder *b, mil_op *op);
void mil_build_block_end(mil_builder *b);
mil_op *mil_build_close(mil_builder *b, mil_op *op, const char *name); /* returns the op, or NULL on an error */

/* Constants. Equal scalars and short lists are shared. */
mil_value *mil_build_int(mil_builder *b, int32_t value);
mil_value *mil_build_ints(mil_builder *b, const int64_t *values, int count); /* tensor<int32, [count]> */
mil_value *mil_build_bool(mil_builder *b, bool value);
mil_value *mil_build_text(mil_builder *b, const char *value);
mil_value *mil_build_scalar(mil_builder *b, mil_dtype dtype, double value);
/* Makes a constant of dense elements of type->dtype, which are copied. */
mil_value *mil_build_const(mil_builder *b, const char *name, const mil_type *type, const void *data);
/* Makes a constant from doubles, rounded to type->dtype. */
mil_value *mil_build_const_f64(mil_builder *b, const char *name, const mil_type *type, const double *data);

/* The ops that models and gradients need most often. They broadcast as in MIL. */
mil_value *mil_build_unary(mil_builder *b, mil_opcode code, mil_value *x); /* ops whose only operand is x */
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

/* Edits of a function. */
void mil_op_remove(mil_op *op); /* removes it from its function; nothing may use its results */
void mil_replace_uses(mil_function *f, mil_value *from, mil_value *to); /* in operands and results */
/* Lets a pass replace many values. The pass visits the operations from first to last, records each value's replacement
 * in the value (replaced_by), and updates an operation's operands when it reaches it. Between begin and end,
 * mil_replace_uses records the replacement and updates the function's results at once; end updates all operations. */
mil_value *mil_replaced(mil_value *v); /* returns v itself, or its last replacement */
void mil_replace_settle(mil_op *op);
void mil_replace_begin(mil_function *f);
void mil_replace_end(mil_function *f);
/* Copies `op` to where b inserts, with its operands mapped: map[value id in the source] = value here. Enters the
 * results into map. In a late function, an operation whose shapes are not known yet keeps its types. */
mil_op *mil_build_copy(mil_builder *b, const mil_op *op, mil_value **map);
PROPANE_CHECK propane_status mil_rename(mil_function *f, mil_value *v, const char *name, propane_error *err);

#endif
