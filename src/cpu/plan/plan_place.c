/* SPDX-License-Identifier: MIT
 * Decides where values must end up: results in their output buffers, parts of a concat in their slices of its result.
 * Works from the last operation to the first, so that a place is known before the operation that computes the value is
 * visited. A place is carried backwards through reshapes and transposes to the operation that does the work. If it
 * cannot be carried (constants, inputs, a value wanted in two places), later stages copy.
 */
#include "cpu/plan/plan_stages.h"
#include "cpu/plan/table.h"

/* Returns true if `op` computes its result into memory of the planner's choice. */
static bool plan_place_computes(const mil_op *op) {
    const cpu_emitter *b = cpu_emitter_of(op);
    return b->tile || b->emit;
}

/* Finds, for each value, the value that it is ultimately a view of. No place is carried to a value that already has a
 * place or cannot have one. */
static const mil_value **plan_place_roots(planner *p) {
    const mil_value **roots = ARENA_ARRAY(p->work, p->g.f->value_count + 1, const mil_value *);
    for (int i = 0; i < p->g.op_count && roots; i++) {
        const mil_op *op = p->g.ops[i];
        const mil_value *source = cpu_emitter_of(op)->view ? op->operands[0].values[0] : NULL;
        for (int k = 0; k < op->result_count; k++)
            roots[op->results[k]->id] = !source ? op->results[k] : roots[source->id] ? roots[source->id] : source;
    }
    return roots;
}

static void plan_place_one(planner *p, const mil_value *v, const cpu_view *target) {
    cpu_view at = *target;
    const mil_value *root = p->roots[v->id] ? p->roots[v->id] : v;
    if (!root->def || root->constant || p->is_placed[root->id]) return;
    while (v->def && !v->constant && !p->is_placed[v->id] && p->g.op_of[v->id] >= 0) {
        const mil_op *op = v->def;
        const cpu_emitter *b = cpu_emitter_of(op);
        if (!b->view) {
            if (!plan_place_computes(op)) return;
            p->placed[v->id] = at;
            p->is_placed[v->id] = true;
            return;
        }
        const mil_value *source = op->operands[0].values[0];
        cpu_view next;
        if (!b->unview || !b->unview(op, &at, &next)) return;
        if (source->type.dtype != at.dtype) return;
        v = source;
        at = next;
    }
}

static propane_status plan_place_results(planner *p, propane_error *err) {
    for (int i = 0; i < p->g.f->result_count; i++) {
        const mil_value *v = p->g.f->results[i];
        int buffer = cpu_emit_buffer(p, CPU_STORAGE_OUTPUT, cpu_view_type_bytes(&v->type));
        if (buffer < 0) return cpu_program_no_memory(err);
        p->buffers[buffer].index = i;
        cpu_view dense = cpu_view_dense(&v->type, buffer);
        plan_place_one(p, v, &dense);
    }
    return PROPANE_OK;
}

static propane_status plan_place_parts(planner *p, const mil_op *op, propane_error *err) {
    const mil_value *whole = op->results[0];
    mil_value *const *parts;
    int count = mil_in_list(op, "values", &parts);
    int64_t axis, at = 0;
    bool stacked = op->info->code == MIL_OP_stack || !parts[0]->type.rank; /* including scalars */
    PROPANE_TRY(mil_attr_int(op, "axis", &axis, err));
    if (axis < 0) axis += whole->type.rank;
    if (!p->is_placed[whole->id]) {
        int buffer = cpu_emit_buffer(p, CPU_STORAGE_TEMP, cpu_view_type_bytes(&whole->type));
        if (buffer < 0) return cpu_program_no_memory(err);
        p->placed[whole->id] = cpu_view_dense(&whole->type, buffer);
        p->is_placed[whole->id] = true;
    }
    for (int i = 0; i < count; i++) {
        int64_t size = stacked ? 1 : parts[i]->type.dim[axis];
        cpu_view part = cpu_view_part(&p->placed[whole->id], (int)axis, at, size);
        if (stacked) part = cpu_view_drop(&part, (int)axis);
        plan_place_one(p, parts[i], &part);
        at += size;
    }
    return PROPANE_OK;
}

propane_status cpu_plan_place_values(planner *p, propane_error *err) {
    p->roots = plan_place_roots(p);
    if (!p->roots) return cpu_program_no_memory(err);
    PROPANE_TRY(plan_place_results(p, err));
    for (int i = p->g.op_count - 1; i >= 0; i--)
        if (cpu_family_of(p->g.ops[i]) == CPU_FAMILY_concat) PROPANE_TRY(plan_place_parts(p, p->g.ops[i], err));
    return PROPANE_OK;
}
