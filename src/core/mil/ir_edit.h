/* SPDX-License-Identifier: MIT
 * Declares the pieces of the in-memory form, for code that makes or changes functions: functions, values and operations
 * before they are checked, the names of a function, and the verifier's checks of single operations. NULL or false means
 * that memory ran out unless stated otherwise. Everything lives in the module's arena.
 */
#ifndef CORE_MIL_IR_EDIT_H
#define CORE_MIL_IR_EDIT_H

#include "core/mil/mil.h"
#include "core/mil/ops.h"
#include "core/mil/text/number.h"

#define MIL_MAX_ELEMENTS ((int64_t)1 << 40)

/* Makes a function and appends it to the module. */
mil_function *mil_make_function(mil_module *m, const char *name, mil_opset opset);
/* Makes a block at the end of op->blocks, which has room for the number of blocks in the row. */
mil_function *mil_make_block(mil_op *op, const char *name);
/* Returns the value that represents `outer`, a value of the surrounding function, in `block`: a captured parameter or,
 * if `outer` is a constant, a literal. The value is made at the first call. Returns NULL if memory runs out or the op
 * would capture more than MIL_MAX_CAPTURED values. */
#define MIL_MAX_CAPTURED 4096
mil_value *mil_make_captured(mil_function *block, mil_value *outer);
/* Finds the value called `name` that is visible in `f`, which may be a block; a value from outside the block is
 * captured. Sets *out to NULL if there is no such value. Returns false if mil_make_captured failed. */
bool mil_make_seen(mil_function *f, const char *name, size_t length, mil_value **out);
/* Returns the value outside all blocks that `v` represents, or `v` if it is not captured. If that value is a constant
 * that has been removed since, returns the literal that represents the constant in a block. */
const mil_value *mil_written(const mil_value *v);
/* Completes an op that has all its blocks. Each block gets one parameter per captured value, in the order of the op's
 * captured operand. */
bool mil_make_settle(mil_op *op);
/* Makes a value and enters its name, which must be free; a NULL name makes an inline literal. `name` is not copied. */
mil_value *mil_make_value(mil_function *f, const char *name, const mil_type *type);
bool mil_make_param(mil_function *f, mil_value *v);
/* Must be called after parameters have been reordered, or after their types have been changed to or from states. */
void mil_params_placed(mil_function *f);
bool mil_make_result(mil_function *f, mil_value *v);
bool mil_is_result(const mil_function *f, const mil_value *v);
/* Makes an op that is not yet in the function and has no operands. */
mil_op *mil_make_op(mil_function *f, const mil_op_info *info);
bool mil_make_operand(mil_op *op, int param, mil_value *const *values, int count);
bool mil_make_results(mil_op *op, int count);     /* makes room for the pointers */
void mil_make_insert(mil_op *op, mil_op *before); /* NULL means at the end */
/* Inserts the op at the head of the function, after the ops that this function inserted before. */
void mil_make_insert_head(mil_op *op);
void mil_make_remove(mil_op *op);

/* Returns whether the name matches [A-Za-z_][A-Za-z0-9_@.]*. */
bool mil_name_legal(const char *name, size_t length);
/* Returns the value called `name`, or NULL if there is none. Does not search the functions around a block. */
mil_value *mil_scope_find(const mil_function *f, const char *name, size_t length);
bool mil_scope_add(mil_function *f, mil_value *v); /* enters v under v->name */
void mil_scope_remove(mil_function *f, const mil_value *v);
/* Returns the first of `base`, base_1, base_2, ... that is free in `f` and around it. The name is in the arena. */
const char *mil_scope_unique(mil_function *f, const char *base);
/* Returns a shared constant with the type and bits of `c`, or NULL if there is none. */
mil_value *mil_scope_constant(const mil_function *f, const mil_const *c);
bool mil_scope_share(mil_function *f, mil_value *v);
bool mil_const_equal(const mil_const *a, const mil_const *b);

/* Stores element `index` of packed data. Returns false if `value` does not fit the element type. */
bool mil_element_store_real(void *data, mil_dtype dtype, int64_t index, double value);
bool mil_element_store_whole(void *data, mil_dtype dtype, int64_t index, mil_whole value);
uint64_t mil_element_bits(const void *data, mil_dtype dtype, int64_t index);
void mil_element_store_bits(void *data, mil_dtype dtype, int64_t index, uint64_t bits);

/* Checks element type, rank, dimensions and element count. If one is wrong, returns false and describes it in `why`. */
bool mil_type_legal(const mil_type *type, char why[200]);
/* Like mil_type_legal, but also accepts dimensions of 0, which exist until mil_settle_constants has removed them. */
bool mil_type_readable(const mil_type *type, char why[200]);
/* Returns whether the operation computes with its operand `param`, rather than reading it as a list of axes or
 * sizes. */
bool mil_operand_computed(const mil_op *op, int param, const mil_type *type);
/* Returns the first operand without elements with which `op` computes, and sets *param to its parameter. Returns NULL
 * if there is none. */
const mil_value *mil_op_empty_operand(const mil_op *op, int *param);
/* A dimension or length that the file leaves open ("?"), until a rule determines it. */
#define MIL_OPEN (-1)
/* Marks, as a type's only dimension, that the file leaves even the rank open. */
#define MIL_OPEN_RANK (-2)
bool mil_type_is_open(const mil_type *type);
/* Fills in the open dimensions, length and rank of `type` from `known`, if the two types agree otherwise. */
void mil_type_settle(mil_type *type, const mil_type *known);
#define MIL_MAX_DEPTH 32 /* nesting depth of blocks */
/* Returns whether `v` is not known at compile time although parameter `param` of op's row must be constant. */
bool mil_operand_unknown(const mil_op *op, int param, mil_value *v);
/* Returns whether `op` waits for values: an operand has open dimensions, or an argument that must be constant is not
 * known. */
bool mil_op_waits(const mil_op *op);
/* Checks required parameters, classes, shared element types and opset: everything that can be checked before the rule
 * runs. */
propane_status mil_verify_operands(const mil_op *op, propane_error *err);
propane_status mil_verify_function(const mil_function *f, propane_error *err);

#endif
