/* SPDX-License-Identifier: MIT
 * Owns reverse mode. The joint function is a copy of the forward function, followed by the ops that the rules of the
 * GRAD column emit. The forward ops are walked from last to first, so a value's adjoint is complete when its definition
 * is reached.
 *
 * An adjoint may be thin: a dimension along which it is constant (the gradient of a sum) has size 1, although the
 * forward value has more. It is tiled only when a rule needs it in full.
 *
 * Refuses ops without a rule on a path from a wanted parameter to a result, and names the op and its line.
 */
#include "core/grad/grad.h"

#include <assert.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/grad_context.h"
#include "core/grad/rules.h"
#include "core/mil/ir_edit.h"

#define GRAD(rule)                                             grad_rule_##rule
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) [MIL_OP_##name] = grad,
static const grad_rule rules[MIL_OP_COUNT] = {
#include "core/mil/ops.def"
};

propane_status grad_rule_none(grad_context *g, const mil_op *op, propane_error *err) {
    (void)g;
    return mil_op_fail(
        op, err, PROPANE_ERR_UNSUPPORTED,
        "this operation has no gradient; remove it from the path between the trained parameters and the results");
}

/* Called only for operations that pass_unroll has not expanded. */
propane_status grad_rule_expanded(grad_context *g, const mil_op *op, propane_error *err) {
    return grad_rule_none(g, op, err);
}

/* Never called, because the results of such an op do not vary. */
propane_status grad_rule_zero(grad_context *g, const mil_op *op, propane_error *err) {
    (void)g, (void)op, (void)err;
    return PROPANE_OK;
}

/* ---- the joint function ------------------------------------------------------------------------------------------ */

static bool grad_context_make(grad_context *g, arena *a, const mil_function *f) {
    int n = f->value_count > 0 ? f->value_count : 1;
    g->forward = f;
    g->map = ARENA_ARRAY(a, n, mil_value *);
    g->adjoint = ARENA_ARRAY(a, n, mil_value *);
    g->stage = ARENA_ARRAY(a, n, const char *);
    g->varied = ARENA_ARRAY(a, n, bool);
    return g->map && g->adjoint && g->stage && g->varied;
}

static const mil_value *grad_find_param(const mil_function *f, const char *name) {
    for (int i = 0; i < f->param_count; i++)
        if (strcmp(f->params[i]->name, name) == 0) return f->params[i];
    return NULL;
}

/* Returns whether a result varies. Floats do, and so do results of ops that are not differentiable, so that the walk
 * reports them. Bytes that quantize made vary until they are floats again; other integers do not. */
static bool grad_result_varies(const grad_context *g, const mil_op *op, const mil_value *result) {
    const mil_dtype dtype = result->type.dtype;
    const grad_rule rule = rules[op->info->code];
    const bool refused = rule == grad_rule_none || rule == grad_rule_expanded;
    bool of_bytes = rule == grad_rule_quantize;
    if (mil_dtype_is_float(dtype) || refused) return true;
    MIL_FOR_OPERANDS (op, v) of_bytes |= g->varied[v->id] && v->type.dtype == dtype;
    return of_bytes && (dtype == MIL_int8 || dtype == MIL_uint8);
}

/* Finds the values that depend on the wanted parameters. The others never get an adjoint. */
static propane_status grad_find_varied(grad_context *g, const char *const *wrt, int wrt_count, propane_error *err) {
    const mil_function *f = g->forward;
    for (int i = 0; !wrt && i < f->param_count; i++)
        g->varied[f->params[i]->id] = mil_dtype_is_float(f->params[i]->type.dtype);
    for (int i = 0; wrt && i < wrt_count; i++) {
        const mil_value *p = grad_find_param(f, wrt[i]);
        if (!p)
            return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                                "function '%s' has no parameter '%s' to differentiate with respect to", f->name,
                                wrt[i]);
        if (!mil_dtype_is_float(p->type.dtype))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "parameter '%s' of function '%s' is %s; only floating-point parameters have gradients",
                                p->name, f->name, mil_dtype_get(p->type.dtype)->name);
        g->varied[p->id] = true;
    }
    for (const mil_op *op = f->first; op; op = op->next) {
        if (rules[op->info->code] == grad_rule_zero) continue;
        bool any = false;
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++) any |= g->varied[op->operands[p].values[i]->id];
        for (int i = 0; any && i < op->result_count; i++)
            g->varied[op->results[i]->id] = grad_result_varies(g, op, op->results[i]);
    }
    return PROPANE_OK;
}

static mil_value *grad_build_prefixed_param(grad_context *g, arena *a, const mil_value *result, propane_error *err) {
    char *name = arena_printf(a, "d_%s", result->name);
    if (!name) {
        propane_fail_memory(err, 0);
        return NULL;
    }
    if (!mil_scope_find(g->forward, name, strlen(name))) return mil_build_param(&g->build, name, result->type);
    propane_fail(
        err, PROPANE_ERR_INVALID,
        "function '%s' already has a value '%s', the name reserved for the adjoint of its result '%s': rename it",
        g->forward->name, name, result->name);
    return NULL;
}

static propane_status grad_copy_forward(grad_context *g, arena *a, propane_error *err) {
    const mil_function *f = g->forward;
    mil_builder *b = &g->build;
    for (int i = 0; i < f->param_count; i++)
        g->map[f->params[i]->id] = mil_build_param(b, f->params[i]->name, f->params[i]->type);
    for (int i = 0; i < f->result_count; i++) {
        mil_value *r = f->results[i];
        if (!mil_dtype_is_float(r->type.dtype)) continue;
        mil_value *seed = grad_build_prefixed_param(g, a, r, err);
        if (!seed) return b->err.status ? PROPANE_OK : PROPANE_ERR_INVALID; /* the caller reports the builder's error */
        grad_add(g, r, seed);
    }
    for (const mil_op *op = f->first; op; op = op->next) {
        b->stage = op->stage;
        b->backward = op->backward;
        if (!mil_build_copy(b, op, g->map)) break;
    }
    return PROPANE_OK;
}

/* Names the adjoint of a value d_NAME if that name is free, so that readers of a plan see "d_q" instead of
 * "matmul_17". */
static void grad_name_adjoint(grad_context *g, arena *a, const mil_value *forward) {
    mil_value *v = g->adjoint[forward->id];
    if (!v || !v->def || !v->def->backward || strncmp(v->name, "d_", 2) == 0) return;
    const char *name = arena_printf(a, "d_%s", forward->name);
    if (!name || mil_rename(g->build.function, v, name, NULL)) return;
}

static propane_status grad_walk_back(grad_context *g, arena *a, propane_error *err) {
    mil_builder *b = &g->build;
    b->backward = true;
    for (const mil_op *op = g->forward->last; op && !b->err.status; op = op->prev) {
        bool reached = false;
        for (int i = 0; i < op->result_count; i++)
            reached |= g->adjoint[op->results[i]->id] != NULL && g->varied[op->results[i]->id];
        if (!reached) continue;
        for (int i = 0; i < op->result_count; i++) grad_name_adjoint(g, a, op->results[i]);
        b->stage = op->stage;
        PROPANE_TRY(rules[op->info->code](g, op, err));
        if (b->err.status)
            return propane_fail(err, b->err.status, "gradient of %s in function '%s': %s", op->info->name,
                                g->forward->name, b->err.text);
    }
    return PROPANE_OK;
}

/* Adds the result d_PARAM, as a separate value with that name. */
static void grad_build_gradient_result(grad_context *g, arena *a, const mil_value *param) {
    mil_builder *b = &g->build;
    const char *name = arena_printf(a, "d_%s", param->name);
    mil_value *v = g->adjoint[param->id];
    b->stage = g->stage[param->id];
    if (!name) {
        b->err.status = propane_fail_memory(&b->err, 0);
        return;
    }
    if (!v) {
        double *zeros = ARENA_ARRAY(a, mil_type_count(&param->type), double);
        if (!zeros) {
            b->err.status = propane_fail_memory(&b->err, (size_t)mil_type_count(&param->type) * sizeof(double));
            return;
        }
        /* The zeros of another parameter may be the same constant. */
        v = mil_build_const_f64(b, "zero", &param->type, zeros);
    }
    v = grad_fill_out(g, &param->type, v);
    if (v && (!v->def || v->constant || !v->def->backward || mil_is_result(b->function, v)))
        v = mil_build_unary(b, MIL_OP_identity, v);
    if (v && strcmp(v->name, name) != 0) {
        propane_error err = {0};
        if (mil_rename(b->function, v, name, &err) && !b->err.status) b->err = err;
    }
    mil_build_result(b, v);
}

static propane_status grad_build_joint(grad_context *g, arena *a, const char *const *wrt, int wrt_count,
                                       propane_error *err) {
    const mil_function *f = g->forward;
    mil_builder *b = &g->build;
    PROPANE_TRY(grad_find_varied(g, wrt, wrt_count, err));
    PROPANE_TRY(grad_copy_forward(g, a, err));
    PROPANE_TRY(grad_walk_back(g, a, err));
    for (int i = 0; i < f->result_count; i++) mil_build_result(b, g->map[f->results[i]->id]);
    for (int i = 0; i < f->param_count && !b->err.status; i++) {
        const mil_value *p = f->params[i];
        if (!wrt && mil_dtype_is_float(p->type.dtype)) grad_build_gradient_result(g, a, p);
    }
    for (int i = 0; wrt && i < wrt_count && !b->err.status; i++)
        grad_build_gradient_result(g, a, grad_find_param(f, wrt[i]));
    return mil_build_end(b, err);
}

propane_status grad_function(const mil_function *f, const char *name, const char *const *wrt, int wrt_count,
                             mil_function **out, propane_error *err) {
    *out = NULL;
    arena *a = arena_create();
    grad_context g = {0};
    if (!a || !grad_context_make(&g, a, f)) {
        arena_free(a);
        return propane_fail_memory(err, (size_t)f->value_count * sizeof(void *));
    }
    mil_build_begin(&g.build, f->module, name, f->opset);
    mil_function *joint = g.build.function;
    propane_status status =
        g.build.err.status ? mil_build_end(&g.build, err) : grad_build_joint(&g, a, wrt, wrt_count, err);
    if (status == PROPANE_OK)
        *out = joint;
    else if (joint)
        mil_module_drop(f->module, joint);
    arena_free(a);
    return status;
}
