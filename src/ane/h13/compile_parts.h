/* SPDX-License-Identifier: MIT
 * Declarations that the compiler's files share: the place of each value, and the entry points of operations. Private to
 * ane/h13/compile*.c.
 */
#ifndef ANE_H13_COMPILE_PARTS_H
#define ANE_H13_COMPILE_PARTS_H

#include "ane/h13/compile.h"
#include "ane/h13/lower_parts.h"
#include "core/mil/ops.h"

/* Where a value is stored. */
typedef struct compile_place {
    bool known;
    bool view;   /* of its operand; no task makes it */
    bool inside; /* it is made as a part of a concatenation */
    int bar;
    int64_t base;
    int owner;                  /* id of the value that owns the memory, possibly this one */
    int64_t offset, row, plane; /* from the owner's first byte; strides, or 0 for those of the value's type */
} compile_place;

typedef struct compile {
    const mil_function *function;
    engine_object *object;
    emitter e;
    compile_place *places;    /* by value id */
    const mil_value **values; /* by value id */
    int *users;               /* by value id: number of uses as an operand or result */
    bool *taken;              /* by value id: whether an earlier task absorbed the operation */
    int64_t scratch;          /* bytes of base register 3 for values */
    bool patchable;
    const mil_op *last; /* the previous operation that made tasks */
    int chained;        /* values that stay on chip between operations */
    char apart
        [200]; /* why the operation after a matrix product was not absorbed; empty if it was, or without a report */
} compile;

/* Copies a function into `m`, with the forms that the engine lacks written as others (compile_rewrite.c). */
PROPANE_CHECK propane_status compile_rewrite(const mil_function *f, mil_module *m, mil_function **out,
                                             propane_error *err);
/* Returns whether the function has such forms. */
bool compile_needs_rewrite(const mil_function *f);

typedef propane_status (*compile_op)(compile *c, const mil_op *op, propane_error *err);
/* Returns NULL if the operation cannot be compiled. */
compile_op compile_find(mil_opcode code);

/* Returns the engine's tensor for a value, without its place. */
PROPANE_CHECK propane_status compile_shape(const mil_op *op, const mil_value *v, emit_tensor *out, propane_error *err);
/* Returns the value as a tensor in memory. Constants are stored in the constant section; compile_result places a
 * result. */
PROPANE_CHECK propane_status compile_tensor(compile *c, const mil_op *op, mil_value *v, emit_tensor *out,
                                            propane_error *err);
PROPANE_CHECK propane_status compile_result(compile *c, const mil_op *op, const mil_value *v, emit_tensor *out,
                                            propane_error *err);
/* Reads the dimensions of a type as [c, h, w], with all but the last two as channels. Returns false if there are too
 * many channels. */
bool compile_chw(const mil_type *type, int64_t out[3]);
/* Returns whether the channels are a single dimension, so that those in front of it are 1. */
bool compile_plain(const mil_type *type);
/* Returns whether another type can view the value's memory: both have dense rows or the same last dimension. */
bool compile_same_bytes(const mil_type *a, const mil_type *b);
/* Returns the fp16 bits of each element of a constant, in the arena; NULL if memory runs out. */
const uint16_t *compile_halves(compile *c, const mil_const *k);
/* Returns the constant that a value is or reshapes, or NULL if the value is computed. */
mil_value *compile_behind(mil_value *v);
/* Returns the name of a constant that may be overwritten later, or NULL if it may not. */
const char *compile_patched(const compile *c, const mil_value *v);
/* Returns the only operation that uses v, or NULL if v is a result or has other uses. */
const mil_op *compile_only_user(const compile *c, const mil_value *v);
/* Reads the value of a scalar constant. */
bool compile_scalar(const mil_value *v, double *out);

/* Operations after a matrix product that its task absorbs. */
typedef struct compile_post {
    const uint16_t *bias;
    const mil_value *bias_of;
    uint16_t scale;
    bool relu;
    const engine_table *table;
    engine_table made;
    const mil_value *result; /* of the last absorbed operation */
} compile_post;
/* Returns whether `op` is a product with a constant and the only reader of its x. The product that makes x may then
 * absorb it. */
bool compile_is_second(const compile *c, const mil_op *op);
/* The operations of attention as one chain (compile_attention.c); factor may be NULL. */
typedef struct compile_attention {
    const mil_op *scores, *factor, *softmax, *context;
    lower_product first, second;
} compile_attention;
/* Returns whether the matrix product `op` ends such a chain and the chain fits on chip. */
bool compile_attention_of(const compile *c, const mil_op *op, compile_attention *out);
/* Returns the operation whose table is applied when op, its only reader, brings the result on chip to repeat it; NULL if
 * there is none. */
const mil_op *compile_brought(const compile *c, const mil_op *op);
/* Returns whether the operation belongs to such a chain but does not end it, or is one that compile_brought returns. It
 * then makes no tasks, and its result has no place in memory. */
bool compile_is_inner(const compile *c, const mil_op *op);
PROPANE_CHECK propane_status compile_attend(compile *c, const compile_attention *a, propane_error *err);
/* Sets *table or *relu for an activation. Returns false if the engine does not have it. */
bool compile_activation(const mil_op *op, engine_table *table, bool *relu);

/* Returns whether the operation computes element by element, and its tasks take tensors of any strides. */
bool compile_by_element(const mil_op *op);
/* Returns whether a matrix product or convolution may absorb the operation. That task then writes the result. */
bool compile_may_be_absorbed(const compile *c, const mil_op *op);
/* Sets the owner and the strides of every value (compile_share.c). The second function completes the places once all
 * owners have theirs. */
void compile_share(compile *c);
void compile_share_place(compile *c);

/* Chains an operation, whose tasks start at `before`, if its only task is the sole reader of what the task before it
 * stores. If `reasons` is given, appends a line for every operand that went through memory. */
bool compile_chain(compile *c, const mil_op *op, int before, text *reasons);

propane_status compile_binary(compile *c, const mil_op *op, propane_error *err);
propane_status compile_unary(compile *c, const mil_op *op, propane_error *err);
propane_status compile_pow(compile *c, const mil_op *op, propane_error *err);
propane_status compile_layout(compile *c, const mil_op *op, propane_error *err);
propane_status compile_transpose(compile *c, const mil_op *op, propane_error *err);
propane_status compile_slice(compile *c, const mil_op *op, propane_error *err);
propane_status compile_concat(compile *c, const mil_op *op, propane_error *err);
propane_status compile_conv(compile *c, const mil_op *op, propane_error *err);
propane_status compile_matmul(compile *c, const mil_op *op, propane_error *err);
propane_status compile_linear(compile *c, const mil_op *op, propane_error *err);
propane_status compile_reduce(compile *c, const mil_op *op, propane_error *err);
propane_status compile_softmax(compile *c, const mil_op *op, propane_error *err);
propane_status compile_layer_norm(compile *c, const mil_op *op, propane_error *err);

#endif
