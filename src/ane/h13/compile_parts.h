/* SPDX-License-Identifier: MIT
 * Declares what the compiler's files share: the place of each value, and the entry points of operations. Private to
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
    bool view;   /* the value is a view of its operand, so no task makes it */
    bool inside; /* the value is made in place as a part of a concatenation */
    int bar;
    int64_t base;
    int owner;                  /* id of the value that owns the memory, possibly this one */
    int64_t offset, row, plane; /* bytes from the owner's start; strides are 0 if they are the type's */
} compile_place;

typedef struct compile {
    const mil_function *function;
    engine_object *object;
    emitter e;
    compile_place *places;    /* by value id */
    const mil_value **values; /* by value id */
    int *users;               /* by value id: number of uses as an operand or result */
    bool *taken;              /* by value id: whether an earlier task absorbed the operation */
    int64_t scratch;          /* bytes of scratch memory (base register 3) for values */
    bool patchable;
    const mil_op *last; /* the previous operation that made tasks */
    int chained;        /* values that stay on chip between operations */
    char apart[200];    /* why the operation after the current product was not absorbed; empty for other operations */
} compile;

/* Copies a function into `m`, and replaces the forms that the engine lacks by equivalent ones (compile_rewrite.c). */
PROPANE_CHECK propane_status compile_rewrite(const mil_function *f, mil_module *m, mil_function **out,
                                             propane_error *err);
/* Returns whether the function has forms that compile_rewrite replaces. */
bool compile_needs_rewrite(const mil_function *f);

typedef propane_status (*compile_op)(compile *c, const mil_op *op, propane_error *err);
/* Returns the function that compiles such operations, or NULL if there is none. */
compile_op compile_find(mil_opcode code);

/* Sets *out to the engine's tensor for a value, without base register and offset. Fails if the engine does not support
 * the type. */
PROPANE_CHECK propane_status compile_shape(const mil_op *op, const mil_value *v, emit_tensor *out, propane_error *err);
/* Sets *out to the tensor of an operand in memory. A constant is stored in the constant section when it is first used.
 * compile_result sets *out to the tensor of a result. */
PROPANE_CHECK propane_status compile_tensor(compile *c, const mil_op *op, mil_value *v, emit_tensor *out,
                                            propane_error *err);
PROPANE_CHECK propane_status compile_result(compile *c, const mil_op *op, const mil_value *v, emit_tensor *out,
                                            propane_error *err);
/* Reads the dimensions of a type as [c, h, w]. All dimensions but the last two form the channels. Returns false if
 * there are too many channels. */
bool compile_chw(const mil_type *type, int64_t out[3]);
/* Returns whether the channels are a single dimension: all dimensions before it are 1. */
bool compile_plain(const mil_type *type);
/* Returns whether values of both types can share memory: their last dimensions are equal, or rows of both are dense. */
bool compile_same_bytes(const mil_type *a, const mil_type *b);
/* Returns the fp16 bits of each element of a constant, in the arena; NULL if memory runs out. */
const uint16_t *compile_halves(compile *c, const mil_const *k);
/* Returns the floating-point constant that a value is, reshapes or casts, or NULL if there is none. */
mil_value *compile_behind(mil_value *v);
/* Returns the name of v if v is a constant that may be overwritten later, else NULL. */
const char *compile_patched(const compile *c, const mil_value *v);
/* Returns the only operation that uses v, or NULL if v is a result or has other uses. */
const mil_op *compile_only_user(const compile *c, const mil_value *v);
/* Reads the value of a constant with one element. Returns false if v is not such a constant. */
bool compile_scalar(const mil_value *v, double *out);

/* Operations after a matrix product or convolution that the product's task absorbs. */
typedef struct compile_post {
    const uint16_t *bias;
    const mil_value *bias_of;
    uint16_t scale;
    bool relu;
    const engine_table *table;
    engine_table made;
    const mil_value *result; /* of the last absorbed operation, or of the product */
} compile_post;
/* Returns whether `op` is a product with a constant and the only reader of its x. A product that makes x may then
 * absorb `op`. */
bool compile_is_second(const compile *c, const mil_op *op);
/* The operations of attention that compile as one chain (compile_attention.c). `factor` is NULL if there is none. */
typedef struct compile_attention {
    const mil_op *scores, *factor, *softmax, *context;
    lower_product first, second;
} compile_attention;
/* Returns whether the matrix product `op` ends such a chain and the chain fits on chip. */
bool compile_attention_of(const compile *c, const mil_op *op, compile_attention *out);
/* Returns the activation whose table `op`, its only reader, applies when it brings its repeated operand on chip.
 * Returns NULL if there is none. */
const mil_op *compile_brought(const compile *c, const mil_op *op);
/* Returns whether the operation belongs to a chain of attention without ending it, or is an activation that
 * compile_brought returns. Such an operation makes no tasks, and its result has no place in memory. */
bool compile_is_inner(const compile *c, const mil_op *op);
PROPANE_CHECK propane_status compile_attend(compile *c, const compile_attention *a, propane_error *err);
/* Sets *table for an activation, or *relu to true for a ReLU. Returns false if the operation is not an activation of
 * the engine. */
bool compile_activation(const mil_op *op, engine_table *table, bool *relu);

/* Returns whether the operation computes element by element, with tasks that accept tensors of any strides. */
bool compile_by_element(const mil_op *op);
/* Returns whether a matrix product or convolution may absorb the operation. The product's task then writes the
 * operation's result. */
bool compile_may_be_absorbed(const compile *c, const mil_op *op);
/* Sets the owner and the strides of every value (compile_share.c). Once all owners have places, compile_share_place
 * derives the places of the values that share their memory. */
void compile_share(compile *c);
void compile_share_place(compile *c);

/* Keeps an operand on chip if the operation's only task, at index `before`, is the sole reader of what the previous
 * task stores. Returns whether an operand stays on chip. Unless `reasons` is NULL, appends a line for every operand
 * that comes from memory. */
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
