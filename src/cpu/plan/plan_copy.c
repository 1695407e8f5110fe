/* SPDX-License-Identifier: MIT
 * Owns the planner's copy of a function, which the stages may change.
 */
#include "core/mil/build.h"
#include "core/mil/function_copy.h"
#include "cpu/cpu_family.h"
#include "cpu/plan/plan_stages.h"

/* Lowerings that compute in fp32 whatever they are given. */
static bool plan_copy_widens(const mil_op *op) {
    const cpu_family f = cpu_family_named(op);
    return f == CPU_FAMILY_lower_layer_norm || f == CPU_FAMILY_lower_batch_norm || f == CPU_FAMILY_lower_instance_norm;
}

/* Weights of another element type than what they are applied to: kernels want one; products read each as it is. */
static void plan_copy_cast_weights(mil_builder *b, mil_op *op) {
    for (int i = 1; op && !plan_copy_widens(op) && i < op->info->param_count; i++) {
        mil_operand *o = &op->operands[i];
        const mil_type *x = &op->operands[0].values[0]->type;
        if (op->info->params[i].type_class != MIL_CLASS_WEIGHT || !o->count || o->values[0]->type.dtype == x->dtype)
            continue;
        b->before = op;
        mil_value *cast = mil_build_cast(b, o->values[0], x->dtype);
        b->before = NULL;
        if (cast) o->values[0] = cast;
    }
}

/* Products of floats read floats. */
static void plan_copy_cast_factors(mil_builder *b, mil_op *op) {
    for (int i = 0; op && i < op->info->param_count; i++) {
        mil_operand *o = &op->operands[i];
        if (op->info->params[i].type_class != MIL_CLASS_FACTOR || !o->count ||
            mil_dtype_is_float(o->values[0]->type.dtype) || !mil_dtype_is_float(op->results[0]->type.dtype))
            continue;
        b->before = op;
        mil_value *cast = mil_build_cast(b, o->values[0], op->results[0]->type.dtype);
        b->before = NULL;
        if (cast) o->values[0] = cast;
    }
}

/* Result i. A block may give a literal, what it was given, or one value twice; a function may not. */
static mil_value *plan_copy_own_result(mil_builder *b, const mil_function *f, int i, mil_value *const *map) {
    const mil_value *v = f->results[i];
    mil_value *own = map[v->id];
    if (!f->owner) return own;
    if (!own && v->constant) own = mil_build_const(b, NULL, &v->constant->type, v->constant->data);
    bool again = own && !own->def && !own->constant;
    for (int k = 0; k < i; k++) again |= f->results[k] == v;
    return own && again ? mil_build_unary(b, MIL_OP_identity, own) : own;
}

propane_status cpu_plan_copy_function(planner *p, const mil_function *f, propane_error *err) {
    PROPANE_TRY(mil_function_load(f, err));
    p->module = mil_module_create(f->module->source);
    mil_value **map = ARENA_ARRAY(p->work, f->value_count + 1, mil_value *);
    if (!p->module || !map) return cpu_program_no_memory(err);
    mil_builder b = {0};
    mil_build_begin(&b, p->module, f->name, f->opset);
    for (int i = 0; i < f->param_count; i++)
        map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, f->params[i]->type);
    for (const mil_op *op = f->first; op && !b.err.status; op = op->next) {
        mil_op *copy = mil_build_copy(&b, op, map);
        plan_copy_cast_weights(&b, copy);
        plan_copy_cast_factors(&b, copy);
    }
    for (int i = 0; i < f->result_count && !b.err.status; i++)
        mil_build_result(&b, plan_copy_own_result(&b, f, i, map));
    p->g.f = b.function;
    if (p->g.f) p->g.f->was_block = f->owner != NULL;
    return mil_build_end(&b, err);
}
