/* SPDX-License-Identifier: MIT
 * Owns operations with only constant operands (compressed weights, fills, ranges, seeded random numbers). They are
 * computed once, when the program is planned, so that matrix products can prepare their results like any weight.
 *
 * The lowering replaces the family's own operations by constants, except those that make results of the program.
 * cpu_lower_constants computes these, and small results of other operations, without replacing the operations.
 * Operations of the family with other operands run through the slow reference.
 */
#include "core/base/memory.h"
#include "cpu/cpu_family.h"
#include "cpu/lower/lower.h"

#define FOLD_LIMIT ((int64_t)1 << 20) /* most elements of a small result */

enum { MOST_RESULTS = 4 };

static propane_status lower_constant_no_memory(int64_t count, propane_error *err) {
    return propane_fail_memory(err, (size_t)count * sizeof(double));
}

static const mil_tensor *lower_constant_tensor(arena *a, const mil_const *c, propane_error *err) {
    const int64_t count = mil_type_count(&c->type);
    mil_tensor *t = ARENA_NEW(a, mil_tensor);
    if (t) t->type = c->type;
    if (t && mil_dtype_get(c->type.dtype)->kind == MIL_KIND_STRING) return t;
    if (t) t->data = ARENA_ARRAY(a, count + 1, double);
    if (!t || !t->data) {
        (void)lower_constant_no_memory(count, err);
        return NULL;
    }
    mil_unpack_f64(t->data, c->type.dtype, c->data, count);
    return t;
}

static propane_status lower_constant_evaluate(arena *a, const mil_op *op, mil_tensor *out, propane_error *err) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {NULL};
    for (int p = 0; p < op->info->param_count; p++) {
        const mil_operand *o = &op->operands[p];
        const mil_tensor **list = ARENA_ARRAY(a, o->count + 1, const mil_tensor *);
        if (!list) return lower_constant_no_memory(o->count, err);
        for (int k = 0; k < o->count; k++)
            if (!(list[k] = lower_constant_tensor(a, o->values[k]->constant, err))) return PROPANE_ERR_MEMORY;
        in[p] = list;
    }
    for (int r = 0; r < op->result_count; r++) {
        const int64_t count = mil_type_count(&op->results[r]->type);
        out[r].type = op->results[r]->type;
        out[r].data = ARENA_ARRAY(a, count + 1, double);
        if (!out[r].data) return lower_constant_no_memory(count, err);
    }
    return mil_eval_op(op, in, out, err);
}

static bool lower_constant_operands(const mil_op *op) {
    MIL_FOR_OPERANDS (op, v)
        if (!v->constant || !v->constant->data) return false;
    return op->info->eval != NULL;
}

/* ---- the family's rows ------------------------------------------------------------------------------------------- */

static bool lower_constant_is_result(const mil_op *op) {
    const mil_function *f = op->function;
    for (int r = 0; r < op->result_count; r++)
        for (int i = 0; i < f->result_count; i++)
            if (f->results[i] == op->results[r]) return true;
    return false;
}

static propane_status lower_constant_replace(mil_builder *b, mil_op *op, const mil_tensor *out, propane_error *err) {
    for (int r = 0; r < op->result_count; r++) {
        const mil_type *type = &op->results[r]->type;
        const int64_t bytes = mil_type_bytes(type);
        void *data = mem_alloc((size_t)bytes + 1);
        if (!data) return propane_fail_memory(err, (size_t)bytes);
        mil_pack_f64(data, type->dtype, out[r].data, mil_type_count(type));
        mil_value *v = mil_build_const(b, op->results[r]->name, type, data);
        mem_free(data);
        if (!v) return b->err.status;
        mil_replace_uses(op->function, op->results[r], v);
    }
    mil_op_remove(op);
    return PROPANE_OK;
}

propane_status cpu_lower_constant(mil_builder *b, mil_op *op, propane_error *err) {
    mil_tensor out[MOST_RESULTS] = {{.data = NULL}};
    if (op->result_count > MOST_RESULTS || !lower_constant_operands(op) || lower_constant_is_result(op))
        return PROPANE_OK;
    arena *a = arena_create();
    if (!a) return propane_fail_memory(err, sizeof out);
    propane_status status = lower_constant_evaluate(a, op, out, err);
    if (status == PROPANE_OK) status = lower_constant_replace(b, op, out, err);
    arena_free(a);
    return status;
}

/* ---- small results of other operations --------------------------------------------------------------------------- */

static propane_status lower_constant_know(mil_op *op, arena *work, propane_error *err) {
    arena *kept = op->function->module->arena;
    mil_tensor *out = ARENA_ARRAY(work, op->result_count, mil_tensor);
    if (!out) return lower_constant_no_memory(op->result_count, err);
    PROPANE_TRY(lower_constant_evaluate(work, op, out, err));
    for (int r = 0; r < op->result_count; r++) {
        mil_const *c = ARENA_NEW(kept, mil_const);
        const int64_t bytes = mil_type_bytes(&out[r].type);
        void *data = c ? arena_alloc(kept, (size_t)bytes + 1) : NULL;
        if (!data) return propane_fail_memory(err, (size_t)bytes);
        mil_pack_f64(data, out[r].type.dtype, out[r].data, mil_type_count(&out[r].type));
        *c = (mil_const){.type = out[r].type, .data = data, .bytes = bytes};
        op->results[r]->constant = c;
    }
    return PROPANE_OK;
}

propane_status cpu_lower_constants(mil_function *f, arena *work, propane_error *err) {
    for (mil_op *op = f->first; op; op = op->next) {
        bool small = true;
        for (int r = 0; r < op->result_count; r++)
            small &=
                op->results[r]->type.container == MIL_TENSOR && mil_type_count(&op->results[r]->type) <= FOLD_LIMIT;
        if (op->info->code == MIL_OP_const || !lower_constant_operands(op)) continue;
        if (small || cpu_family_named(op) == CPU_FAMILY_lower_constant) PROPANE_TRY(lower_constant_know(op, work, err));
    }
    return PROPANE_OK;
}
