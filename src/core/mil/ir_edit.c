/* SPDX-License-Identifier: MIT
 * Owns the pieces of a function: making values and operations, linking them, and the three hash tables of a function's
 * scope (names in use, shared constants, values that a block captures). The tables grow in the arena and are freed with
 * it.
 */
#include "core/mil/ir_edit.h"

#include <stdio.h>
#include <string.h>

/* A name keeps its entry once it has been used; `value` is NULL when the name is free again. */
typedef struct name_entry {
    const char *name; /* NULL means an empty slot */
    uint32_t hash;
    uint32_t next_suffix;
    mil_value *value;
} name_entry;

typedef struct mil_scope {
    uint32_t seed; /* derived from an address, so that no text can be written to collide */
    name_entry *names;
    uint32_t name_room, name_used; /* room is a power of two */
    mil_value **constants;
    uint32_t constant_room, constant_used;
    mil_op *last_head;
    mil_value **inner; /* in blocks: the values that represent outside values (`outer`), hashed by their ids */
    uint32_t inner_room, inner_used;
} mil_scope;

static uint32_t ir_edit_hash_bytes(uint32_t hash, const void *data, size_t length) {
    const unsigned char *p = data;
    for (size_t i = 0; i < length; i++) hash = (hash ^ p[i]) * 16777619u;
    return hash;
}

/* ---- names ------------------------------------------------------------------------------------------------------------ */

bool mil_name_legal(const char *name, size_t length) {
    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool inner = (c >= '0' && c <= '9') || c == '@' || c == '.';
        if (!letter && !(inner && i > 0)) return false;
    }
    return true;
}

static uint32_t ir_edit_name_hash(const mil_scope *s, const char *name, size_t length) {
    uint32_t hash = ir_edit_hash_bytes(s->seed, name, length);
    return hash ^ hash >> 15;
}

static name_entry *ir_edit_name_place(const mil_scope *s, const char *name, size_t length, uint32_t hash) {
    for (uint32_t i = hash & (s->name_room - 1);; i = (i + 1) & (s->name_room - 1)) {
        name_entry *e = &s->names[i];
        if (!e->name) return e;
        if (e->hash == hash && strncmp(e->name, name, length) == 0 && e->name[length] == 0) return e;
    }
}

static bool ir_edit_names_grow(arena *a, mil_scope *s) {
    uint32_t room = s->name_room ? s->name_room * 2 : 64;
    mil_scope larger = {.names = ARENA_ARRAY(a, room, name_entry), .name_room = room};
    if (!larger.names) return false;
    for (uint32_t i = 0; i < s->name_room; i++) {
        const name_entry *e = &s->names[i];
        if (e->name) *ir_edit_name_place(&larger, e->name, strlen(e->name), e->hash) = *e;
    }
    s->names = larger.names;
    s->name_room = room;
    return true;
}

/* Returns the entry of `name`, making it if there is none. Returns NULL if memory runs out. */
static name_entry *ir_edit_name_enter(mil_function *f, const char *name) {
    mil_scope *s = f->scope;
    arena *a = f->module->arena;
    if (s->name_used * 4 >= s->name_room * 3 && !ir_edit_names_grow(a, s)) return NULL;
    size_t length = strlen(name);
    uint32_t hash = ir_edit_name_hash(s, name, length);
    name_entry *e = ir_edit_name_place(s, name, length, hash);
    if (!e->name) {
        *e = (name_entry){.name = name, .hash = hash, .next_suffix = 1};
        s->name_used++;
    }
    return e;
}

mil_value *mil_scope_find(const mil_function *f, const char *name, size_t length) {
    const mil_scope *s = f->scope;
    if (!s->name_room) return NULL;
    return ir_edit_name_place(s, name, length, ir_edit_name_hash(s, name, length))->value;
}

bool mil_scope_add(mil_function *f, mil_value *v) {
    name_entry *e = ir_edit_name_enter(f, v->name);
    if (!e) return false;
    e->value = v;
    return true;
}

void mil_scope_remove(mil_function *f, const mil_value *v) {
    if (!f->scope->name_room || !v->name) return;
    size_t length = strlen(v->name);
    name_entry *e = ir_edit_name_place(f->scope, v->name, length, ir_edit_name_hash(f->scope, v->name, length));
    if (e->value == v) e->value = NULL;
}

/* Returns whether `f`, or a block or function around `f`, has a value of that name. */
static bool ir_edit_name_seen(const mil_function *f, const char *name) {
    for (; f; f = f->owner ? f->owner->function : NULL)
        if (mil_scope_find(f, name, strlen(name))) return true;
    return false;
}

const char *mil_scope_unique(mil_function *f, const char *base) {
    arena *a = f->module->arena;
    const char *name = arena_string(a, base);
    if (!name) return NULL;
    name_entry *e = ir_edit_name_enter(f, name);
    if (!e) return NULL;
    if (!ir_edit_name_seen(f, name)) return e->name;
    uint32_t suffix = e->next_suffix;
    for (;; suffix++) {
        char *tried = arena_printf(a, "%s_%u", base, suffix);
        if (!tried) return NULL;
        if (!ir_edit_name_seen(f, tried)) {
            e->next_suffix = suffix + 1;
            return tried;
        }
    }
}

/* ---- shared constants --------------------------------------------------------------------------------------------------- */

bool mil_const_equal(const mil_const *a, const mil_const *b) {
    if (!mil_type_equal(&a->type, &b->type) || !a->data || !b->data) return false;
    if (a->type.dtype != MIL_string) return a->bytes == b->bytes && memcmp(a->data, b->data, (size_t)a->bytes) == 0;
    for (int64_t i = 0, n = mil_type_count(&a->type); i < n; i++)
        if (strcmp(mil_const_text(a, i), mil_const_text(b, i)) != 0) return false;
    return true;
}

static uint32_t ir_edit_const_hash(const mil_const *c) {
    uint32_t hash = ir_edit_hash_bytes(0x811c9dc5u, &c->type.dtype, sizeof c->type.dtype);
    hash = ir_edit_hash_bytes(hash, &c->type.container, sizeof c->type.container);
    hash = ir_edit_hash_bytes(hash, c->type.dim, sizeof c->type.dim[0] * (size_t)c->type.rank);
    if (c->type.dtype != MIL_string) return ir_edit_hash_bytes(hash, c->data, (size_t)c->bytes);
    for (int64_t i = 0, n = mil_type_count(&c->type); i < n; i++) {
        const char *text = mil_const_text(c, i);
        hash = ir_edit_hash_bytes(hash, text, strlen(text) + 1);
    }
    return hash;
}

mil_value *mil_scope_constant(const mil_function *f, const mil_const *c) {
    const mil_scope *s = f->scope;
    if (!s->constant_room) return NULL;
    for (uint32_t i = ir_edit_const_hash(c) & (s->constant_room - 1); s->constants[i];
         i = (i + 1) & (s->constant_room - 1)) {
        mil_value *v = s->constants[i];
        if (mil_const_equal(v->constant, c) && v->def->function) return v; /* a removed op has no function */
    }
    return NULL;
}

static void ir_edit_constant_place(mil_value **table, uint32_t room, mil_value *v) {
    uint32_t i = ir_edit_const_hash(v->constant) & (room - 1);
    while (table[i]) i = (i + 1) & (room - 1);
    table[i] = v;
}

bool mil_scope_share(mil_function *f, mil_value *v) {
    mil_scope *s = f->scope;
    if (s->constant_used * 4 >= s->constant_room * 3) {
        uint32_t room = s->constant_room ? s->constant_room * 2 : 32;
        mil_value **table = ARENA_ARRAY(f->module->arena, room, mil_value *);
        if (!table) return false;
        for (uint32_t i = 0; i < s->constant_room; i++)
            if (s->constants[i]) ir_edit_constant_place(table, room, s->constants[i]);
        s->constants = table;
        s->constant_room = room;
    }
    ir_edit_constant_place(s->constants, s->constant_room, v);
    s->constant_used++;
    return true;
}

/* ---- functions, values, operations ---------------------------------------------------------------------------------------- */

static mil_function *ir_edit_new_function(mil_module *m, const char *name, mil_opset opset) {
    mil_function *f = ARENA_NEW(m->arena, mil_function);
    if (!f) return NULL;
    f->name = arena_string(m->arena, name);
    f->scope = ARENA_NEW(m->arena, mil_scope);
    if (!f->name || !f->scope) return NULL;
    f->scope->seed = 0x811c9dc5u ^ (uint32_t)((uintptr_t)f->scope >> 4);
    f->opset = opset;
    f->module = m;
    return f;
}

mil_function *mil_make_function(mil_module *m, const char *name, mil_opset opset) {
    mil_function *f = ir_edit_new_function(m, name, opset);
    if (!f) return NULL;
    mil_function **place = &m->functions;
    while (*place) place = &(*place)->next;
    *place = f;
    m->function_count++;
    return f;
}

mil_value *mil_make_value(mil_function *f, const char *name, const mil_type *type) {
    mil_value *v = ARENA_NEW(f->module->arena, mil_value);
    if (!v) return NULL;
    v->name = name;
    v->type = *type;
    v->home = f;
    v->is_inline = !name;
    v->id = f->value_count++;
    if (name && !mil_scope_add(f, v)) return NULL;
    return v;
}

/* Lists grow by doubling: a list of n entries has room for n rounded up to a power of two. */
static bool ir_edit_list_append(arena *a, mil_value ***list, int *count, mil_value *v) {
    int n = *count;
    if ((n & (n - 1)) == 0) {
        mil_value **larger = ARENA_ARRAY(a, n ? 2 * (size_t)n : 1, mil_value *);
        if (!larger) return false;
        if (n) memcpy(larger, *list, (size_t)n * sizeof *larger);
        *list = larger;
    }
    (*list)[n] = v;
    *count = n + 1;
    return true;
}

static void ir_edit_place_param(const mil_function *f, mil_value *v, int index) {
    const mil_value *before = index ? f->params[index - 1] : NULL;
    v->index = index;
    v->states_before = before ? before->states_before + (before->type.container == MIL_STATE) : 0;
}

void mil_params_placed(mil_function *f) {
    for (int i = 0; i < f->param_count; i++) ir_edit_place_param(f, f->params[i], i);
}

bool mil_make_param(mil_function *f, mil_value *v) {
    ir_edit_place_param(f, v, f->param_count);
    return ir_edit_list_append(f->module->arena, &f->params, &f->param_count, v);
}

bool mil_make_result(mil_function *f, mil_value *v) {
    return ir_edit_list_append(f->module->arena, &f->results, &f->result_count, v);
}

bool mil_is_result(const mil_function *f, const mil_value *v) {
    for (int i = 0; i < f->result_count; i++)
        if (f->results[i] == v) return true;
    return false;
}

mil_function *mil_make_block(mil_op *op, const char *name) {
    arena *a = op->function->module->arena;
    if (!op->blocks) op->blocks = ARENA_ARRAY(a, mil_op_blocks(op->info), mil_function *);
    mil_function *f = op->blocks ? ir_edit_new_function(op->function->module, name, op->function->opset) : NULL;
    if (!f) return NULL;
    f->owner = op;
    f->line = op->line;
    f->column = op->column;
    op->blocks[op->block_count++] = f;
    return f;
}

/* ---- values that blocks capture ---------------------------------------------------------------------------------- */

static mil_value **ir_edit_inner_place(const mil_scope *s, const mil_value *outer) {
    uint32_t i = (uint32_t)outer->id * 0x9e3779b1u;
    for (i = (i ^ i >> 15) & (s->inner_room - 1); s->inner[i] && s->inner[i]->outer != outer;)
        i = (i + 1) & (s->inner_room - 1);
    return &s->inner[i];
}

/* Makes room for one more value; returns false if memory runs out. */
static bool ir_edit_inner_grow(mil_function *block) {
    mil_scope *s = block->scope;
    if (s->inner_used * 2 < s->inner_room) return true;
    mil_scope larger = {.inner_room = s->inner_room ? 2 * s->inner_room : 4};
    larger.inner = ARENA_ARRAY(block->module->arena, larger.inner_room, mil_value *);
    if (!larger.inner) return false;
    for (uint32_t i = 0; i < s->inner_room; i++)
        if (s->inner[i]) *ir_edit_inner_place(&larger, s->inner[i]->outer) = s->inner[i];
    s->inner = larger.inner;
    s->inner_room = larger.inner_room;
    return true;
}

/* Returns the index of `outer` among the op's captured values, adding it if needed. Returns -1 if there are too many or
 * memory runs out. */
static int ir_edit_captured_place(mil_op *op, mil_value *outer) {
    mil_operand *o = &op->operands[mil_op_captured(op->info)];
    for (int i = 0; i < o->count; i++)
        if (o->values[i] == outer) return i;
    if (o->count == MIL_MAX_CAPTURED) return -1;
    return ir_edit_list_append(op->function->module->arena, &o->values, &o->count, outer) ? o->count - 1 : -1;
}

/* Makes a captured parameter. Until mil_make_settle, its index is its place among the captured values. */
static mil_value *ir_edit_captured_param(mil_function *block, mil_value *outer, int place) {
    mil_value *v = mil_make_value(block, NULL, &outer->type);
    if (!v) return NULL;
    v->name = outer->name;
    v->is_inline = false;
    v->outer = outer;
    v->index = place;
    if (!ir_edit_list_append(block->module->arena, &block->params, &block->param_count, v)) return NULL;
    block->captured++;
    return v;
}

mil_value *mil_make_captured(mil_function *block, mil_value *outer) {
    mil_scope *s = block->scope;
    if (!ir_edit_inner_grow(block)) return NULL;
    mil_value **place = ir_edit_inner_place(s, outer);
    if (*place) return *place;
    mil_value *v;
    if (outer->constant) {
        v = mil_make_value(block, NULL, &outer->type);
        if (!v) return NULL;
        v->name = outer->name;
        v->outer = outer;
        v->constant = outer->constant;
    } else {
        int index = ir_edit_captured_place(block->owner, outer);
        v = index < 0 ? NULL : ir_edit_captured_param(block, outer, index);
    }
    s->inner_used += v != NULL;
    return *place = v;
}

bool mil_make_seen(mil_function *f, const char *name, size_t length, mil_value **out) {
    *out = mil_scope_find(f, name, length);
    if (*out || !f->owner) return true;
    if (!mil_make_seen(f->owner->function, name, length, out)) return false;
    return !*out || (*out = mil_make_captured(f, *out));
}

bool mil_make_settle(mil_op *op) {
    const mil_operand *o = &op->operands[mil_op_captured(op->info)];
    for (int b = 0; b < op->block_count; b++) {
        mil_function *block = op->blocks[b];
        int own = block->param_count - block->captured, had = block->captured;
        mil_value **params = ARENA_ARRAY(block->module->arena, own + o->count, mil_value *);
        if (!params) return false;
        if (own) memcpy(params, block->params, (size_t)own * sizeof *params);
        for (int i = own; i < own + had; i++) params[own + block->params[i]->index] = block->params[i];
        for (int i = 0; i < o->count; i++) {
            if (!params[own + i]) params[own + i] = ir_edit_captured_param(block, o->values[i], i);
            if (!params[own + i]) return false;
            params[own + i]->index = own + i;
        }
        block->params = params;
        block->param_count = own + o->count;
        block->captured = o->count;
    }
    return true;
}

/* ---- operations ------------------------------------------------------------------------------------------------------------- */

mil_op *mil_make_op(mil_function *f, const mil_op_info *info) {
    mil_op *op = ARENA_NEW(f->module->arena, mil_op);
    if (!op) return NULL;
    op->operands = ARENA_ARRAY(f->module->arena, info->param_count, mil_operand);
    if (!op->operands) return NULL;
    op->info = info;
    op->function = f;
    return op;
}

bool mil_make_operand(mil_op *op, int param, mil_value *const *values, int count) {
    arena *a = op->function->module->arena;
    mil_value **copy = arena_copy(a, values, (size_t)count * sizeof *values);
    if (!copy) return false;
    op->operands[param] = (mil_operand){count, copy};
    return true;
}

bool mil_make_results(mil_op *op, int count) {
    op->results = ARENA_ARRAY(op->function->module->arena, count ? count : 1, mil_value *);
    op->result_count = count;
    return op->results != NULL;
}

void mil_make_insert(mil_op *op, mil_op *before) {
    mil_function *f = op->function;
    op->next = before;
    op->prev = before ? before->prev : f->last;
    if (op->prev)
        op->prev->next = op;
    else
        f->first = op;
    if (before)
        before->prev = op;
    else
        f->last = op;
    f->op_count++;
}

void mil_make_insert_head(mil_op *op) {
    mil_scope *s = op->function->scope;
    mil_make_insert(op, s->last_head ? s->last_head->next : op->function->first);
    s->last_head = op;
}

void mil_make_remove(mil_op *op) {
    mil_function *f = op->function;
    if (f->scope->last_head == op) f->scope->last_head = op->prev;
    if (op->prev)
        op->prev->next = op->next;
    else
        f->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        f->last = op->prev;
    for (int i = 0; i < op->result_count; i++) mil_scope_remove(f, op->results[i]);
    f->op_count--;
    op->prev = op->next = NULL;
    op->function = NULL;
}
