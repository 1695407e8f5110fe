/* SPDX-License-Identifier: MIT
 * Emits operations without a kernel, which run through the slow reference of their row. Operands are converted to
 * doubles, mil_eval_op runs, and results are rounded to their type. Memory for the doubles is planned; an evaluation
 * may allocate more internally.
 */
#include <string.h>

#include "cpu/ops/emitters.h"
#include "cpu/plan/emit.h"

typedef struct reference_operand {
    mil_tensor tensor;
    cpu_ref at; /* location of the elements; constants are converted at plan time */
    bool constant;
    int64_t offset; /* position of the doubles in the scratch memory, counted in doubles */
} reference_operand;

typedef struct reference_args {
    const mil_op *op;
    int operand_count;
    reference_operand *operands;
    mil_tensor *out;
    int64_t *out_offset;
    cpu_ref *out_at;
    cpu_ref scratch;
    const mil_tensor *const *in[MIL_MAX_PARAMS];
} reference_args;

static propane_status emit_reference_run(const cpu_run *run, const void *args, propane_error *err) {
    const reference_args *a = args;
    double *scratch = cpu_ref_at(run, a->scratch);
    for (int i = 0; i < a->operand_count; i++) {
        reference_operand *o = &a->operands[i];
        if (o->constant) continue;
        o->tensor.data = scratch + o->offset;
        mil_unpack_f64(o->tensor.data, o->tensor.type.dtype, cpu_ref_at(run, o->at), mil_type_count(&o->tensor.type));
    }
    for (int r = 0; r < a->op->result_count; r++) {
        a->out[r].data = scratch + a->out_offset[r];
        memset(a->out[r].data, 0, (size_t)mil_type_count(&a->out[r].type) * sizeof(double));
    }
    PROPANE_TRY(mil_eval_op(a->op, a->in, a->out, err));
    for (int r = 0; r < a->op->result_count; r++)
        mil_pack_f64(cpu_ref_at(run, a->out_at[r]), a->out[r].type.dtype, a->out[r].data,
                     mil_type_count(&a->out[r].type));
    return PROPANE_OK;
}

static propane_status emit_reference_read_operand(planner *p, const mil_value *v, reference_operand *o,
                                                  int64_t *doubles, propane_error *err) {
    int64_t count = mil_type_count(&v->type);
    o->tensor.type = v->type;
    o->constant = v->constant != NULL;
    if (o->constant) {
        if (mil_dtype_get(v->type.dtype)->kind == MIL_KIND_STRING) return PROPANE_OK;
        o->tensor.data = ARENA_ARRAY(p->arena, count + 1, double);
        if (!o->tensor.data) return cpu_program_no_memory(err);
        mil_unpack_f64(o->tensor.data, v->type.dtype, v->constant->data, count);
        return PROPANE_OK;
    }
    cpu_view view;
    PROPANE_TRY(cpu_emit_operand(p, v, &view, err));
    PROPANE_TRY(cpu_emit_dense(p, v, &view, &view, err));
    o->at = cpu_view_ref(&view);
    o->offset = *doubles;
    *doubles += count + 1;
    return PROPANE_OK;
}

static propane_status emit_reference_read_operands(planner *p, const mil_op *op, reference_args *a, int64_t *doubles,
                                                   propane_error *err) {
    int total = 0;
    for (int k = 0; k < op->info->param_count; k++) total += op->operands[k].count;
    a->operands = ARENA_ARRAY(p->arena, total + 1, reference_operand);
    if (!a->operands) return cpu_program_no_memory(err);
    for (int k = 0; k < op->info->param_count; k++) {
        int count = op->operands[k].count;
        const mil_tensor **list = ARENA_ARRAY(p->arena, count + 1, const mil_tensor *);
        if (!list) return cpu_program_no_memory(err);
        for (int j = 0; j < count; j++) {
            reference_operand *o = &a->operands[a->operand_count++];
            PROPANE_TRY(emit_reference_read_operand(p, op->operands[k].values[j], o, doubles, err));
            list[j] = &o->tensor;
        }
        a->in[k] = list;
    }
    for (int i = 0; i < a->operand_count; i++)
        if (!a->operands[i].constant) cpu_emit_touch(p, a->operands[i].at.buffer);
    return PROPANE_OK;
}

/* Returns true if an operand or a result is a list. Lists have separate memory, which the slow reference cannot
 * access. */
static bool emit_reference_has_list(const mil_op *op) {
    for (int r = 0; r < op->result_count; r++)
        if (op->results[r]->type.container == MIL_LIST) return true;
    MIL_FOR_OPERANDS (op, v)
        if (v->type.container == MIL_LIST && !v->constant) return true;
    return false;
}

propane_status cpu_emit_reference(planner *p, const mil_op *op, propane_error *err) {
    int results = op->result_count;
    int64_t doubles = 0;
    if (emit_reference_has_list(op))
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "the cpu driver cannot run it with lists");
    if (!op->info->eval) return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "the cpu driver cannot run it");
    reference_args *a = ARENA_NEW(p->arena, reference_args);
    cpu_view *want = ARENA_ARRAY(p->work, results + 1, cpu_view), *have = ARENA_ARRAY(p->work, results + 1, cpu_view);
    if (!a || !want || !have) return cpu_program_no_memory(err);
    a->op = op;
    a->out = ARENA_ARRAY(p->arena, results, mil_tensor);
    a->out_offset = ARENA_ARRAY(p->arena, results, int64_t);
    a->out_at = ARENA_ARRAY(p->arena, results, cpu_ref);
    if (!a->out || !a->out_offset || !a->out_at) return cpu_program_no_memory(err);
    PROPANE_TRY(emit_reference_read_operands(p, op, a, &doubles, err));
    for (int r = 0; r < results; r++) {
        const mil_type *type = &op->results[r]->type;
        PROPANE_TRY(cpu_emit_result(p, op->results[r], &want[r], err));
        have[r] = want[r];
        if (!cpu_view_is_dense(&want[r])) {
            int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, mil_type_count(type) * cpu_view_dtype_bytes(type->dtype));
            if (b < 0) return cpu_program_no_memory(err);
            have[r] = cpu_view_dense(type, b);
        }
        cpu_emit_touch(p, have[r].buffer);
        a->out[r].type = *type;
        a->out_offset[r] = doubles;
        a->out_at[r] = cpu_view_ref(&have[r]);
        doubles += mil_type_count(type) + 1;
    }
    PROPANE_TRY(cpu_emit_scratch(p, doubles * (int64_t)sizeof(double), &a->scratch, err));
    p->program->reference_count++;
    PROPANE_TRY(cpu_emit_step(p, emit_reference_run, a, "reference", op->results[0], 0, 0, err));
    for (int r = 0; r < results; r++)
        if (!cpu_view_equal(&want[r], &have[r])) PROPANE_TRY(cpu_emit_copy(p, op->results[r], &have[r], &want[r], err));
    return PROPANE_OK;
}

const cpu_emitter cpu_emitter_reference = {.emit = cpu_emit_reference};
/* Constants are never emitted. */
const cpu_emitter cpu_emitter_none = {.emit = cpu_emit_reference};
