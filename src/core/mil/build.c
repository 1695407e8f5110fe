/* SPDX-License-Identifier: MIT
 * Owns the builder. Every op passes the verifier's operand checks and its row's rule before it enters the function,
 * unless it waits for values of a run. A finished function can therefore be wrong only as a whole, for example without
 * results. Scalars and lists of integers become constants at the head of the function, so they precede every user,
 * including ops inserted later. Refuses values of another function.
 */
#include "core/mil/build.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/mil/probe_types.h"

enum { SHARED_ELEMENTS = 16 };

static void *build_no_memory(mil_builder *b) {
    propane_fail_memory(&b->err, 0);
    return NULL;
}

static bool build_failed(const mil_builder *b) { return b->err.status != PROPANE_OK; }

/* Reports errors that do not concern a single op. */
static void *build_fail(mil_builder *b, const char *format, ...) BASE_PRINTF(2, 3);
static void *build_fail(mil_builder *b, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const propane_status status = propane_vfail(&b->err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    propane_fail_prefix(&b->err, status, "%s: function '%.60s'", b->module->source,
                        b->function ? b->function->name : "");
    return NULL;
}

/* ---- functions ------------------------------------------------------------------------------------------------------------- */

void mil_build_begin(mil_builder *b, mil_module *m, const char *name, mil_opset opset) {
    *b = (mil_builder){.module = m};
    for (const mil_function *f = m->functions; f; f = f->next)
        if (strcmp(f->name, name) == 0) {
            propane_fail(&b->err, PROPANE_ERR_INVALID, "%s: function '%.60s' already exists", m->source, name);
            return;
        }
    b->function = mil_make_function(m, name, opset);
    if (!b->function) build_no_memory(b);
}

void mil_build_resume(mil_builder *b, mil_function *f) { *b = (mil_builder){.module = f->module, .function = f}; }

static bool build_taken_outside(const mil_function *f, const char *name) {
    for (f = f->owner ? f->owner->function : NULL; f; f = f->owner ? f->owner->function : NULL)
        if (mil_scope_find(f, name, strlen(name))) return true;
    return false;
}

/* Copies the name into the arena, with a suffix if the function or a function around it already uses it. */
static const char *build_new_name(mil_builder *b, const char *name) {
    char numbered[400];
    if (b->function->owner && build_taken_outside(b->function, name)) {
        for (int i = 1; i == 1 || build_taken_outside(b->function, numbered); i++)
            snprintf(numbered, sizeof numbered, "%.380s_%d", name, i);
        name = numbered;
    }
    if (!mil_name_legal(name, strlen(name)))
        return build_fail(
            b, "'%.60s' is not a valid name; use letters, digits, _ . and @, and do not begin with a digit", name);
    const char *unique = mil_scope_unique(b->function, name);
    return unique ? unique : build_no_memory(b);
}

mil_value *mil_build_param(mil_builder *b, const char *name, mil_type type) {
    char why[200];
    if (build_failed(b)) return NULL;
    if (!mil_type_legal(&type, why)) return build_fail(b, "parameter '%.60s' has an invalid type: %s", name, why);
    if (mil_scope_find(b->function, name, strlen(name))) return build_fail(b, "the name '%.60s' is taken", name);
    const char *own = build_new_name(b, name);
    if (!own) return NULL;
    mil_value *v = mil_make_value(b->function, own, &type);
    return v && mil_make_param(b->function, v) ? v : build_no_memory(b);
}

static mil_value *build_seen_from(mil_function *f, mil_value *v);

void mil_build_result(mil_builder *b, mil_value *v) {
    if (build_failed(b)) return;
    if (!v)
        build_fail(b, "result %d is NULL", b->function->result_count);
    else if (!(v = build_seen_from(b->function, v)))
        build_fail(b, "result %d belongs to another function or was removed", b->function->result_count);
    else if (!mil_make_result(b->function, v))
        build_no_memory(b);
}

propane_status mil_build_end(mil_builder *b, propane_error *err) {
    if (!build_failed(b)) (void)!mil_verify_function(b->function, &b->err);
    if (build_failed(b) && err) *err = b->err;
    return b->err.status;
}

/* ---- operations -------------------------------------------------------------------------------------------------------------- */

/* Returns the op to insert before, or NULL for the end. It is never a constant, so the constants at the head stay
 * together. */
static mil_op *build_place(const mil_builder *b) {
    mil_op *before = b->before;
    while (before && before->info->code == MIL_OP_const) before = before->next;
    return before;
}

/* Returns a copy of `stage` that lives as long as the module. Neighbouring ops share one string. */
static const char *build_own_stage(mil_builder *b, const char *stage) {
    const mil_op *last = b->function->last;
    if (!stage) return NULL;
    if (last && last->stage && strcmp(last->stage, stage) == 0) return last->stage;
    return arena_string(b->module->arena, stage);
}

/* Returns the value that represents `v` in `f`: `v` itself, or a captured parameter if `f` is a block inside v's
 * function. Returns NULL if `v` is not visible in `f`. */
static mil_value *build_seen_from(mil_function *f, mil_value *v) {
    if (v->home == f) return v->def && v->def->function != f ? NULL : v;
    if (!f->owner) return NULL;
    mil_value *outer = build_seen_from(f->owner->function, v);
    return outer ? mil_make_captured(f, outer) : NULL;
}

static bool build_give_arguments(mil_builder *b, mil_op *op, const mil_argument *arguments, int count) {
    for (int i = 0; i < count; i++) {
        const mil_argument *a = &arguments[i];
        int index = mil_op_param(op->info, a->param);
        if (index < 0) {
            mil_op_fail(op, &b->err, PROPANE_ERR_INVALID, "it has no argument '%.60s'", a->param);
            return false;
        }
        if (a->count == 0 || (a->count == 1 && !a->values[0])) continue; /* left out */
        if (!mil_make_operand(op, index, a->values, a->count)) return build_no_memory(b);
        for (int k = 0; k < a->count; k++) {
            mil_value *v = a->values[k] ? build_seen_from(b->function, a->values[k]) : NULL;
            if (!v) {
                mil_op_fail(op, &b->err, PROPANE_ERR_INVALID, "value %d of %s %s", k, a->param,
                            a->values[k] ? "belongs to another function or was removed" : "is NULL");
                return false;
            }
            op->operands[index].values[k] = v;
        }
    }
    return true;
}

static bool build_make_results(mil_builder *b, mil_op *op, const char *name, const mil_type *types, int count) {
    if (!mil_make_results(op, count)) return build_no_memory(b);
    for (int i = 0; i < count; i++) {
        char why[200], base[300];
        if (!mil_type_is_open(&types[i]) && !mil_type_readable(&types[i], why)) {
            op->result_count = 0;
            mil_op_fail(op, &b->err, PROPANE_ERR_INVALID, "its result is invalid: %s", why);
            return false;
        }
        if (count == 1)
            snprintf(base, sizeof base, "%s", name);
        else
            snprintf(base, sizeof base, "%s_%d", name, i);
        const char *own = build_new_name(b, base);
        mil_value *v = own ? mil_make_value(b->function, own, &types[i]) : NULL;
        if (!v) return build_failed(b) ? false : build_no_memory(b);
        v->def = op;
        v->index = i;
        op->results[i] = v;
    }
    return true;
}

mil_op *mil_build_open(mil_builder *b, mil_opcode code, const mil_argument *arguments, int count) {
    if (build_failed(b)) return NULL;
    const mil_op_info *info = mil_op_get(code);
    assert(info && "no such opcode");
    mil_op *op = mil_make_op(b->function, info);
    if (!op) return build_no_memory(b);
    op->stage = build_own_stage(b, b->stage);
    op->backward = b->backward;
    return build_give_arguments(b, op, arguments, count) ? op : NULL;
}

void mil_build_block(mil_builder *b, mil_op *op) {
    char name[300];
    if (build_failed(b)) return;
    assert(op->function == b->function && op->block_count < mil_op_blocks(op->info));
    snprintf(name, sizeof name, "%s_block%d", op->info->name, op->block_count);
    b->function = mil_make_block(op, name);
    if (!b->function) build_no_memory(b);
}

void mil_build_block_end(mil_builder *b) {
    if (!build_failed(b)) b->function = b->function->owner->function;
}

mil_op *mil_build_close(mil_builder *b, mil_op *op, const char *name) {
    mil_type types[MIL_MAX_RESULTS];
    int result_count = 0;
    if (build_failed(b)) return NULL;
    op->label = name; /* used in messages until the op has results */
    if (op->block_count && !mil_make_settle(op)) return build_no_memory(b);
    if (b->waits && !b->function->owner && !op->block_count && mil_op_waits(op)) {
        if (mil_probe_types(op, types, &result_count, &b->err)) return NULL;
        b->function->late = true;
    } else if (mil_verify_operands(op, &b->err) || op->info->rule(op, types, &result_count, &b->err)) {
        return NULL;
    }
    if (!build_make_results(b, op, name ? name : op->info->name, types, result_count)) return NULL;
    if (result_count) op->label = NULL;
    mil_make_insert(op, build_place(b));
    return op;
}

mil_op *mil_build_op(mil_builder *b, mil_opcode code, const char *name, const mil_argument *arguments, int count) {
    mil_op *op = mil_build_open(b, code, arguments, count);
    return op ? mil_build_close(b, op, name) : NULL;
}

static mil_value *build_one(mil_builder *b, mil_opcode code, const mil_argument *arguments, int count) {
    mil_op *op = mil_build_op(b, code, NULL, arguments, count);
    return op ? op->results[0] : NULL;
}

/* ---- constants -------------------------------------------------------------------------------------------------------------- */

/* Makes a const op for `c`, which is in the arena. With `head`, the op is inserted at the head of the function and
 * shared with later equal constants. */
static mil_value *build_const_op(mil_builder *b, const char *name, const mil_const *c, bool head) {
    mil_function *f = b->function;
    mil_op *op = mil_make_op(f, mil_op_get(MIL_OP_const));
    mil_value *literal = mil_make_value(f, NULL, &c->type);
    if (!op || !literal || !mil_make_operand(op, 0, &literal, 1)) return build_no_memory(b);
    literal->constant = c;
    op->label = name;
    op->stage = build_own_stage(b, b->stage);
    op->backward = b->backward;
    if (!build_make_results(b, op, name, &c->type, 1)) return NULL;
    op->label = NULL;
    mil_value *v = op->results[0];
    v->constant = c;
    if (head)
        mil_make_insert_head(op);
    else
        mil_make_insert(op, build_place(b));
    if (head && !mil_scope_share(f, v)) return build_no_memory(b);
    return v;
}

/* Copies `data`, including the bytes of strings. */
static mil_const *build_copy_const(mil_builder *b, const mil_type *type, const void *data) {
    arena *a = b->module->arena;
    mil_const *c = ARENA_NEW(a, mil_const);
    if (!c) return build_no_memory(b);
    c->type = *type;
    c->bytes = mil_type_bytes(type);
    void *copy = arena_copy(a, data, (size_t)c->bytes);
    if (!copy) return build_no_memory(b);
    c->data = copy;
    if (type->dtype == MIL_string) {
        const char **strings = copy;
        for (int64_t i = 0, n = mil_type_count(type); i < n; i++) {
            strings[i] = arena_string(a, strings[i]);
            if (!strings[i]) return build_no_memory(b);
        }
    }
    return c;
}

static mil_value *build_shared(mil_builder *b, const char *name, const mil_type *type, const void *data) {
    if (build_failed(b)) return NULL;
    mil_const sought = {.type = *type, .data = data, .bytes = mil_type_bytes(type)};
    mil_value *v = mil_scope_constant(b->function, &sought);
    if (v) return v;
    char inside[80];
    int depth = 0; /* a function around the block may later get a constant of that name at its head, before the block */
    for (const mil_function *f = b->function; f->owner; f = f->owner->function) depth++;
    if (depth) snprintf(inside, sizeof inside, "%s_in_%d", name, depth);
    const mil_const *c = build_copy_const(b, type, data);
    return c ? build_const_op(b, depth ? inside : name, c, true) : NULL;
}

mil_value *mil_build_int(mil_builder *b, int32_t value) {
    char name[40];
    snprintf(name, sizeof name, "int_%s%lld", value < 0 ? "m" : "", value < 0 ? -(long long)value : (long long)value);
    return build_shared(b, name, &(mil_type){.dtype = MIL_int32}, &value);
}

mil_value *mil_build_ints(mil_builder *b, const int64_t *values, int count) {
    if (build_failed(b)) return NULL;
    if (count < 1) return build_fail(b, "a list cannot have %d numbers", count);
    int32_t *data = mem_array((size_t)count, sizeof *data);
    if (!data) return build_no_memory(b);
    char name[60] = "ints";
    size_t used = 4;
    bool fits = true;
    for (int i = 0; i < count; i++) {
        fits = fits && values[i] >= INT32_MIN && values[i] <= INT32_MAX;
        data[i] = (int32_t)values[i];
        if (used < 30)
            used += (size_t)snprintf(name + used, sizeof name - used, "_%s%lld", values[i] < 0 ? "m" : "",
                                     values[i] < 0 ? -(long long)values[i] : (long long)values[i]);
    }
    mil_type type = mil_type_tensor(MIL_int32, 1, &(int64_t){count});
    mil_value *v = fits ? build_shared(b, name, &type, data) : build_fail(b, "a number does not fit into int32");
    mem_free(data);
    return v;
}

mil_value *mil_build_bool(mil_builder *b, bool value) {
    const mil_type type = mil_type_scalar(MIL_bool);
    const unsigned char byte = value;
    return build_shared(b, value ? "bool_true" : "bool_false", &type, &byte);
}

mil_value *mil_build_text(mil_builder *b, const char *value) {
    char name[60];
    mil_type type = mil_type_scalar(MIL_string);
    snprintf(name, sizeof name, "text_%.40s", value);
    if (!mil_name_legal(name, strlen(name))) snprintf(name, sizeof name, "text");
    return build_shared(b, name, &type, &value);
}

mil_value *mil_build_scalar(mil_builder *b, mil_dtype dtype, double value) {
    unsigned char data[8] = {0};
    if (build_failed(b)) return NULL;
    if (dtype == MIL_string || !mil_element_store_real(data, dtype, 0, value))
        return build_fail(b, "the number %g does not fit into %s", value, mil_dtype_get(dtype)->name);
    char name[40];
    mil_type type = mil_type_scalar(dtype);
    snprintf(name, sizeof name, "%s_value", mil_dtype_get(dtype)->name);
    return build_shared(b, name, &type, data);
}

static bool build_const_type(mil_builder *b, const char *name, const mil_type *type) {
    char why[200];
    if (build_failed(b)) return false;
    if (mil_type_legal(type, why)) return true;
    return build_fail(b, "constant '%.60s' has an invalid type: %s", name ? name : "", why);
}

mil_value *mil_build_const(mil_builder *b, const char *name, const mil_type *type, const void *data) {
    if (!build_const_type(b, name, type)) return NULL;
    const mil_const *c = build_copy_const(b, type, data);
    return c ? build_const_op(b, name ? name : "const", c, false) : NULL;
}

mil_value *mil_build_const_f64(mil_builder *b, const char *name, const mil_type *type, const double *data) {
    if (!build_const_type(b, name, type)) return NULL;
    if (type->dtype == MIL_string)
        return build_fail(b, "constant '%.60s': numbers cannot be stored as strings", name ? name : "");
    mil_const *c = ARENA_NEW(b->module->arena, mil_const);
    void *packed = arena_alloc(b->module->arena, (size_t)mil_type_bytes(type));
    if (!c || !packed) return build_no_memory(b);
    for (int64_t i = 0, n = mil_type_count(type); i < n; i++)
        if (!mil_element_store_real(packed, type->dtype, i, data[i]))
            return build_fail(b, "constant '%.60s': element %lld, %g, does not fit into %s", name ? name : "",
                              (long long)i, data[i], mil_dtype_get(type->dtype)->name);
    *c = (mil_const){.type = *type, .data = packed, .bytes = mil_type_bytes(type)};
    return build_const_op(b, name ? name : "const", c, false);
}

/* ---- frequent ops ----------------------------------------------------------------------------------------------- */

#define ARG(param, value) ((mil_argument){param, 1, (mil_value *const[]){value}})
#define COUNT(list)       (int)(sizeof(list) / sizeof((list)[0]))

mil_value *mil_build_unary(mil_builder *b, mil_opcode code, mil_value *x) {
    mil_argument a[] = {ARG(mil_op_get(code)->params[0].name, x)};
    return build_one(b, code, a, COUNT(a));
}

mil_value *mil_build_binary(mil_builder *b, mil_opcode code, mil_value *x, mil_value *y) {
    mil_argument a[] = {ARG(mil_op_get(code)->params[0].name, x), ARG(mil_op_get(code)->params[1].name, y)};
    return build_one(b, code, a, COUNT(a));
}

mil_value *mil_build_binary_scalar(mil_builder *b, mil_opcode code, mil_value *x, double y) {
    if (build_failed(b)) return NULL;
    if (!x) return build_fail(b, "%s: x is NULL", mil_op_get(code)->name);
    return mil_build_binary(b, code, x, mil_build_scalar(b, x->type.dtype, y));
}

mil_value *mil_build_matmul(mil_builder *b, mil_value *x, mil_value *y, bool transpose_x, bool transpose_y) {
    mil_value *tx = mil_build_bool(b, transpose_x), *ty = mil_build_bool(b, transpose_y);
    mil_argument a[] = {ARG("x", x), ARG("y", y), ARG("transpose_x", tx), ARG("transpose_y", ty)};
    return build_one(b, MIL_OP_matmul, a, COUNT(a));
}

mil_value *mil_build_conv1x1(mil_builder *b, mil_value *x, mil_value *weight) {
    mil_value *ones = mil_build_ints(b, (int64_t[]){1, 1}, 2), *pad = mil_build_ints(b, (int64_t[]){0, 0, 0, 0}, 4);
    mil_value *valid = mil_build_text(b, "valid"), *groups = mil_build_int(b, 1);
    mil_argument a[] = {ARG("x", x),     ARG("weight", weight),  ARG("strides", ones), ARG("pad_type", valid),
                        ARG("pad", pad), ARG("dilations", ones), ARG("groups", groups)};
    return build_one(b, MIL_OP_conv, a, COUNT(a));
}

mil_value *mil_build_reduce(mil_builder *b, mil_opcode code, mil_value *x, const int64_t *axes, int count,
                            bool keep_dims) {
    mil_value *list = mil_build_ints(b, axes, count), *keep = mil_build_bool(b, keep_dims);
    mil_argument a[] = {ARG("x", x), ARG("axes", list), ARG("keep_dims", keep)};
    return build_one(b, code, a, COUNT(a));
}

mil_value *mil_build_softmax(mil_builder *b, mil_value *x, int axis) {
    mil_value *which = mil_build_int(b, axis);
    mil_argument a[] = {ARG("x", x), ARG("axis", which)};
    return build_one(b, MIL_OP_softmax, a, COUNT(a));
}

mil_value *mil_build_reshape(mil_builder *b, mil_value *x, const int64_t *dim, int rank) {
    mil_value *shape = mil_build_ints(b, dim, rank);
    mil_argument a[] = {ARG("x", x), ARG("shape", shape)};
    return build_one(b, MIL_OP_reshape, a, COUNT(a));
}

mil_value *mil_build_transpose(mil_builder *b, mil_value *x, const int64_t *perm, int rank) {
    mil_value *order = mil_build_ints(b, perm, rank);
    mil_argument a[] = {ARG("x", x), ARG("perm", order)};
    return build_one(b, MIL_OP_transpose, a, COUNT(a));
}

mil_value *mil_build_slice(mil_builder *b, mil_value *x, const int64_t *begin, const int64_t *size) {
    if (build_failed(b)) return NULL;
    if (!x) return build_fail(b, "slice_by_size: x is NULL");
    mil_value *from = mil_build_ints(b, begin, x->type.rank), *extent = mil_build_ints(b, size, x->type.rank);
    mil_argument a[] = {ARG("x", x), ARG("begin", from), ARG("size", extent)};
    return build_one(b, MIL_OP_slice_by_size, a, COUNT(a));
}

mil_value *mil_build_concat(mil_builder *b, mil_value *const *values, int count, int axis) {
    mil_value *which = mil_build_int(b, axis), *no = mil_build_bool(b, false);
    mil_argument a[] = {{"values", count, values}, ARG("axis", which), ARG("interleave", no)};
    return build_one(b, MIL_OP_concat, a, COUNT(a));
}

mil_value *mil_build_cast(mil_builder *b, mil_value *x, mil_dtype dtype) {
    mil_value *name = mil_build_text(b, mil_dtype_get(dtype)->name);
    mil_argument a[] = {ARG("x", x), ARG("dtype", name)};
    return build_one(b, MIL_OP_cast, a, COUNT(a));
}

/* ---- edits -------------------------------------------------------------------------------------------------------------------- */

void mil_op_remove(mil_op *op) { mil_make_remove(op); }

/* Returns `c` if the user is in b's module, otherwise a copy of `c` with its data. */
static const mil_const *build_adopt_const(mil_builder *b, const mil_op *user, const mil_const *c) {
    if (user->function->module == b->module) return c;
    if (!c->data) return build_fail(b, "a constant of '%s' has no data yet", user->info->name);
    mil_const *copy = build_copy_const(b, &c->type, c->data);
    const char *from = user->function->module->model_dir, *here = b->module->model_dir;
    if (!copy || !c->blob_path || !from || !here || strcmp(from, here) != 0) return copy;
    copy->blob_path = arena_string(b->module->arena, c->blob_path);
    copy->blob_offset = c->blob_offset;
    return copy->blob_path ? copy : build_no_memory(b);
}

static mil_op *build_copy_const_op(mil_builder *b, const mil_op *op, mil_value **map) {
    const mil_value *old = op->results[0];
    const mil_const *c = old->constant;
    mil_value *v;
    mil_builder given = *b; /* a copied op keeps its stage */
    if (op->stage) b->stage = op->stage;
    b->backward = op->backward;
    if (mil_type_count(&c->type) <= SHARED_ELEMENTS && c->data && !c->blob_path) {
        v = build_shared(b, old->name, &c->type, c->data);
    } else {
        c = build_adopt_const(b, op, c);
        v = c ? build_const_op(b, old->name, c, false) : NULL;
    }
    b->stage = given.stage;
    b->backward = given.backward;
    if (!v) return NULL;
    map[old->id] = v;
    if (!v->def->line) v->def->line = op->line;
    if (!v->def->column) v->def->column = op->column;
    return v->def;
}

static bool build_copy_operands(mil_builder *b, const mil_op *op, mil_op *copy, mil_value **map) {
    for (int i = 0; i < op->info->param_count; i++) {
        const mil_operand *o = &op->operands[i];
        if (!o->count) continue;
        if (!mil_make_operand(copy, i, o->values, o->count)) return build_no_memory(b);
        for (int k = 0; k < o->count; k++) {
            const mil_value *v = o->values[k];
            mil_value *mapped = map[v->id];
            if (!mapped && v->is_inline) {
                mapped = mil_make_value(b->function, NULL, &v->type);
                if (!mapped) return build_no_memory(b);
                mapped->constant = build_adopt_const(b, op, v->constant);
                if (!mapped->constant) return false;
            }
            if (!mapped) return build_fail(b, "'%s' is copied before its operand '%.60s'", op->info->name, v->name);
            copy->operands[i].values[k] = mapped;
        }
    }
    return true;
}

static bool build_copy_block(mil_builder *b, const mil_function *from, mil_value **map) {
    mil_function *to = b->function;
    const mil_op *owner = to->owner;
    for (int i = 0; i < from->param_count; i++) {
        const mil_value *v = from->params[i];
        mil_value *outer = NULL;
        if (i >= from->param_count - from->captured)
            outer = owner->operands[mil_op_captured(owner->info)].values[i - (from->param_count - from->captured)];
        map[v->id] = outer ? mil_make_captured(to, outer) : mil_build_param(b, v->name, v->type);
        if (!map[v->id]) return build_failed(b) ? false : build_no_memory(b);
    }
    for (const mil_op *op = from->first; op; op = op->next)
        if (!mil_build_copy(b, op, map)) return false;
    for (int i = 0; i < from->result_count; i++) {
        const mil_value *v = from->results[i];
        mil_value *own = map[v->id];
        if (!own && v->is_inline) { /* a block may contain nothing but literals */
            own = mil_make_value(to, NULL, &v->type);
            if (own) own->constant = build_adopt_const(b, from->owner, v->constant);
        }
        if (!own || (own->is_inline && !own->constant)) return build_failed(b) ? false : build_no_memory(b);
        mil_build_result(b, own);
    }
    return !build_failed(b);
}

static bool build_copy_blocks(mil_builder *b, const mil_op *op, mil_op *copy) {
    for (int i = 0; i < op->block_count; i++) {
        mil_builder inner = {.module = b->module, .function = mil_make_block(copy, op->blocks[i]->name)};
        mil_value **map = mem_array((size_t)op->blocks[i]->value_count + 1, sizeof *map);
        bool ok = inner.function && map;
        if (!ok) build_no_memory(b);
        if (ok && !build_copy_block(&inner, op->blocks[i], map)) {
            b->err = inner.err;
            ok = false;
        }
        mem_free(map);
        if (!ok) return false;
    }
    return op->block_count == 0 || mil_make_settle(copy) || build_no_memory(b);
}

mil_op *mil_build_copy(mil_builder *b, const mil_op *op, mil_value **map) {
    if (build_failed(b)) return NULL;
    if (op->info->code == MIL_OP_const) return build_copy_const_op(b, op, map);
    mil_op *copy = mil_make_op(b->function, op->info);
    if (!copy) return build_no_memory(b);
    copy->stage = build_own_stage(b, op->stage ? op->stage : b->stage);
    copy->backward = op->backward;
    copy->line = op->line;
    copy->column = op->column;
    mil_type types[MIL_MAX_RESULTS];
    int count = 0;
    if (!build_copy_operands(b, op, copy, map) || !build_copy_blocks(b, op, copy)) return NULL;
    copy->label = mil_op_result_name(op);
    if (b->function->late && mil_op_waits(copy)) {
        count = op->result_count;
        for (int i = 0; i < count; i++) types[i] = op->results[i]->type;
    } else if (mil_verify_operands(copy, &b->err) || op->info->rule(copy, types, &count, &b->err)) {
        return NULL;
    }
    copy->label = op->result_count ? NULL : arena_string(b->module->arena, op->label ? op->label : "");
    if (!mil_make_results(copy, count)) return build_no_memory(b);
    for (int i = 0; i < count; i++) {
        const char *name = build_new_name(b, op->results[i]->name);
        mil_value *v = name ? mil_make_value(b->function, name, &types[i]) : NULL;
        if (!v) return build_failed(b) ? NULL : build_no_memory(b);
        v->def = copy;
        v->index = i;
        copy->results[i] = v;
        map[op->results[i]->id] = v;
    }
    mil_make_insert(copy, build_place(b));
    return copy;
}

propane_status mil_rename(mil_function *f, mil_value *v, const char *name, propane_error *err) {
    const mil_value *other = mil_scope_find(f, name, strlen(name));
    if (other == v) return PROPANE_OK;
    if (other || !mil_name_legal(name, strlen(name)))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: function '%.60s': '%.60s' cannot be called '%.60s': that name is %s",
                            f->module->source, f->name, v->name, name, other ? "taken" : "not legal");
    char *own = arena_string(f->module->arena, name);
    if (!own) return propane_fail_memory(err, strlen(name));
    const char *old = v->name;
    v->name = own;
    bool entered = mil_scope_add(f, v);
    v->name = old; /* if memory runs out, v keeps its name */
    if (!entered) return propane_fail_memory(err, 0);
    mil_scope_remove(f, v);
    v->name = own;
    return PROPANE_OK;
}
