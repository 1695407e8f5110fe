/* SPDX-License-Identifier: MIT
 * Owns the planner's copy of a function, which the stages may change.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/function_copy.h"
#include "cpu/cpu_family.h"
#include "cpu/plan/plan_stages.h"

/* True for lowerings that compute in fp32 for every input type. */
static bool plan_copy_widens(const mil_op *op) {
    const cpu_family f = cpu_family_named(op);
    return f == CPU_FAMILY_lower_layer_norm || f == CPU_FAMILY_lower_batch_norm ||
           f == CPU_FAMILY_lower_instance_norm || f == CPU_FAMILY_lower_activation;
}

/* Returns whether the value is a constant that loses nothing in this element type. */
static bool plan_copy_fits(const mil_value *v, mil_dtype dtype) {
    if (!v->constant || !v->constant->data) return false;
    for (int64_t i = 0; i < mil_type_count(&v->type); i++) {
        const double x = mil_const_f64(v->constant, i);
        if (!isnan(x) && mil_round(dtype, x) != x) return false;
    }
    return true;
}

static void plan_copy_cast_to(mil_builder *b, mil_op *op, int param, mil_dtype dtype) {
    mil_value **v = &op->operands[param].values[0];
    if ((*v)->type.dtype == dtype) return;
    b->before = op;
    mil_value *cast = mil_build_cast(b, *v, dtype);
    b->before = NULL;
    if (cast) *v = cast;
}

/* A constant stays a constant, because the element type of a matrix product's result depends on it. */
static void plan_copy_const_to(mil_builder *b, mil_op *op, int param, mil_dtype dtype) {
    mil_value **v = &op->operands[param].values[0];
    const int64_t count = mil_type_count(&(*v)->type);
    mil_type type = (*v)->type;
    double *data = mem_array((size_t)count + 1, sizeof *data);
    if (!data) {
        if (!b->err.status) propane_fail_memory(&b->err, (size_t)count * sizeof *data);
        return;
    }
    for (int64_t i = 0; i < count; i++) data[i] = mil_const_f64((*v)->constant, i);
    type.dtype = dtype;
    b->before = op;
    mil_value *made = mil_build_const_f64(b, NULL, &type, data);
    b->before = NULL;
    mem_free(data);
    if (made) *v = made;
}

/* Handles weights whose element type differs from that of x, because kernels need one type. (Matrix products read each
 * operand in its own type.) Weights are cast to the type of x. If x is fp16 and a weight would lose something, x and
 * the weights are cast to fp32 instead, and the result is cast back; `map` then holds the cast result. */
static void plan_copy_cast_weights(mil_builder *b, const mil_op *source, mil_op *op, mil_value **map) {
    if (!op || !op->info->param_count || !op->operands[0].count || plan_copy_widens(op)) return;
    const mil_dtype x = op->operands[0].values[0]->type.dtype;
    mil_dtype common = x;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 1; i < op->info->param_count; i++) {
            const mil_operand *o = &op->operands[i];
            if (op->info->params[i].type_class != MIL_CLASS_WEIGHT || !o->count) continue;
            if (pass == 1)
                plan_copy_cast_to(b, op, i, common);
            else if (o->values[0]->type.dtype != x && x == MIL_fp16 && !plan_copy_fits(o->values[0], x))
                common = MIL_fp32;
        }
    if (common == x) return;
    plan_copy_cast_to(b, op, 0, common);
    op->results[0]->type.dtype = common;
    map[source->results[0]->id] = mil_build_cast(b, op->results[0], x);
}

/* Casts integer operands of float matrix products: to the result's type if it holds their constant values exactly, else
 * to fp32. */
static void plan_copy_cast_factors(mil_builder *b, mil_op *op) {
    for (int i = 0; op && i < op->info->param_count; i++) {
        const mil_operand *o = &op->operands[i];
        if (op->info->params[i].type_class != MIL_CLASS_FACTOR || !o->count ||
            mil_dtype_is_float(o->values[0]->type.dtype) || !mil_dtype_is_float(op->results[0]->type.dtype))
            continue;
        const mil_value *v = o->values[0];
        const mil_dtype result = op->results[0]->type.dtype, to = plan_copy_fits(v, result) ? result : MIL_fp32;
        (v->constant && v->constant->data ? plan_copy_const_to : plan_copy_cast_to)(b, op, i, to);
    }
}

/* Returns the copy of result i. A block may return a literal, one of its parameters, or one value twice, but a function
 * may not. */
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
        plan_copy_cast_weights(&b, op, copy, map);
        plan_copy_cast_factors(&b, copy);
    }
    for (int i = 0; i < f->result_count && !b.err.status; i++)
        mil_build_result(&b, plan_copy_own_result(&b, f, i, map));
    p->g.f = b.function;
    if (p->g.f) p->g.f->was_block = f->owner != NULL;
    return mil_build_end(&b, err);
}
