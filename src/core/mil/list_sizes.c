/* SPDX-License-Identifier: MIT
 * Owns the named sizes of list elements. One idea: a written value has a known shape, and the way back from the writing
 * operation, through loops, leads to the make_list of its list. Refuses lists to which nothing of a known shape is
 * written.
 */
#include "core/mil/list_sizes.h"

#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/resolve_shapes.h"

typedef struct list_size {
    struct list_size *next;
    const mil_op *op; /* the make_list in this reading */
    bool known;
    mil_type element;
} list_size;

/* No converter writes a chain longer than this. */
enum { MAX_STEPS = 10000 };

static const mil_value *list_sizes_loop_variable(const mil_op *loop, int index) {
    const bool there = loop && loop->info->code == MIL_OP_while_loop && index < loop->operands[0].count;
    return there ? loop->operands[0].values[index] : NULL;
}

/* Returns the list from which `v` comes, one operation or block boundary back, or NULL. Operations on the way need not
 * have been checked yet. */
static const mil_value *list_sizes_before(const mil_value *v) {
    if (v->outer) return v->outer;
    if (!v->def) return v->home ? list_sizes_loop_variable(v->home->owner, v->index) : NULL;
    const mil_function *block = v->def->block_count ? v->def->blocks[0] : NULL;
    switch (v->def->info->code) {
    case MIL_OP_list_write:
    case MIL_OP_list_scatter: return mil_in(v->def, "ls");
    case MIL_OP_identity: return mil_in(v->def, "x");
    case MIL_OP_while_loop: return list_sizes_loop_variable(v->def, v->index);
    case MIL_OP_cond: return block && v->index < block->result_count ? block->results[v->index] : NULL;
    default: return NULL;
    }
}

/* Returns the list that `v` belongs to if its sizes are not yet known, otherwise NULL. */
static list_size *list_sizes_of(const mil_list_sizes *s, const mil_value *v) {
    for (int i = 0; v && i < MAX_STEPS; i++) {
        for (list_size *l = s->first; v->def && l; l = l->next)
            if (l->op == v->def && !l->known) return l;
        v = list_sizes_before(v);
    }
    return NULL;
}

/* Records the shape of a written value as the shape of the list's elements. */
static void list_sizes_learn(mil_list_sizes *s, const mil_op *op) {
    const bool scatter = op->info->code == MIL_OP_list_scatter;
    if (!s->unknown || (!scatter && op->info->code != MIL_OP_list_write)) return;
    const mil_type *value = mil_in(op, "value") ? &mil_in(op, "value")->type : NULL;
    list_size *l = list_sizes_of(s, mil_in(op, "ls"));
    if (!l || !value || value->container != MIL_TENSOR || mil_type_is_open(value) || value->rank < scatter) return;
    l->element = mil_type_tensor(value->dtype, value->rank - scatter, value->dim + scatter);
    l->known = s->found = true;
}

static const char *list_sizes_name(const mil_op *op) {
    mil_value *const *sizes = NULL;
    const int count = op->info->code == MIL_OP_make_list ? mil_in_list(op, "elem_shape", &sizes) : 0;
    for (int k = 0; k < count; k++)
        if (sizes[k] && sizes[k]->type.dtype == MIL_string && sizes[k]->constant)
            return mil_const_text(sizes[k]->constant, 0);
    return NULL;
}

/* Replaces the named sizes of a make_list by literals. */
static propane_status list_sizes_fill(const list_size *l, mil_op *op, propane_error *err) {
    mil_operand *o = &op->operands[mil_op_param(op->info, "elem_shape")];
    arena *a = op->function->module->arena;
    int64_t at = 0;
    for (int k = 0; k < o->count; k++) {
        const mil_type of = o->values[k]->type;
        const int64_t count = mil_type_count(&of), from = at;
        at += count;
        if (at > l->element.rank || (k == o->count - 1 && at != l->element.rank))
            return mil_op_fail(op, err, PROPANE_ERR_INVALID,
                               "elem_shape has %lld size%s, but the written value has rank %d", (long long)at,
                               text_plural(at), l->element.rank);
        if (of.dtype != MIL_string) continue;
        const mil_type type = mil_type_tensor(MIL_int32, of.rank, of.dim);
        int32_t *data = ARENA_ARRAY(a, count + 1, int32_t);
        mil_const *c = ARENA_NEW(a, mil_const);
        mil_value *v = mil_make_value(op->function, NULL, &type);
        if (!data || !c || !v) return propane_fail_memory(err, 0);
        for (int64_t i = 0; i < count; i++) data[i] = (int32_t)l->element.dim[from + i];
        *c = (mil_const){.type = type, .data = data, .bytes = mil_type_bytes(&type)};
        v->constant = c;
        v->is_inline = true;
        o->values[k] = v;
    }
    return PROPANE_OK;
}

static propane_status list_sizes_made(mil_list_sizes *s, mil_op *op, propane_error *err) {
    list_size *l = s->last ? s->last->next : s->first;
    if (!l) {
        l = ARENA_NEW(op->function->module->arena, list_size);
        if (!l) return propane_fail_memory(err, sizeof *l);
        *l = (list_size){0};
        *(s->last ? &s->last->next : &s->first) = l;
    }
    s->last = l;
    l->op = op;
    if (l->known) return list_sizes_fill(l, op, err);
    s->unknown = op;
    return PROPANE_OK;
}

propane_status mil_list_sizes_read(mil_list_sizes *s, const mil_read_options *options, mil_op *op, bool *late,
                                   propane_error *err) {
    if (list_sizes_name(op)) PROPANE_TRY(list_sizes_made(s, op, err));
    list_sizes_learn(s, op);
    *late = s->unknown ? s->unknown == op || mil_op_waits(op) : mil_read_late(options, op);
    return PROPANE_OK;
}

propane_status mil_list_sizes_end(mil_list_sizes *s, mil_function *f, bool *again, propane_error *err) {
    *again = s->unknown && s->found;
    if (s->unknown && !*again)
        return mil_op_fail(
            s->unknown, err, PROPANE_ERR_UNSUPPORTED,
            "elem_shape names the size \"%.40s\", but no value of known shape that defines it is written to the list",
            list_sizes_name(s->unknown));
    if (!*again) return PROPANE_OK;
    mil_module_drop(f->module, f);
    *s = (mil_list_sizes){.first = s->first};
    return PROPANE_OK;
}
