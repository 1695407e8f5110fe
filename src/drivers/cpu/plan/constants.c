/* SPDX-License-Identifier: MIT
 * Operations of constants alone (compressed weights, fills, ranges, seeded random numbers) are worked out once, when the
 * program is planned: their results become constants of the planner's copy, so that products can prepare them like any
 * weight. What is itself a result of the program is written by the reference at every run.
 */
#include "base/memory.h"
#include "drivers/cpu/plan/plan.h"

static bool is_known(const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int k = 0; k < op->operands[p].count; k++) {
            const mil_value *v = op->operands[p].values[k];
            if (!v->konst || !v->konst->data) return false;
        }
    return true;
}

static bool is_result(const mil_op *op) {
    const mil_function *f = op->function;
    for (int r = 0; r < op->result_count; r++)
        for (int i = 0; i < f->result_count; i++)
            if (f->results[i] == op->results[r]) return true;
    return false;
}

static bool widen(arena *a, const mil_value *v, mil_tensor *out) {
    const int64_t count = mil_type_count(&v->type);
    out->type = v->type;
    if (v->type.dtype == MIL_string) return true;
    out->data = ARENA_ARRAY(a, count + 1, double);
    if (out->data) mil_unpack_f64(out->data, v->type.dtype, v->konst->data, count);
    return out->data != NULL;
}

static propane_status evaluate(arena *a, const mil_op *op, mil_tensor *out, propane_error *err) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {NULL};
    for (int p = 0; p < op->info->param_count; p++) {
        const mil_operand *o = &op->operands[p];
        mil_tensor *tensors = ARENA_ARRAY(a, o->count + 1, mil_tensor);
        const mil_tensor **list = ARENA_ARRAY(a, o->count + 1, const mil_tensor *);
        if (!tensors || !list) return propane_fail_memory(err, (size_t)o->count * sizeof *tensors);
        for (int k = 0; k < o->count; k++) {
            if (!widen(a, o->values[k], &tensors[k]))
                return propane_fail_memory(err, (size_t)mil_type_count(&o->values[k]->type) * sizeof(double));
            list[k] = &tensors[k];
        }
        in[p] = list;
    }
    for (int r = 0; r < op->result_count; r++) {
        const int64_t count = mil_type_count(&op->results[r]->type);
        out[r].type = op->results[r]->type;
        out[r].data = ARENA_ARRAY(a, count + 1, double);
        if (!out[r].data) return propane_fail_memory(err, (size_t)count * sizeof(double));
        for (int64_t i = 0; i < count; i++) out[r].data[i] = 0.0;
    }
    return mil_eval_op(op, in, out, err);
}

static propane_status replace(mil_builder *b, mil_op *op, const mil_tensor *out, propane_error *err) {
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

static propane_status lower_fold(mil_builder *b, mil_op *op, propane_error *err) {
    mil_tensor out[4] = {{.data = NULL}};
    if (op->result_count > 4 || !is_known(op) || is_result(op)) return PROPANE_OK;
    arena *a = arena_create();
    if (!a) return propane_fail_memory(err, sizeof out);
    propane_status status = evaluate(a, op, out, err);
    if (status == PROPANE_OK) status = replace(b, op, out, err);
    arena_free(a);
    return status;
}

const cpu_plan_binding cpu_bind_fold = {.emit = cpu_plan_emit_reference, .lower = lower_fold};
