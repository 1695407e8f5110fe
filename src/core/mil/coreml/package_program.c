/* SPDX-License-Identifier: MIT
 * Owns turning a model file's program into a module, one to one: functions, blocks, operations, values. Each operation
 * is verified in place, as in the text parser. Types that the file leaves open come from the rules. Refuses operations
 * without a row, and names all of them at once.
 */
#include "core/mil/coreml/package_program.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/build.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/coreml/package.h"
#include "core/mil/coreml/package_message.h"
#include "core/mil/ir_edit.h"
#include "core/mil/list_sizes.h"
#include "core/mil/read_slices.h"
#include "core/mil/resolve_shapes.h"
#include "core/mil/specialize.h"

enum { MAX_FUNCTIONS = 1000 };

typedef struct reader {
    mil_module *module;
    mil_function *function; /* the function or block being read */
    const mil_read_options *options;
    propane_error *err;
    mil_interface *seen;  /* of the current function, or NULL */
    mil_list_sizes lists; /* of the current function */
    int depth;
} reader;

static propane_status program_wire_fail(reader *r, const char *format, ...) BASE_PRINTF(2, 3);
static propane_status program_wire_fail(reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const propane_status status = propane_vfail(r->err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    if (r->function)
        return propane_fail_prefix(r->err, status, "%s: function '%.60s'", r->module->source, r->function->name);
    return propane_fail_prefix(r->err, status, "%s", r->module->source);
}

static propane_status program_wire_no_memory(reader *r) { return propane_fail_memory(r->err, 0); }

/* ---- types ------------------------------------------------------------------------------------------------------- */

static propane_status program_wire_read_dimension(reader *r, const Coreml__Dimension *d, int64_t *out) {
    *out = MIL_OPEN;
    if (d && d->kind_case == COREML__DIMENSION__KIND_CONSTANT) {
        if (d->constant->size > (uint64_t)MIL_MAX_ELEMENTS)
            return program_wire_fail(r, "a dimension cannot be %llu", (unsigned long long)d->constant->size);
        *out = (int64_t)d->constant->size;
    } else if (!d || d->kind_case != COREML__DIMENSION__KIND_UNKNOWN) {
        return program_wire_fail(r, "a dimension is neither a number nor flexible");
    } else if (d->unknown->variadic) {
        *out = MIL_OPEN_RANK;
    }
    return PROPANE_OK;
}

static propane_status program_wire_read_tensor_type(reader *r, const Coreml__TensorType *t, mil_type *out) {
    out->dtype = package_message_dtype(t->data_type);
    if (!out->dtype) return program_wire_fail(r, "unknown element type %d", t->data_type);
    if (t->rank != (int64_t)t->n_dimensions || t->rank > MIL_MAX_RANK)
        return program_wire_fail(r, "a type of rank %lld with %zu dimensions; the maximum rank is %d",
                                 (long long)t->rank, t->n_dimensions, MIL_MAX_RANK);
    for (size_t i = 0; i < t->n_dimensions; i++)
        PROPANE_TRY(program_wire_read_dimension(r, t->dimensions[i], &out->dim[out->rank++]));
    for (int i = 0; i < out->rank; i++)
        if (out->dim[i] == MIL_OPEN_RANK && out->rank > 1)
            return program_wire_fail(r, "a type mixes an unknown number of dimensions with others");
    return PROPANE_OK;
}

static propane_status program_wire_read_bare(reader *r, const Coreml__ValueType *t, mil_type *out) {
    if (t && t->kind_case == COREML__VALUE_TYPE__KIND_TENSOR) return program_wire_read_tensor_type(r, t->tensor, out);
    return program_wire_fail(r, "a state, list or dictionary contains a type that is not a tensor");
}

static propane_status program_wire_read_type(reader *r, const Coreml__ValueType *t, mil_type *out) {
    mil_type key = {0};
    char why[200];
    *out = (mil_type){0};
    switch (t ? t->kind_case : COREML__VALUE_TYPE__KIND__NOT_SET) {
    case COREML__VALUE_TYPE__KIND_TENSOR: PROPANE_TRY(program_wire_read_tensor_type(r, t->tensor, out)); break;
    case COREML__VALUE_TYPE__KIND_STATE:
        out->container = MIL_STATE;
        PROPANE_TRY(program_wire_read_bare(r, t->state->wrapped, out));
        break;
    case COREML__VALUE_TYPE__KIND_LIST:
        out->container = MIL_LIST;
        PROPANE_TRY(program_wire_read_bare(r, t->list->type, out));
        PROPANE_TRY(program_wire_read_dimension(r, t->list->length, &out->length));
        break;
    case COREML__VALUE_TYPE__KIND_DICTIONARY:
        out->container = MIL_DICT;
        PROPANE_TRY(program_wire_read_bare(r, t->dictionary->key, &key));
        PROPANE_TRY(program_wire_read_bare(r, t->dictionary->value, out));
        if (key.rank || out->rank) return program_wire_fail(r, "only dictionaries of scalars can be read");
        out->key = key.dtype;
        break;
    default: return program_wire_fail(r, "a value has no readable type");
    }
    if (mil_type_is_open(out) || mil_type_readable(out, why)) return PROPANE_OK;
    return program_wire_fail(r, "invalid type: %s", why);
}

/* ---- constants -------------------------------------------------------------------------------------------------------------- */

static propane_status program_wire_wrong_count(reader *r, int64_t have, int64_t want) {
    return program_wire_fail(r, "a constant of %lld elements whose type has %lld", (long long)have, (long long)want);
}

static propane_status program_wire_fill_strings(reader *r, const Coreml__Strings *s, mil_const *c, void *data) {
    const int64_t count = mil_type_count(&c->type);
    const char **out = data;
    if ((int64_t)s->n_values != count) return program_wire_wrong_count(r, (int64_t)s->n_values, count);
    for (int64_t i = 0; i < count; i++) {
        out[i] = arena_string(r->module->arena, s->values[i]);
        if (!out[i]) return program_wire_no_memory(r);
    }
    return PROPANE_OK;
}

/* Copies elements that are packed as in a weight file. Elements smaller than a byte may also have a byte each. */
static propane_status program_wire_fill_bytes(reader *r, const ProtobufCBinaryData *b, mil_const *c, void *data) {
    const int64_t count = mil_type_count(&c->type);
    if ((int64_t)b->len == c->bytes) {
        if (b->len) memcpy(data, b->data, b->len);
        return PROPANE_OK;
    }
    if (mil_dtype_get(c->type.dtype)->bits >= 8 || (int64_t)b->len != count)
        return program_wire_fail(r, "a constant has %zu bytes; its type needs %lld", b->len, (long long)c->bytes);
    for (int64_t i = 0; i < count; i++) mil_element_store_bits(data, c->type.dtype, i, b->data[i]);
    return PROPANE_OK;
}

#define FILL(list, store)                                                                                              \
    do {                                                                                                               \
        if ((int64_t)(list)->n_values != count) return program_wire_wrong_count(r, (int64_t)(list)->n_values, count);  \
        for (int64_t i = 0; i < count; i++)                                                                            \
            if (!(store))                                                                                              \
                return program_wire_fail(r, "an element of a constant does not fit into its type, %s", info->name);    \
        return PROPANE_OK;                                                                                             \
    } while (0)

static mil_whole program_wire_whole(int64_t value) {
    return (mil_whole){value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value};
}

static propane_status program_wire_fill(reader *r, const Coreml__TensorValue *v, mil_const *c, void *data) {
    const mil_dtype_info *info = mil_dtype_get(c->type.dtype);
    const mil_dtype dtype = c->type.dtype;
    const int64_t count = mil_type_count(&c->type);
    const bool strings = v->kind_case == COREML__TENSOR_VALUE__KIND_STRINGS;
    if (count && strings != (dtype == MIL_string))
        return program_wire_fail(r, "a constant of %s holds values of another type", info->name);
    switch (v->kind_case) {
    case COREML__TENSOR_VALUE__KIND_STRINGS: return program_wire_fill_strings(r, v->strings, c, data);
    case COREML__TENSOR_VALUE__KIND_BYTES: return program_wire_fill_bytes(r, &v->bytes->values, c, data);
    case COREML__TENSOR_VALUE__KIND_FLOATS:
        FILL(v->floats, (mil_element_store_real(data, dtype, i, v->floats->values[i]), true));
    case COREML__TENSOR_VALUE__KIND_DOUBLES:
        FILL(v->doubles, (mil_element_store_real(data, dtype, i, v->doubles->values[i]), true));
    case COREML__TENSOR_VALUE__KIND_INTS:
        FILL(v->ints, mil_element_store_whole(data, dtype, i, program_wire_whole(v->ints->values[i])));
    case COREML__TENSOR_VALUE__KIND_LONGS:
        FILL(v->longs, mil_element_store_whole(data, dtype, i, program_wire_whole(v->longs->values[i])));
    case COREML__TENSOR_VALUE__KIND_BOOLS:
        FILL(v->bools, mil_element_store_whole(data, dtype, i, program_wire_whole(v->bools->values[i])));
    default: return count ? program_wire_wrong_count(r, 0, count) : PROPANE_OK;
    }
}

/* Reads the elements of a list, one after the other; each is a tensor of the list's element type. */
static propane_status program_wire_fill_list(reader *r, const Coreml__ListValue *list, mil_const *c, uint8_t *data) {
    mil_const one = {.type = mil_type_bare(&c->type)};
    one.bytes = mil_type_bytes(&one.type);
    if ((int64_t)list->n_values != c->type.length)
        return program_wire_wrong_count(r, (int64_t)list->n_values, c->type.length);
    for (size_t i = 0; i < list->n_values; i++) {
        const Coreml__Value *v = list->values[i];
        if (v->kind_case != COREML__VALUE__KIND_IMMEDIATE ||
            v->immediate->kind_case != COREML__IMMEDIATE_VALUE__KIND_TENSOR)
            return program_wire_fail(r, "an element of a list is not a tensor");
        PROPANE_TRY(program_wire_fill(r, v->immediate->tensor, &one, data + (int64_t)i * one.bytes));
    }
    return PROPANE_OK;
}

static propane_status program_wire_read_immediate(reader *r, const Coreml__ImmediateValue *v, mil_const *c) {
    c->bytes = mil_type_bytes(&c->type);
    const bool list = c->type.container == MIL_LIST;
    if (!v || v->kind_case != (list ? COREML__IMMEDIATE_VALUE__KIND_LIST : COREML__IMMEDIATE_VALUE__KIND_TENSOR))
        return program_wire_fail(r, "a constant's value does not match its type");
    /* The number of elements in the file bounds this allocation: a byte of the file holds at most eight elements. */
    uint8_t *data = arena_alloc(r->module->arena, c->bytes ? (size_t)c->bytes : 1);
    if (!data) return program_wire_no_memory(r);
    c->data = data;
    return list ? program_wire_fill_list(r, v->list, c, data) : program_wire_fill(r, v->tensor, c, data);
}

/* Returns a bound on the number of elements in the file, so that no memory is allocated for a type that promises
 * more. */
static int64_t program_wire_elements_given(const Coreml__Value *v) {
    if (v->kind_case != COREML__VALUE__KIND_IMMEDIATE) return 0;
    if (v->immediate->kind_case == COREML__IMMEDIATE_VALUE__KIND_LIST) return (int64_t)v->immediate->list->n_values;
    if (v->immediate->kind_case != COREML__IMMEDIATE_VALUE__KIND_TENSOR) return 0;
    const Coreml__TensorValue *t = v->immediate->tensor;
    switch (t->kind_case) {
    case COREML__TENSOR_VALUE__KIND_STRINGS: return (int64_t)t->strings->n_values;
    case COREML__TENSOR_VALUE__KIND_BYTES: return (int64_t)t->bytes->values.len * 8;
    case COREML__TENSOR_VALUE__KIND_FLOATS: return (int64_t)t->floats->n_values;
    case COREML__TENSOR_VALUE__KIND_DOUBLES: return (int64_t)t->doubles->n_values;
    case COREML__TENSOR_VALUE__KIND_INTS: return (int64_t)t->ints->n_values;
    case COREML__TENSOR_VALUE__KIND_LONGS: return (int64_t)t->longs->n_values;
    case COREML__TENSOR_VALUE__KIND_BOOLS: return (int64_t)t->bools->n_values;
    default: return 0;
    }
}

static propane_status program_wire_read_value(reader *r, const Coreml__Value *v, const mil_const **out) {
    mil_const *c = ARENA_NEW(r->module->arena, mil_const);
    if (!c) return program_wire_no_memory(r);
    PROPANE_TRY(program_wire_read_type(r, v->type, &c->type));
    if (mil_type_is_open(&c->type) || (c->type.container != MIL_TENSOR && c->type.container != MIL_LIST))
        return program_wire_fail(r, "a constant must be a tensor or a list whose dimensions are known");
    *out = c;
    if (v->kind_case == COREML__VALUE__KIND_BLOB) {
        c->blob_path = arena_string(r->module->arena, v->blob->path);
        c->blob_offset = v->blob->offset;
        if (!c->blob_path) return program_wire_no_memory(r);
        propane_status status = mil_blob_load(r->module, c, r->err);
        return status ? propane_fail_prefix(r->err, status, "%s", r->module->source) : PROPANE_OK;
    }
    if (v->kind_case != COREML__VALUE__KIND_IMMEDIATE) return program_wire_fail(r, "a constant has no value");
    if (mil_type_count(&c->type) > program_wire_elements_given(v))
        return program_wire_wrong_count(r, program_wire_elements_given(v), mil_type_count(&c->type));
    return program_wire_read_immediate(r, v->immediate, c);
}

static propane_status program_wire_read_literal(reader *r, const Coreml__Value *v, mil_value **out) {
    const mil_const *c = NULL;
    PROPANE_TRY(program_wire_read_value(r, v, &c));
    *out = mil_make_value(r->function, NULL, &c->type);
    if (!*out) return program_wire_no_memory(r);
    (*out)->constant = c;
    return PROPANE_OK;
}

/* Reads a single string, the form of an operation's name. */
static propane_status program_wire_read_text(reader *r, const Coreml__Value *v, const char **out) {
    const mil_const *c = NULL;
    PROPANE_TRY(program_wire_read_value(r, v, &c));
    if (c->type.dtype != MIL_string || c->type.container != MIL_TENSOR || mil_type_count(&c->type) != 1)
        return program_wire_fail(r, "a name is not given as a string");
    *out = mil_const_text(c, 0);
    return PROPANE_OK;
}

/* ---- operations ------------------------------------------------------------------------------------------------------------- */

static propane_status program_wire_find_operand(reader *r, const Coreml__Operation *from, const Coreml__Binding *b,
                                                mil_value **out) {
    if (b->kind_case == COREML__BINDING__KIND_VALUE) return program_wire_read_literal(r, b->value, out);
    if (b->kind_case != COREML__BINDING__KIND_NAME)
        return program_wire_fail(r, "%s: an argument is empty", TEXT_SHOWN(from->type));
    if (!mil_make_seen(r->function, b->name, strlen(b->name), out))
        return program_wire_fail(r, "a block uses more than %d values from outside, or memory ran out",
                                 MIL_MAX_CAPTURED);
    return *out ? PROPANE_OK
                : program_wire_fail(r, "%s: '%s' is not defined here", TEXT_SHOWN(from->type), TEXT_SHOWN(b->name));
}

static propane_status program_wire_find_param(reader *r, const mil_op *op, const char *key, int *out) {
    *out = mil_op_param(op->info, key);
    if (*out >= 0 && op->info->params[*out].need == MIL_CAPTURED) *out = -1;
    if (*out < 0) return program_wire_fail(r, "%s has no argument '%s'", op->info->name, TEXT_SHOWN(key));
    if (op->operands[*out].count)
        return program_wire_fail(r, "%s: argument '%s' is given twice", op->info->name, TEXT_SHOWN(key));
    return PROPANE_OK;
}

static propane_status program_wire_read_argument(reader *r, const Coreml__Operation *from, mil_op *op,
                                                 const Coreml__ArgumentPair *pair) {
    int param = -1;
    const size_t count = pair->value ? pair->value->n_bindings : 0;
    if (!count) return PROPANE_OK;
    PROPANE_TRY(program_wire_find_param(r, op, pair->key, &param));
    if (count > 1 && op->info->params[param].need != MIL_VARIADIC)
        return program_wire_fail(r, "%s: argument '%s' takes one value, not %zu", op->info->name, TEXT_SHOWN(pair->key),
                                 count);
    mil_value **values = mem_array(count, sizeof *values);
    propane_status status = values ? PROPANE_OK : program_wire_no_memory(r);
    for (size_t i = 0; i < count && !status; i++)
        status = program_wire_find_operand(r, from, pair->value->bindings[i], &values[i]);
    if (!status && !mil_make_operand(op, param, values, (int)count)) status = program_wire_no_memory(r);
    mem_free(values);
    return status;
}

/* Reads an attribute, which is the operation's name or an argument that is a literal. */
static propane_status program_wire_read_attribute(reader *r, mil_op *op, const Coreml__ValuePair *pair) {
    int param = -1;
    mil_value *v = NULL;
    if (!pair->value)
        return program_wire_fail(r, "%s: attribute '%s' has no value", op->info->name, TEXT_SHOWN(pair->key));
    if (strcmp(pair->key, "name") == 0 && mil_op_param(op->info, "name") < 0)
        return program_wire_read_text(r, pair->value, &op->label);
    PROPANE_TRY(program_wire_find_param(r, op, pair->key, &param));
    PROPANE_TRY(program_wire_read_literal(r, pair->value, &v));
    return mil_make_operand(op, param, &v, 1) ? PROPANE_OK : program_wire_no_memory(r);
}

static propane_status program_wire_define(reader *r, const Coreml__NamedType *from, mil_value **out) {
    mil_type type;
    PROPANE_TRY(program_wire_read_type(r, from->type, &type));
    if (!mil_name_legal(from->name, strlen(from->name)))
        return program_wire_fail(r, "'%s' is not a valid name; names consist of letters, digits, _ . and @",
                                 TEXT_SHOWN(from->name));
    for (const mil_function *f = r->function; f; f = f->owner ? f->owner->function : NULL)
        if (mil_scope_find(f, from->name, strlen(from->name)))
            return program_wire_fail(r, "'%s' is defined a second time", TEXT_SHOWN(from->name));
    const char *name = arena_string(r->module->arena, from->name);
    *out = name ? mil_make_value(r->function, name, &type) : NULL;
    return *out ? PROPANE_OK : program_wire_no_memory(r);
}

/* Defines the results. Types that the file leaves open come from the operation's rule, unless the operation waits
 * (`late`). */
static propane_status program_wire_read_results(reader *r, const Coreml__Operation *from, mil_op *op, bool late) {
    mil_type types[MIL_MAX_RESULTS];
    int count = 0;
    bool open = false;
    if (from->n_outputs > MIL_MAX_RESULTS)
        return program_wire_fail(r, "%s has %zu results", op->info->name, from->n_outputs);
    if (!mil_make_results(op, (int)from->n_outputs)) return program_wire_no_memory(r);
    op->result_count = 0;
    for (size_t i = 0; i < from->n_outputs; i++) {
        PROPANE_TRY(program_wire_define(r, from->outputs[i], &op->results[i]));
        op->results[i]->def = op;
        op->results[i]->index = (int)i;
        op->result_count = (int)i + 1;
        open |= mil_type_is_open(&op->results[i]->type);
    }
    if (op->result_count && op->label && strcmp(op->label, op->results[0]->name) == 0) op->label = NULL;
    if (op->info->code == MIL_OP_const && op->operands[0].count && op->result_count)
        op->results[0]->constant = op->operands[0].values[0]->constant;
    if (!open || late) return PROPANE_OK;
    PROPANE_TRY(mil_verify_operands(op, r->err));
    PROPANE_TRY(op->info->rule(op, types, &count, r->err));
    for (int i = 0; i < count && i < op->result_count; i++) mil_type_settle(&op->results[i]->type, &types[i]);
    return PROPANE_OK;
}

/* Replaces *v by an identity with a new name. Core ML distinguishes a result from an input of the same name by
 * position; in a module, a name denotes one value. */
static propane_status program_wire_through_identity(reader *r, mil_value **v) {
    mil_builder b;
    const char *name = arena_printf(r->module->arena, "%s_out", (*v)->name);
    for (int i = 1; name && mil_scope_find(r->function, name, strlen(name)); i++)
        name = arena_printf(r->module->arena, "%s_out_%d", (*v)->name, i);
    if (!name) return program_wire_no_memory(r);
    mil_build_resume(&b, r->function);
    mil_value *same = mil_build_unary(&b, MIL_OP_identity, *v);
    if (!same) return propane_fail(r->err, b.err.status, "%s", b.err.text);
    PROPANE_TRY(mil_rename(r->function, same, name, r->err));
    if (r->seen && !mil_interface_rename_output(r->seen, (*v)->name, same->name)) return program_wire_no_memory(r);
    *v = same;
    return PROPANE_OK;
}

static propane_status program_wire_read_body(reader *r, const Coreml__Block *from);

/* Reads a block. Open parts of its inputs' types come from the loop variables. */
static propane_status program_wire_read_block(reader *r, mil_op *op, const Coreml__Block *from) {
    char name[100];
    mil_function *around = r->function;
    const mil_operand *given = &op->operands[0];
    snprintf(name, sizeof name, "%.80s_block%d", op->info->name, op->block_count);
    if (++r->depth > MIL_MAX_DEPTH) return program_wire_fail(r, "more than %d nested blocks", MIL_MAX_DEPTH);
    mil_function *block = mil_make_block(op, name);
    if (!block) return program_wire_no_memory(r);
    r->function = block;
    for (size_t i = 0; i < from->n_inputs; i++) {
        mil_value *v = NULL;
        PROPANE_TRY(program_wire_define(r, from->inputs[i], &v));
        if (op->info->params[0].need == MIL_VARIADIC && i < (size_t)given->count)
            mil_type_settle(&v->type, &given->values[i]->type);
        if (!mil_make_param(block, v)) return program_wire_no_memory(r);
    }
    PROPANE_TRY(program_wire_read_body(r, from));
    r->function = around;
    r->depth--;
    return PROPANE_OK;
}

static propane_status program_wire_read_operation(reader *r, const Coreml__Operation *from) {
    const mil_op_info *info = mil_op_find(from->type, strlen(from->type));
    if (!info) return program_wire_fail(r, "unknown operation '%s'", TEXT_SHOWN(from->type));
    mil_op *op = mil_make_op(r->function, info);
    if (!op) return program_wire_no_memory(r);
    for (size_t i = 0; i < from->n_inputs; i++) PROPANE_TRY(program_wire_read_argument(r, from, op, from->inputs[i]));
    for (size_t i = 0; i < from->n_attributes; i++)
        PROPANE_TRY(program_wire_read_attribute(r, op, from->attributes[i]));
    if ((size_t)mil_op_blocks(info) != from->n_blocks)
        return program_wire_fail(r, "%s has %zu blocks; it must have %d", info->name, from->n_blocks,
                                 mil_op_blocks(info));
    for (size_t i = 0; i < from->n_blocks; i++) PROPANE_TRY(program_wire_read_block(r, op, from->blocks[i]));
    if (from->n_blocks && !mil_make_settle(op)) return program_wire_no_memory(r);
    if (from->n_outputs == 1) PROPANE_TRY(mil_read_slice(op, from->outputs[0]->name, r->err));
    bool late = false;
    PROPANE_TRY(mil_list_sizes_read(&r->lists, r->options, op, &late, r->err));
    PROPANE_TRY(program_wire_read_results(r, from, op, late));
    mil_make_insert(op, NULL);
    return late ? PROPANE_OK : mil_verify_op(op, r->err);
}

/* Core ML returns a value once even if it occurs several times among a function's results. */
static propane_status program_wire_read_outputs(reader *r, const Coreml__Block *from, id_map *known) {
    for (size_t i = 0; i < from->n_outputs; i++) {
        mil_value *v = NULL;
        if (!mil_make_seen(r->function, from->outputs[i], strlen(from->outputs[i]), &v))
            return program_wire_no_memory(r);
        if (!v) return program_wire_fail(r, "result '%s' is not defined", TEXT_SHOWN(from->outputs[i]));
        const bool again = !r->function->owner && id_map_find(known, (uint64_t)v->id);
        if (again) continue;
        if (!id_map_enter(known, (uint64_t)v->id, 1)) return program_wire_no_memory(r);
        if (!r->function->owner && !v->def) PROPANE_TRY(program_wire_through_identity(r, &v));
        if (!mil_make_result(r->function, v)) return program_wire_no_memory(r);
    }
    return PROPANE_OK;
}

static propane_status program_wire_read_body(reader *r, const Coreml__Block *from) {
    id_map known = {0};
    for (size_t i = 0; i < from->n_operations; i++) PROPANE_TRY(program_wire_read_operation(r, from->operations[i]));
    const propane_status status = program_wire_read_outputs(r, from, &known);
    id_map_deinit(&known);
    return status;
}

/* ---- unknown operations ----------------------------------------------------------------------------------------------------- */

typedef struct unknown {
    const char *names[12];
    int counts[12], kinds;
    bool more;
} unknown;

static void program_wire_note_unknown(unknown *u, const char *name) {
    if (mil_op_find(name, strlen(name))) return;
    for (int i = 0; i < u->kinds; i++)
        if (strcmp(u->names[i], name) == 0) {
            u->counts[i]++;
            return;
        }
    u->more |= u->kinds == 12;
    if (u->kinds == 12) return;
    u->names[u->kinds] = name;
    u->counts[u->kinds++] = 1;
}

static void program_wire_find_unknown(unknown *u, const Coreml__Block *block) {
    for (size_t i = 0; i < block->n_operations; i++) {
        const Coreml__Operation *op = block->operations[i];
        program_wire_note_unknown(u, op->type);
        for (size_t k = 0; k < op->n_blocks; k++) program_wire_find_unknown(u, op->blocks[k]);
    }
}

static propane_status program_wire_refuse_unknown(reader *r, const Coreml__Block *block) {
    unknown u = {0};
    char list[700] = "";
    size_t used = 0;
    program_wire_find_unknown(&u, block);
    if (!u.kinds) return PROPANE_OK;
    for (int i = 0; i < u.kinds && used < sizeof list - 100; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.50s (%d)", i ? ", " : "", TEXT_SHOWN(u.names[i]),
                                 u.counts[i]);
    (void)program_wire_fail(r, "unknown operations: %s%s; `propane ops` lists the known ones", list,
                            u.more ? ", ..." : "");
    if (r->err) r->err->status = PROPANE_ERR_UNSUPPORTED;
    return PROPANE_ERR_UNSUPPORTED;
}

/* ---- functions -------------------------------------------------------------------------------------------------------------- */

/* Returns the opset of a name such as "CoreML7", which is ios17. */
static mil_opset program_wire_opset_of(const char *name) {
    if (strncmp(name, "CoreML", 6) != 0 || name[6] < '5' || name[6] > '8' || name[7]) return MIL_OPSET_NONE;
    return (mil_opset)(MIL_IOS15 + name[6] - '5');
}

static propane_status program_wire_read_params(reader *r, const Coreml__Function *from) {
    for (size_t i = 0; i < from->n_inputs; i++) {
        mil_value *v = NULL;
        PROPANE_TRY(program_wire_define(r, from->inputs[i], &v));
        const mil_feature *feature = mil_feature_find(r->seen, PROPANE_INPUT, v->name);
        if (!feature) feature = mil_feature_find(r->seen, PROPANE_STATE, v->name);
        PROPANE_TRY(mil_open_settle(r->options, r->module->source, v->name, feature, NULL, &v->type, r->err));
        if (!mil_make_param(r->function, v)) return program_wire_no_memory(r);
    }
    return PROPANE_OK;
}

static propane_status program_wire_read_function(reader *r, const char *name, const Coreml__Function *from) {
    const Coreml__Block *block = NULL;
    mil_opset opset = program_wire_opset_of(from->opset);
    r->function = NULL;
    if (!mil_name_legal(name, strlen(name)))
        return program_wire_fail(r, "'%s' is not a valid function name", TEXT_SHOWN(name));
    for (const mil_function *f = r->module->functions; f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return program_wire_fail(r, "function '%s' is defined a second time", TEXT_SHOWN(name));
    if (!opset)
        return program_wire_fail(r, "function '%s' has opset \"%s\"; CoreML5 to CoreML8 are supported",
                                 TEXT_SHOWN(name), TEXT_SHOWN(from->opset));
    for (size_t i = 0; i < from->n_blocks; i++)
        if (strcmp(from->blocks[i]->key, from->opset) == 0) block = from->blocks[i]->value;
    if (!block) return program_wire_fail(r, "function '%s' has no body for its opset", TEXT_SHOWN(name));
    r->lists = (mil_list_sizes){0};
    r->seen = (mil_interface *)(uintptr_t)mil_interface_of(r->module, name);
    if (r->seen && !mil_interface_unite_outputs(r->seen)) return program_wire_no_memory(r);
    for (bool again = true; again;) {
        r->function = mil_make_function(r->module, name, opset);
        if (!r->function) return program_wire_no_memory(r);
        PROPANE_TRY(program_wire_refuse_unknown(r, block));
        PROPANE_TRY(program_wire_read_params(r, from));
        PROPANE_TRY(program_wire_read_body(r, block));
        PROPANE_TRY(mil_list_sizes_end(&r->lists, r->function, &again, r->err));
    }
    PROPANE_TRY(mil_settle_constants(&r->function, r->err));
    return mil_verify_function(r->function, r->err);
}

/* Reads buildInfo if it has the same form as in text, a dictionary of strings. */
static propane_status program_wire_read_build_info(reader *r, const Coreml__Program *program) {
    mil_module *m = r->module;
    const Coreml__DictionaryValue *d = NULL;
    m->build_info_count = 0;
    for (size_t i = 0; i < program->n_attributes; i++) {
        const Coreml__Value *v = program->attributes[i]->value;
        if (strcmp(program->attributes[i]->key, "buildInfo") == 0 && v &&
            v->kind_case == COREML__VALUE__KIND_IMMEDIATE &&
            v->immediate->kind_case == COREML__IMMEDIATE_VALUE__KIND_DICTIONARY)
            d = v->immediate->dictionary;
    }
    if (!d) return PROPANE_OK;
    m->build_info = ARENA_ARRAY(m->arena, d->n_values + 1, mil_pair);
    if (!m->build_info) return program_wire_no_memory(r);
    for (size_t i = 0; i < d->n_values; i++) {
        mil_pair *pair = &m->build_info[i];
        if (!d->values[i]->key || !d->values[i]->value) return program_wire_fail(r, "buildInfo has an empty pair");
        PROPANE_TRY(program_wire_read_text(r, d->values[i]->key, &pair->key));
        PROPANE_TRY(program_wire_read_text(r, d->values[i]->value, &pair->value));
        m->build_info_count++;
    }
    return PROPANE_OK;
}

propane_status package_program_read(mil_module *m, const Coreml__Program *program, const mil_read_options *options,
                                    propane_error *err) {
    reader r = {.module = m, .options = options, .err = err};
    if (program->version != 1)
        return program_wire_fail(&r, "program version %lld is not supported, only 1", (long long)program->version);
    if (!program->n_functions || program->n_functions > MAX_FUNCTIONS)
        return program_wire_fail(&r, "the program has %zu functions; it must have 1 to %d", program->n_functions,
                                 MAX_FUNCTIONS);
    PROPANE_TRY(program_wire_read_build_info(&r, program));
    for (size_t i = 0; i < program->n_functions; i++) {
        const Coreml__FunctionPair *pair = program->functions[i];
        if (!pair->value) return program_wire_fail(&r, "function '%s' is empty", TEXT_SHOWN(pair->key));
        PROPANE_TRY(program_wire_read_function(&r, pair->key, pair->value));
    }
    if (m->default_function && !mil_module_function(m, NULL, err)) return err ? err->status : PROPANE_ERR_NOT_FOUND;
    return mil_open_check(m, options, err);
}
