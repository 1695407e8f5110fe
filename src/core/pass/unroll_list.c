/* SPDX-License-Identifier: MIT
 * Owns the expansion of lists: each list is tracked from operation to operation as the values that it holds, so a read
 * returns the value that was written. If every index is known, a list only names values, and the gradient flows through
 * these values. From its first write at a computed index on, a list is one tensor, which scatters write and gathers
 * read.
 *
 * Refuses computed indices of lists that grow, and lists that come from branches or loops that were not expanded.
 */
#include "core/pass/unroll_list.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"

enum { MAX_ELEMENTS = 4096 };

typedef struct unroll_list {
    mil_type element;
    bool grows;
    int64_t length;
    mil_value **elements; /* [length]; a NULL element is zeros */
    mil_value *whole;     /* [length, *element] instead of the elements, or NULL */
} unroll_list_state;

propane_status unroll_lists_open(unroll_lists *l, propane_error *err) {
    *l = (unroll_lists){.memory = arena_create()};
    return l->memory ? PROPANE_OK : propane_fail_memory(err, 0);
}

void unroll_lists_close(unroll_lists *l) {
    arena_free(l->memory);
    mem_free(l->of);
}

bool unroll_is_list(const mil_op *op) {
    switch (op->info->code) {
    case MIL_OP_make_list:
    case MIL_OP_list_length:
    case MIL_OP_list_read:
    case MIL_OP_list_write:
    case MIL_OP_list_gather:
    case MIL_OP_list_scatter: return true;
    case MIL_OP_identity: return op->results[0]->type.container == MIL_LIST;
    default: return false;
    }
}

static propane_status unroll_list_note(unroll_lists *l, const mil_value *v, unroll_list_state *s, propane_error *err) {
    if (v->id >= l->room) {
        const int room = 2 * v->id + 64;
        unroll_list_state **of = mem_array((size_t)room, sizeof *of);
        if (!of) return propane_fail_memory(err, (size_t)room * sizeof *of);
        if (l->room) memcpy(of, l->of, (size_t)l->room * sizeof *of);
        mem_free(l->of);
        l->of = of;
        l->room = room;
    }
    l->of[v->id] = s;
    return PROPANE_OK;
}

static propane_status unroll_list_find(const unroll_lists *l, const mil_op *op, unroll_list_state **out,
                                       propane_error *err) {
    const mil_value *v = mil_in(op, op->info->code == MIL_OP_identity ? "x" : "ls");
    *out = v->id < l->room ? l->of[v->id] : NULL;
    if (*out) return PROPANE_OK;
    return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                       "no gradient through the list '%s', whose elements are known only at run time; write it in a "
                       "loop that counts to a constant",
                       v->name);
}

/* Sets *out to the indices that are read or written, or to NULL if they are computed. Refuses computed indices of a
 * list that grows. */
static propane_status unroll_list_indices(const mil_op *op, const unroll_list_state *s, const char *param,
                                          const mil_const **out, propane_error *err) {
    mil_value *v = mil_in(op, param);
    *out = mil_know(v) ? v->constant : NULL;
    if (*out && !(*out)->data) *out = NULL;
    if (*out || !s->grows) return PROPANE_OK;
    return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                       "no gradient if the %s of a list that grows is computed at run time; make it a constant, or the "
                       "counter of a loop that counts to a constant",
                       param);
}

static propane_status unroll_list_outside(const mil_op *op, int64_t index, int64_t length, propane_error *err) {
    return mil_op_fail(op, err, PROPANE_ERR_INVALID, "index %lld is outside the list, which has %lld elements",
                       (long long)index, (long long)length);
}

static unroll_list_state *unroll_list_new(unroll_lists *l, const unroll_list_state *from, int64_t length) {
    unroll_list_state *s = ARENA_NEW(l->memory, unroll_list_state);
    mil_value **elements = ARENA_ARRAY(l->memory, length + 1, mil_value *);
    if (!s || !elements) return NULL;
    *s = *from;
    s->whole = NULL;
    if (from->elements) memcpy(elements, from->elements, (size_t)from->length * sizeof *elements);
    s->elements = elements;
    s->length = length;
    return s;
}

static propane_status unroll_list_make(unroll_lists *l, const mil_op *op, propane_error *err) {
    const mil_type *type = &op->results[0]->type;
    unroll_list_state from = {.element = mil_type_bare(type)};
    PROPANE_TRY(mil_attr_bool(op, "dynamic_length", &from.grows, err));
    if (type->length > MAX_ELEMENTS)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                           "no gradient of a list of %lld elements; the maximum is %d", (long long)type->length,
                           MAX_ELEMENTS);
    unroll_list_state *s = unroll_list_new(l, &from, type->length);
    return s ? unroll_list_note(l, op->results[0], s, err) : propane_fail_memory(err, 0);
}

static mil_value *unroll_list_zeros(mil_builder *b, const mil_type *type) {
    mil_value *zero = mil_build_scalar(b, type->dtype, 0);
    if (type->rank == 0) return zero;
    mil_value *shape = mil_build_ints(b, type->dim, type->rank);
    const mil_op *op =
        mil_build_op(b, MIL_OP_fill, NULL, (mil_argument[]){{"shape", 1, &shape}, {"value", 1, &zero}}, 2);
    return op ? op->results[0] : NULL;
}

/* Returns element i of a packed tensor [count, *element]. */
static mil_value *unroll_list_unpacked(mil_builder *b, mil_value *packed, const mil_type *element, int64_t i) {
    int64_t begin[MIL_MAX_RANK] = {i}, size[MIL_MAX_RANK];
    memcpy(size, packed->type.dim, sizeof size);
    size[0] = 1;
    mil_value *row = mil_build_slice(b, packed, begin, size);
    if (element->rank) return mil_build_reshape(b, row, element->dim, element->rank);
    static const int64_t axes[] = {0};
    mil_value *list = mil_build_ints(b, axes, 1);
    const mil_op *op = mil_build_op(b, MIL_OP_squeeze, NULL, (mil_argument[]){{"x", 1, &row}, {"axes", 1, &list}}, 2);
    return op ? op->results[0] : NULL;
}

/* Packs values into a tensor [count, *element]. */
static mil_value *unroll_list_packed(mil_builder *b, mil_value *const *values, int64_t count, const mil_type *element) {
    int64_t dim[MIL_MAX_RANK] = {1};
    for (int d = 0; d < element->rank; d++) dim[d + 1] = element->dim[d];
    mil_value **rows = mem_array((size_t)count + 1, sizeof *rows), *joined = NULL;
    if (!rows) return NULL;
    for (int64_t i = 0; i < count && !b->err.status; i++)
        rows[i] = mil_build_reshape(b, values[i], dim, element->rank + 1);
    if (!b->err.status) joined = count == 1 ? rows[0] : mil_build_concat(b, rows, (int)count, 0);
    mem_free(rows);
    return joined;
}

static propane_status unroll_list_element(mil_builder *b, const mil_op *op, unroll_list_state *s, int64_t index,
                                          mil_value **out, propane_error *err) {
    if (index < 0 || index >= s->length) return unroll_list_outside(op, index, s->length, err);
    if (s->whole) {
        *out = unroll_list_unpacked(b, mil_replaced(s->whole), &s->element, index);
        return PROPANE_OK;
    }
    if (!s->elements[index]) s->elements[index] = unroll_list_zeros(b, &s->element);
    *out = s->elements[index] ? mil_replaced(s->elements[index]) : NULL;
    return PROPANE_OK;
}

/* Sets *out to all elements as one tensor. */
static propane_status unroll_list_whole(mil_builder *b, const mil_op *op, unroll_list_state *s, mil_value **out,
                                        propane_error *err) {
    if (s->whole) {
        *out = mil_replaced(s->whole);
        return PROPANE_OK;
    }
    mil_value **values = mem_array((size_t)s->length + 1, sizeof *values);
    propane_status status = values ? PROPANE_OK : propane_fail_memory(err, (size_t)s->length * sizeof *values);
    for (int64_t i = 0; i < s->length && !status && !b->err.status; i++)
        status = unroll_list_element(b, op, s, i, &values[i], err);
    if (!status && !b->err.status) *out = unroll_list_packed(b, values, s->length, &s->element);
    if (!status && !b->err.status && !*out) status = propane_fail_memory(err, 0);
    mem_free(values);
    return status;
}

/* Builds a gather or scatter along the first axis. Indices outside the list are errors, as in the list's operations. */
static mil_value *unroll_list_at(mil_builder *b, mil_opcode code, mil_value *whole, mil_value *at, mil_value *updates) {
    mil_value *axis = mil_build_int(b, 0), *mode = mil_build_text(b, "update"), *strict = mil_build_bool(b, true);
    const bool scatter = updates != NULL;
    const mil_argument arguments[] = {
        {scatter ? "data" : "x", 1, &whole}, {"indices", 1, &at}, {"axis", 1, &axis},
        {"validate_indices", 1, &strict},    {"mode", 1, &mode},  {"updates", 1, &updates}};
    const mil_op *op = mil_build_op(b, code, NULL, arguments, scatter ? 6 : 4);
    return op ? op->results[0] : NULL;
}

/* Writes at computed indices, or to a list that is already one tensor. */
static propane_status unroll_list_write_whole(unroll_lists *l, mil_builder *b, const mil_op *op, bool packed,
                                              unroll_list_state *from, propane_error *err) {
    int64_t dim[MIL_MAX_RANK] = {1};
    mil_value *whole = NULL, *at = mil_in(op, packed ? "indices" : "index"), *value = mil_in(op, "value");
    PROPANE_TRY(unroll_list_whole(b, op, from, &whole, err));
    unroll_list_state *s = unroll_list_new(l, from, from->length);
    if (!s) return propane_fail_memory(err, 0);
    for (int d = 0; d < from->element.rank; d++) dim[d + 1] = from->element.dim[d];
    if (!packed) {
        value = mil_build_reshape(b, value, dim, from->element.rank + 1);
        at = mil_build_reshape(b, at, (int64_t[]){1}, 1);
    }
    s->whole = unroll_list_at(b, MIL_OP_scatter, whole, at, value);
    return unroll_list_note(l, op->results[0], s, err);
}

static propane_status unroll_list_write(unroll_lists *l, mil_builder *b, const mil_op *op, bool packed,
                                        propane_error *err) {
    const mil_const *at = NULL;
    unroll_list_state *from = NULL;
    PROPANE_TRY(unroll_list_find(l, op, &from, err));
    PROPANE_TRY(unroll_list_indices(op, from, packed ? "indices" : "index", &at, err));
    if (!at || from->whole) return unroll_list_write_whole(l, b, op, packed, from, err);
    const int64_t count = mil_type_count(&at->type);
    int64_t length = from->length;
    for (int64_t i = 0; i < count; i++) {
        const int64_t index = mil_const_i64(at, i);
        if (index < 0 || index >= (from->grows ? MAX_ELEMENTS : from->length))
            return unroll_list_outside(op, index, from->length, err);
        if (index >= length) length = index + 1;
    }
    unroll_list_state *s = unroll_list_new(l, from, length);
    if (!s) return propane_fail_memory(err, 0);
    mil_value *value = mil_in(op, "value");
    for (int64_t i = 0; i < count && !b->err.status; i++)
        s->elements[mil_const_i64(at, i)] = packed ? unroll_list_unpacked(b, value, &s->element, i) : value;
    return unroll_list_note(l, op->results[0], s, err);
}

static propane_status unroll_list_read(unroll_lists *l, mil_builder *b, const mil_op *op, mil_value **out,
                                       propane_error *err) {
    const bool packed = op->info->code == MIL_OP_list_gather;
    const mil_const *at = NULL;
    unroll_list_state *s = NULL;
    PROPANE_TRY(unroll_list_find(l, op, &s, err));
    PROPANE_TRY(unroll_list_indices(op, s, packed ? "indices" : "index", &at, err));
    if (!at) {
        mil_value *whole = NULL;
        PROPANE_TRY(unroll_list_whole(b, op, s, &whole, err));
        *out = whole ? unroll_list_at(b, MIL_OP_gather, whole, mil_in(op, packed ? "indices" : "index"), NULL) : NULL;
        return PROPANE_OK;
    }
    if (!packed) return unroll_list_element(b, op, s, mil_const_i64(at, 0), out, err);
    const int64_t count = mil_type_count(&at->type);
    mil_value **values = mem_array((size_t)count + 1, sizeof *values);
    propane_status status = values ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof *values);
    for (int64_t i = 0; i < count && !status; i++)
        status = unroll_list_element(b, op, s, mil_const_i64(at, i), &values[i], err);
    if (!status && !b->err.status) *out = unroll_list_packed(b, values, count, &s->element);
    if (!status && !b->err.status && !*out) status = propane_fail_memory(err, 0);
    mem_free(values);
    return status;
}

propane_status unroll_list(unroll_lists *l, mil_builder *b, const mil_op *op, mil_value **out, propane_error *err) {
    unroll_list_state *s = NULL;
    *out = NULL;
    switch (op->info->code) {
    case MIL_OP_make_list: return unroll_list_make(l, op, err);
    case MIL_OP_list_write: return unroll_list_write(l, b, op, false, err);
    case MIL_OP_list_scatter: return unroll_list_write(l, b, op, true, err);
    case MIL_OP_list_read:
    case MIL_OP_list_gather: return unroll_list_read(l, b, op, out, err);
    default: break;
    }
    PROPANE_TRY(unroll_list_find(l, op, &s, err));
    if (op->info->code == MIL_OP_identity) return unroll_list_note(l, op->results[0], s, err);
    *out = mil_build_int(b, (int32_t)s->length);
    return PROPANE_OK;
}

propane_status unroll_lists_sweep(const unroll_lists *l, mil_function *f, propane_error *err) {
    bool *used = mem_array((size_t)f->value_count + 1, sizeof *used);
    if (!used) return propane_fail_memory(err, (size_t)f->value_count);
    for (mil_op *op = f->last, *before; op; op = before) {
        before = op->prev;
        const mil_value *v = op->result_count ? op->results[0] : NULL;
        if (v && v->id < l->room && l->of[v->id] && v->def == op && !used[v->id]) {
            mil_op_remove(op);
            continue;
        }
        MIL_FOR_OPERANDS (op, operand) used[operand->id] = true;
    }
    mem_free(used);
    return PROPANE_OK;
}
