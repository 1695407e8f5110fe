/* SPDX-License-Identifier: MIT
 * The pieces of the in-memory form, for the parser and the builder alone: functions, values and operations before they
 * are checked, the names of a function, and what the verifier checks on the way. NULL or false means no memory, except
 * where it says something else. Everything lives in the module's arena.
 */
#ifndef CORE_MIL_IR_EDIT_H
#define CORE_MIL_IR_EDIT_H

#include "core/mil/mil.h"
#include "core/mil/ops.h"
#include "core/mil/text/number.h"

#define MIL_MAX_ELEMENTS ((int64_t)1 << 40)

/* Appended to the module. */
mil_function *mil_make_function(mil_module *m, const char *name, mil_opset opset);
/* A block at the end of op->blocks, whose room is the row's number of them. */
mil_function *mil_make_block(mil_op *op, const char *name);
/* What represents a value of the surrounding function in `block`: a captured parameter, or a literal with the same
 * constant; made at the first call. NULL: no memory, or more than MIL_MAX_CAPTURED values. */
#define MIL_MAX_CAPTURED 4096
mil_value *mil_make_captured(mil_function *block, mil_value *outer);
/* The value of that name that can be seen in `f`, which may be a block; what is around it comes in as captured. *out
 * NULL: there is none. False: mil_make_captured failed. */
bool mil_make_seen(mil_function *f, const char *name, size_t length, mil_value **out);
/* What a block took from outside is written as what it is there, if it still is. */
const mil_value *mil_written(const mil_value *v);
/* When all blocks of an op are there: each gets a parameter for every captured value, in the order of the operand. */
bool mil_make_settle(mil_op *op);
/* Enters the name, which must be free; NULL: an inline literal. `name` is not copied. */
mil_value *mil_make_value(mil_function *f, const char *name, const mil_type *type);
bool mil_make_param(mil_function *f, mil_value *v);
/* After parameters have changed places, or their types have begun or ceased to be states. */
void mil_params_placed(mil_function *f);
bool mil_make_result(mil_function *f, mil_value *v);
/* Not yet in the function; operands empty. */
mil_op *mil_make_op(mil_function *f, const mil_op_info *info);
bool mil_make_operand(mil_op *op, int param, mil_value *const *values, int count);
bool mil_make_results(mil_op *op, int count);     /* room for the pointers */
void mil_make_insert(mil_op *op, mil_op *before); /* NULL: at the end */
/* At the head of the function, behind the constants that were put there before. */
void mil_make_insert_head(mil_op *op);
void mil_make_remove(mil_op *op);

/* [A-Za-z_][A-Za-z0-9_@.]* */
bool mil_name_legal(const char *name, size_t length);
/* NULL: nothing has that name here; blocks: what is around them is not looked at. */
mil_value *mil_scope_find(const mil_function *f, const char *name, size_t length);
bool mil_scope_add(mil_function *f, mil_value *v); /* again, after its name has changed */
void mil_scope_remove(mil_function *f, const mil_value *v);
/* `base`, or base_1, base_2, ...: the first that is free; in the arena. */
const char *mil_scope_unique(mil_function *f, const char *base);
/* A constant of the same type and bits at the head; NULL: none. */
mil_value *mil_scope_constant(const mil_function *f, const mil_const *c);
bool mil_scope_share(mil_function *f, mil_value *v);
bool mil_const_equal(const mil_const *a, const mil_const *b);

/* Element `index` of packed data. False: `value` does not fit the element type. */
bool mil_element_store_real(void *data, mil_dtype dtype, int64_t index, double value);
bool mil_element_store_whole(void *data, mil_dtype dtype, int64_t index, mil_whole value);
uint64_t mil_element_bits(const void *data, mil_dtype dtype, int64_t index);
void mil_element_store_bits(void *data, mil_dtype dtype, int64_t index, uint64_t bits);

/* Rank, dimensions, element count. On false `why` says which. */
bool mil_type_legal(const mil_type *type, char why[200]);
/* Likewise; a tensor may have no elements in any dimension, until mil_settle_constants has taken it out. */
bool mil_type_readable(const mil_type *type, char why[200]);
/* Whether the operation computes with operands of that type there: they are no list of axes or sizes. */
bool mil_operand_computed(const mil_op *op, int param, const mil_type *type);
/* The first of those without elements, and its parameter; NULL: all have some. */
const mil_value *mil_op_empty_operand(const mil_op *op, int *param);
/* A dimension or length that the text left open ("?"), until a rule gives the number. */
#define MIL_OPEN (-1)
/* The one dimension of a type whose rank a file leaves open, too. */
#define MIL_OPEN_RANK (-2)
bool mil_type_is_open(const mil_type *type);
/* Fills what `type` leaves open from `known`, if the rest is equal. */
void mil_type_settle(mil_type *type, const mil_type *known);
#define MIL_MAX_DEPTH 32 /* blocks in blocks */
/* Whether parameter `param` of op's row must be constant, and v is not known. */
bool mil_operand_unknown(const mil_op *op, int param, mil_value *v);
/* Whether `op` waits for values: an argument that must be constant is computed or a parameter, or an operand has open
 * dimensions. */
bool mil_op_waits(const mil_op *op);
/* Needs, classes, shared element types, opset: all that can be said before the rule runs. */
propane_status mil_verify_operands(const mil_op *op, propane_error *err);
propane_status mil_verify_function(const mil_function *f, propane_error *err);

#endif
