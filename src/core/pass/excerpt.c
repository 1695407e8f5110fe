/* SPDX-License-Identifier: MIT
 * Owns taking some operations out of a function as a separate program. Values that they read from other operations
 * become inputs, and values that others read from them become outputs. Constants are copied instead of becoming inputs.
 *
 * Refuses cuts through values of types that the caller does not allow as inputs or outputs.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/pass/pass.h"

typedef struct excerpt {
    const mil_function *from;
    const bool *kept, *types;
    bool *copied;    /* [place] */
    bool *read;      /* [value id]: read by a copied operation */
    bool *wanted;    /* [value id]: read by an operation that is not copied, or a result of the function */
    mil_value **map; /* [value id]: the value in the new program */
    mil_builder build;
} excerpt;

static bool excerpt_is_constant(const mil_op *op) { return strncmp(op->info->name, "const", 5) == 0; }

/* Goes through the operations backwards, because the readers of a constant come after it. */
static void excerpt_choose(excerpt *e) {
    int at = e->from->op_count;
    for (int i = 0; i < e->from->result_count; i++) e->wanted[e->from->results[i]->id] = true;
    for (const mil_op *op = e->from->last; op; op = op->prev) {
        bool needed = e->kept[--at];
        for (int i = 0; excerpt_is_constant(op) && i < op->result_count; i++) needed |= e->read[op->results[i]->id];
        e->copied[at] = needed;
        MIL_FOR_OPERANDS (op, v) {
            if (needed)
                e->read[v->id] = true;
            else
                e->wanted[v->id] = true;
        }
    }
}

static propane_status excerpt_input(excerpt *e, mil_value *v, bool computed, propane_error *err) {
    if (!e->read[v->id]) return PROPANE_OK;
    if (computed && mil_know(v) && v->constant->data) {
        e->map[v->id] = mil_build_const(&e->build, v->name, &v->type, v->constant->data);
        return PROPANE_OK;
    }
    if (computed && (v->type.container != MIL_TENSOR || !e->types[v->type.dtype]))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "'%.60s' cannot be an input", v->name);
    e->map[v->id] = mil_build_param(&e->build, v->name, v->type);
    return PROPANE_OK;
}

/* Copies the chosen operations. Parameters come first, in the function's order. */
static propane_status excerpt_copy(excerpt *e, propane_error *err) {
    int at = 0;
    for (int i = 0; i < e->from->param_count; i++) PROPANE_TRY(excerpt_input(e, e->from->params[i], false, err));
    for (const mil_op *op = e->from->first; op; op = op->next, at++)
        for (int i = 0; !e->copied[at] && i < op->result_count; i++)
            PROPANE_TRY(excerpt_input(e, op->results[i], true, err));
    at = 0;
    for (const mil_op *op = e->from->first; op; op = op->next)
        if (e->copied[at++]) (void)mil_build_copy(&e->build, op, e->map);
    return PROPANE_OK;
}

/* Returns true if nothing reads the operation. All its results then become outputs, because the operation would
 * otherwise not be part of the program. */
static bool excerpt_is_unread(const excerpt *e, const mil_op *op) {
    for (int i = 0; i < op->result_count; i++)
        if (e->read[op->results[i]->id] || e->wanted[op->results[i]->id]) return false;
    return true;
}

static bool excerpt_gives(const excerpt *e, const mil_op *op, const mil_value *v) {
    return v->type.container == MIL_TENSOR && e->types[v->type.dtype] && (e->wanted[v->id] || excerpt_is_unread(e, op));
}

static propane_status excerpt_end(excerpt *e, propane_error *err) {
    int at = 0, count = 0;
    for (const mil_op *op = e->from->first; op; op = op->next, at++)
        for (int i = 0; e->kept[at] && !excerpt_is_constant(op) && i < op->result_count && !e->build.err.status; i++) {
            if (!excerpt_gives(e, op, op->results[i])) continue;
            mil_build_result(&e->build, e->map[op->results[i]->id]);
            count++;
        }
    PROPANE_TRY(mil_build_end(&e->build, err));
    return count ? PROPANE_OK : propane_fail(err, PROPANE_ERR_UNSUPPORTED, "it has no value that can be an output");
}

static propane_status excerpt_make(excerpt *e, mil_module *m, propane_error *err) {
    const mil_function *f = e->from;
    e->copied = mem_array((size_t)f->op_count + 1, sizeof *e->copied);
    e->read = mem_array((size_t)f->value_count + 1, sizeof *e->read);
    e->wanted = mem_array((size_t)f->value_count + 1, sizeof *e->wanted);
    e->map = mem_array((size_t)f->value_count + 1, sizeof(mil_value *));
    if (!e->copied || !e->read || !e->wanted || !e->map)
        return propane_fail_memory(err, (size_t)f->value_count * sizeof(mil_value *));
    excerpt_choose(e);
    m->coreml = f->module->coreml;
    mil_build_begin(&e->build, m, f->owner ? "main" : f->name, f->opset);
    PROPANE_TRY(excerpt_copy(e, err));
    return excerpt_end(e, err);
}

propane_status pass_excerpt(const mil_function *f, const bool *kept, const bool *types, mil_module **out,
                            propane_error *err) {
    excerpt e = {.from = f, .kept = kept, .types = types};
    mil_module *m = mil_module_create(f->module->source);
    propane_status status = m ? excerpt_make(&e, m, err) : propane_fail_memory(err, sizeof *m);
    mem_free(e.copied);
    mem_free(e.read);
    mem_free(e.wanted);
    mem_free(e.map);
    if (status) mil_module_free(m);
    *out = status ? NULL : m;
    return status;
}
