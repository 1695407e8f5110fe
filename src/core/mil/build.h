/* SPDX-License-Identifier: MIT
 * Declares the builder, which makes functions op by op with the same rows and the same checks as the parser. The
 * builder keeps the first error, and all later calls do nothing. A model can thus be written as straight-line code and
 * checked once, at the end.
 */
#ifndef CORE_MIL_BUILD_H
#define CORE_MIL_BUILD_H

#include "core/mil/mil.h"
#include "core/mil/ops.h"

typedef struct mil_builder {
    mil_module *module;
    mil_function *function;
    const char *stage; /* copied to every op that is added */
    bool backward;     /* copied to every op that is added */
    /* Allows ops to wait for values of a run. Such an op has open dimensions and makes its function late. */
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

/* Adds an op. `name` names the result; several results are named name_0, name_1, ... With NULL, the results are named
 * after the op. A name already in use gets a numeric suffix. Returns the op, or NULL on an error. */
mil_op *mil_build_op(mil_builder *b, mil_opcode code, const char *name, const mil_argument *arguments, int count);

/* Build an op with blocks. Open the op. For each block of the op's row, in order, begin the block, add its inputs
 * (mil_build_param), ops and results (mil_build_result), and end the block. Then close the op. A block may use values
 * of the functions around it, which are captured. */
mil_op *mil_build_open(mil_builder *b, mil_opcode code, const mil_argument *arguments, int count);
void mil_build_block(mil_builder *b, mil_op *op);
void mil_build_block_end(mil_builder *b);
mil_op *mil_build_close(mil_builder *b, mil_op *op, const char *name); /* returns the op, or NULL on an error */

/* Return constants at the head of the function. Equal constants made by these functions are shared. */
mil_value *mil_build_int(mil_builder *b, int32_t value);
mil_value *mil_build_ints(mil_builder *b, const int64_t *values, int count); /* tensor<int32, [count]> */
mil_value *mil_build_bool(mil_builder *b, bool value);
mil_value *mil_build_text(mil_builder *b, const char *value);
mil_value *mil_build_scalar(mil_builder *b, mil_dtype dtype, double value);
/* Makes a constant of dense elements of type->dtype, which are copied. */
mil_value *mil_build_const(mil_builder *b, const char *name, const mil_type *type, const void *data);
/* Makes a constant from doubles. They are rounded to a floating-point type->dtype; an integer type must hold them
 * exactly. */
mil_value *mil_build_const_f64(mil_builder *b, const char *name, const mil_type *type, const double *data);

/* Build the ops that models and gradients need most often. Operands broadcast as in MIL. */
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

/* Edit a function. */
void mil_op_remove(mil_op *op); /* removes the op from its function; nothing may use the op's results */
void mil_replace_uses(mil_function *f, mil_value *from, mil_value *to); /* replaces `from` in operands and results */
/* Let a pass replace many values. The pass visits the operations from first to last and calls mil_replace_settle to
 * update the operands of each. Between mil_replace_begin and mil_replace_end, mil_replace_uses records the replacement
 * in the value (replaced_by) and updates the function's results at once. mil_replace_end updates all operations. */
mil_value *mil_replaced(mil_value *v); /* returns the last replacement of v, or v if it has none */
void mil_replace_settle(mil_op *op);
void mil_replace_begin(mil_function *f);
void mil_replace_end(mil_function *f);
/* Copies `op` to the place where b inserts. map[id] is the value of b's function that replaces the source value with
 * that id; the copy's results are entered into map. In a late function, an operation whose shapes are not known yet
 * keeps its types. */
mil_op *mil_build_copy(mil_builder *b, const mil_op *op, mil_value **map);
PROPANE_CHECK propane_status mil_rename(mil_function *f, mil_value *v, const char *name, propane_error *err);

#endif
