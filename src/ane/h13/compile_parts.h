/* SPDX-License-Identifier: MIT
 * What the compiler's files share: where each value lies, and the operations' entry points. Private to
 * ane/h13/compile*.c.
 */
#ifndef ANE_H13_COMPILE_PARTS_H
#define ANE_H13_COMPILE_PARTS_H

#include "ane/h13/compile.h"
#include "ane/h13/lower_parts.h"
#include "core/mil/ops.h"

/* Where a value lies. Views share the place of what they look at. */
typedef struct compile_place {
    bool known;
    int bar;
    int64_t base;
    int owner; /* id of the value whose memory it is; its own: itself */
} compile_place;

typedef struct compile {
    const mil_function *function;
    engine_object *object;
    emitter e;
    compile_place *places; /* by value id */
    int *users;            /* by value id: how many operands and results it is */
    bool *taken;           /* by value id: its operation was taken into the one before */
    int64_t scratch;       /* bytes of base register 3 that values take */
    bool patchable;
    bool alone;  /* the operation before made one task, the last one */
    int chained; /* values that stay on chip between operations */
    char apart
        [200]; /* why the operation after a product was not taken into its task; empty: it was, or none is asked for */
} compile;

typedef propane_status (*compile_op)(compile *c, const mil_op *op, propane_error *err);
/* NULL: the operation cannot be compiled. */
compile_op compile_find(mil_opcode code);

/* The tensor that a value is on the engine, without its place. */
PROPANE_CHECK propane_status compile_shape(const mil_op *op, const mil_value *v, emit_tensor *out, propane_error *err);
/* The value as a tensor in memory. Constants are stored among the constants; a result gets its place with
 * compile_result. */
PROPANE_CHECK propane_status compile_tensor(compile *c, const mil_op *op, mil_value *v, emit_tensor *out,
                                            propane_error *err);
PROPANE_CHECK propane_status compile_result(compile *c, const mil_op *op, const mil_value *v, emit_tensor *out,
                                            propane_error *err);
/* Element dimensions of a type as [c, h, w], all in front of the last two as channels; false: too many channels. */
bool compile_chw(const mil_type *type, int64_t out[3]);
/* The channels are one dimension: those in front of it are 1. */
bool compile_plain(const mil_type *type);
/* fp16 bits of a constant, one by one, in the arena; NULL: no memory. */
const uint16_t *compile_halves(compile *c, const mil_const *k);
/* The constant that a value is, or is another shape of; NULL: it is computed. */
mil_value *compile_behind(mil_value *v);
/* The name of a constant where it may be overwritten later; NULL: it may not. */
const char *compile_patched(const compile *c, const mil_value *v);
/* The value's memory as it is seen by another type; both have dense rows or the same last dimension. */
bool compile_same_bytes(const mil_type *a, const mil_type *b);
/* The only operation that uses v, where it is no result; NULL: there are others. */
const mil_op *compile_only_user(const compile *c, const mil_value *v);
/* A scalar constant's value. */
bool compile_scalar(const mil_value *v, double *out);

/* What follows a product: taken into its task. */
typedef struct compile_post {
    const uint16_t *bias;
    const mil_value *bias_of;
    uint16_t scale;
    bool relu;
    const engine_table *table;
    engine_table made;
    const mil_value *result; /* of the last operation that was taken */
} compile_post;
PROPANE_CHECK propane_status compile_take(compile *c, const mil_value *v, int64_t outputs, int axis, compile_post *out,
                                          propane_error *err);
/* A product with a constant that alone reads its x: it may become one with the product that makes it. */
bool compile_is_second(const compile *c, const mil_op *op);
/* Attention as one chain (compile_attention.c): its operations; factor may be NULL. */
typedef struct compile_attention {
    const mil_op *scores, *factor, *softmax, *context;
    lower_product first, second;
} compile_attention;
/* The product `op` is the end of such a chain, which fits on chip. */
bool compile_attention_of(const compile *c, const mil_op *op, compile_attention *out);
/* The operation belongs to one and is not its end: it makes no tasks, and its result has no place in memory. */
bool compile_is_inner(const compile *c, const mil_op *op);
PROPANE_CHECK propane_status compile_attend(compile *c, const compile_attention *a, propane_error *err);
/* The table of an activation, in *table, or *relu; false: it is none that the engine has. */
bool compile_activation(const mil_op *op, engine_table *table, bool *relu);

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
