/* SPDX-License-Identifier: MIT
 * Owns making operations as messages, for parts of a model file that are not operations (package_pipeline.c). One idea:
 * these messages are read by the same code as those of the file, so each check is written only once. A lack of memory is recorded, not
 * reported.
 */
#include "core/mil/coreml/package_message.h"

#include <string.h>

enum { MAX_ARGUMENTS = 8, MAX_BINDINGS = 4, MAX_OUTPUTS = 4 };

mil_dtype package_message_dtype(int code) {
    for (int i = MIL_DTYPE_NONE + 1; i < MIL_DTYPE_COUNT; i++)
        if (code && mil_dtype_get((mil_dtype)i)->proto_code == code) return (mil_dtype)i;
    return MIL_DTYPE_NONE;
}

static void *package_message_take(package_ops *o, size_t bytes) {
    void *out = o->failed ? NULL : arena_alloc(o->arena, bytes);
    if (!out) o->failed = true;
    return out;
}

#define MESSAGE(o, name, type, init)                                                                                   \
    type *name = package_message_take(o, sizeof *name);                                                                \
    if (name) init(name)

static char *package_message_copy(package_ops *o, const char *text) {
    char *out = o->failed ? NULL : arena_string(o->arena, text);
    if (!out) o->failed = true;
    return out;
}

static Coreml__Dimension *package_message_dimension(package_ops *o, const int64_t *size) {
    MESSAGE(o, d, Coreml__Dimension, coreml__dimension__init);
    MESSAGE(o, constant, Coreml__ConstantDimension, coreml__constant_dimension__init);
    MESSAGE(o, unknown, Coreml__UnknownDimension, coreml__unknown_dimension__init);
    if (!d || !constant || !unknown) return NULL;
    d->kind_case = size ? COREML__DIMENSION__KIND_CONSTANT : COREML__DIMENSION__KIND_UNKNOWN;
    if (size)
        constant->size = (uint64_t)*size, d->constant = constant;
    else
        d->unknown = unknown;
    return d;
}

Coreml__ValueType *package_message_type(package_ops *o, mil_dtype dtype, const int64_t *dims, int rank) {
    MESSAGE(o, type, Coreml__ValueType, coreml__value_type__init);
    MESSAGE(o, t, Coreml__TensorType, coreml__tensor_type__init);
    if (!type || !t) return NULL;
    type->kind_case = COREML__VALUE_TYPE__KIND_TENSOR;
    type->tensor = t;
    t->data_type = mil_dtype_get(dtype)->proto_code;
    t->rank = rank;
    t->dimensions = package_message_take(o, ((size_t)rank + 1) * sizeof *t->dimensions);
    for (int i = 0; i < rank && t->dimensions; i++)
        t->dimensions[t->n_dimensions++] = package_message_dimension(o, dims ? &dims[i] : NULL);
    return o->failed ? NULL : type;
}

Coreml__NamedType *package_message_named(package_ops *o, const char *name, Coreml__ValueType *type) {
    MESSAGE(o, out, Coreml__NamedType, coreml__named_type__init);
    if (!out) return NULL;
    out->name = package_message_copy(o, name);
    out->type = type;
    return o->failed ? NULL : out;
}

void package_message_result(package_ops *o, Coreml__Operation *op, const char *result, mil_dtype dtype, int rank) {
    Coreml__NamedType *named = package_message_named(o, result, package_message_type(o, dtype, NULL, rank));
    if (op && named && op->n_outputs < MAX_OUTPUTS) op->outputs[op->n_outputs++] = named;
}

Coreml__Operation *package_message_op(package_ops *o, const char *type, const char *result, mil_dtype dtype, int rank) {
    MESSAGE(o, op, Coreml__Operation, coreml__operation__init);
    if (!op || o->count == o->room) {
        o->failed = true;
        return NULL;
    }
    op->type = package_message_copy(o, type);
    op->inputs = package_message_take(o, MAX_ARGUMENTS * sizeof *op->inputs);
    op->outputs = package_message_take(o, MAX_OUTPUTS * sizeof *op->outputs);
    if (o->failed) return NULL;
    package_message_result(o, op, result, dtype, rank);
    o->list[o->count++] = op;
    return op;
}

/* ---- arguments -------------------------------------------------------------------------------------------------------------- */

static Coreml__Argument *package_message_argument(package_ops *o, Coreml__Operation *op, const char *key) {
    for (size_t i = 0; op && i < op->n_inputs; i++)
        if (strcmp(op->inputs[i]->key, key) == 0) return op->inputs[i]->value;
    MESSAGE(o, pair, Coreml__ArgumentPair, coreml__argument_pair__init);
    MESSAGE(o, argument, Coreml__Argument, coreml__argument__init);
    if (!op || !pair || !argument || op->n_inputs == MAX_ARGUMENTS) return NULL;
    pair->key = package_message_copy(o, key);
    pair->value = argument;
    argument->bindings = package_message_take(o, MAX_BINDINGS * sizeof *argument->bindings);
    if (o->failed) return NULL;
    op->inputs[op->n_inputs++] = pair;
    return argument;
}

static Coreml__Binding *package_message_binding(package_ops *o, Coreml__Operation *op, const char *key) {
    Coreml__Argument *argument = package_message_argument(o, op, key);
    MESSAGE(o, binding, Coreml__Binding, coreml__binding__init);
    if (!argument || !binding || argument->n_bindings == MAX_BINDINGS) {
        o->failed = true;
        return NULL;
    }
    argument->bindings[argument->n_bindings++] = binding;
    return binding;
}

void package_message_arg(package_ops *o, Coreml__Operation *op, const char *key, const char *name) {
    Coreml__Binding *b = package_message_binding(o, op, key);
    if (!b) return;
    b->kind_case = COREML__BINDING__KIND_NAME;
    b->name = package_message_copy(o, name);
}

/* Makes a literal whose tensor the caller fills in: a scalar if `count` is negative, otherwise a vector. */
static Coreml__TensorValue *package_message_literal(package_ops *o, Coreml__Operation *op, const char *key,
                                                    mil_dtype dtype, int count) {
    const int64_t dim = count;
    Coreml__Binding *b = package_message_binding(o, op, key);
    MESSAGE(o, v, Coreml__Value, coreml__value__init);
    MESSAGE(o, immediate, Coreml__ImmediateValue, coreml__immediate_value__init);
    MESSAGE(o, tensor, Coreml__TensorValue, coreml__tensor_value__init);
    if (!b || !v || !immediate || !tensor) return NULL;
    b->kind_case = COREML__BINDING__KIND_VALUE, b->value = v;
    v->kind_case = COREML__VALUE__KIND_IMMEDIATE, v->immediate = immediate;
    v->type = package_message_type(o, dtype, &dim, count >= 0);
    immediate->kind_case = COREML__IMMEDIATE_VALUE__KIND_TENSOR, immediate->tensor = tensor;
    return v->type ? tensor : NULL;
}

static void package_message_fill_ints(package_ops *o, Coreml__TensorValue *t, const int32_t *values, int count) {
    MESSAGE(o, ints, Coreml__Ints, coreml__ints__init);
    if (!t || !ints) return;
    ints->values = arena_copy(o->arena, values, (size_t)count * sizeof *values);
    ints->n_values = ints->values ? (size_t)count : 0;
    o->failed |= !ints->values;
    t->kind_case = COREML__TENSOR_VALUE__KIND_INTS, t->ints = ints;
}

void package_message_ints(package_ops *o, Coreml__Operation *op, const char *key, const int32_t *values, int count) {
    package_message_fill_ints(o, package_message_literal(o, op, key, MIL_int32, count), values, count);
}

void package_message_int(package_ops *o, Coreml__Operation *op, const char *key, int32_t value) {
    package_message_fill_ints(o, package_message_literal(o, op, key, MIL_int32, -1), &value, 1);
}

void package_message_bool(package_ops *o, Coreml__Operation *op, const char *key, bool value) {
    Coreml__TensorValue *t = package_message_literal(o, op, key, MIL_bool, -1);
    MESSAGE(o, bools, Coreml__Bools, coreml__bools__init);
    protobuf_c_boolean *one = package_message_take(o, sizeof *one);
    if (!t || !bools || !one) return;
    *one = value;
    bools->values = one, bools->n_values = 1;
    t->kind_case = COREML__TENSOR_VALUE__KIND_BOOLS, t->bools = bools;
}

void package_message_float(package_ops *o, Coreml__Operation *op, const char *key, double value) {
    Coreml__TensorValue *t = package_message_literal(o, op, key, MIL_fp32, -1);
    MESSAGE(o, floats, Coreml__Floats, coreml__floats__init);
    float *one = package_message_take(o, sizeof *one);
    if (!t || !floats || !one) return;
    *one = (float)value;
    floats->values = one, floats->n_values = 1;
    t->kind_case = COREML__TENSOR_VALUE__KIND_FLOATS, t->floats = floats;
}

void package_message_text(package_ops *o, Coreml__Operation *op, const char *key, const char *value) {
    Coreml__TensorValue *t = package_message_literal(o, op, key, MIL_string, -1);
    MESSAGE(o, strings, Coreml__Strings, coreml__strings__init);
    char **one = package_message_take(o, sizeof *one);
    if (!t || !strings || !one) return;
    *one = package_message_copy(o, value);
    strings->values = one, strings->n_values = 1;
    t->kind_case = COREML__TENSOR_VALUE__KIND_STRINGS, t->strings = strings;
}
