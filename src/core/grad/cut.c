/* SPDX-License-Identifier: MIT
 * Owns the cut of one function into kernels, which follows demand. Kernels are visited from the last to the first, and
 * so are the ops inside a kernel. An op is in a kernel only if something in the kernel needs it, so no dead op is
 * emitted. A value crosses if one kernel needs it and another makes it: the value becomes a result of its home and a
 * parameter of the other kernel. If the plan allows the value to be recomputed, its operands are needed instead. The
 * work is one walk over the ops per kernel.
 *
 * Constants, and ops with only constant operands, belong to every kernel that uses them. No kernel makes or returns a
 * result of the function that is a parameter or a constant.
 */
#include <assert.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/grad/grad.h"

typedef struct cut {
    const mil_function *f;
    const grad_cut_plan *plan;
    mil_module *into;
    mil_op **ops;    /* in order */
    int *home;       /* by op; ANYWHERE for constants */
    int *maker;      /* by value: index of the op that makes it, or -1 for a parameter or an inline literal */
    bool *is_result; /* by value: is a result of the function */
    bool *crosses;   /* by value: is received by another kernel */
    /* For the current kernel: */
    bool *asked;     /* by value: needed in the kernel */
    bool *received;  /* by value: received from another kernel */
    bool *inside;    /* by op: computed in the kernel */
    mil_value **map; /* by value: its counterpart in the kernel's function */
} cut;

enum { ANYWHERE = -1 };

static bool cut_make(cut *c, arena *a) {
    int ops = c->f->op_count + 1, values = c->f->value_count + 1;
    c->ops = ARENA_ARRAY(a, ops, mil_op *);
    c->home = ARENA_ARRAY(a, ops, int);
    c->inside = ARENA_ARRAY(a, ops, bool);
    c->maker = ARENA_ARRAY(a, values, int);
    c->is_result = ARENA_ARRAY(a, values, bool);
    c->crosses = ARENA_ARRAY(a, values, bool);
    c->asked = ARENA_ARRAY(a, values, bool);
    c->received = ARENA_ARRAY(a, values, bool);
    c->map = ARENA_ARRAY(a, values, mil_value *);
    return c->ops && c->home && c->inside && c->maker && c->is_result && c->crosses && c->asked && c->received &&
           c->map;
}

static bool cut_of_constants(const cut *c, const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (!v->constant && !(c->maker[v->id] >= 0 && c->home[c->maker[v->id]] == ANYWHERE)) return false;
        }
    return true;
}

static void cut_index_ops(cut *c) {
    const mil_function *f = c->f;
    for (int i = 0; i < f->value_count; i++) c->maker[i] = -1;
    for (int i = 0; i < f->result_count; i++) c->is_result[f->results[i]->id] = true;
    int n = 0;
    for (mil_op *op = f->first; op; op = op->next, n++) {
        assert(n < f->op_count);
        c->ops[n] = op;
        for (int i = 0; i < op->result_count; i++) c->maker[op->results[i]->id] = n;
        c->home[n] = cut_of_constants(c, op) ? ANYWHERE : 0;
    }
}

/* Assigns homes to the ops on which a result depends. */
static propane_status cut_find_homes(cut *c, propane_error *err) {
    memset(c->asked, 0, (size_t)c->f->value_count * sizeof *c->asked);
    for (int i = 0; i < c->f->result_count; i++) c->asked[c->f->results[i]->id] = true;
    for (int n = c->f->op_count - 1; n >= 0; n--) {
        const mil_op *op = c->ops[n];
        bool alive = false;
        for (int i = 0; i < op->result_count; i++) alive |= c->asked[op->results[i]->id];
        if (!alive) continue;
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++) c->asked[op->operands[p].values[i]->id] = true;
        if (c->home[n] == ANYWHERE) continue;
        c->home[n] = c->plan->home(c->plan->ctx, op);
        if (c->home[n] < 0 || c->home[n] >= c->plan->kernel_count)
            return mil_op_fail(op, err, PROPANE_ERR_INVALID, "the plan places it in kernel %d of %d", c->home[n],
                               c->plan->kernel_count);
    }
    return PROPANE_OK;
}

/* Decides whether op n, whose results are needed in kernel k, is computed in kernel k, or whether the kernel receives
 * its results. */
static propane_status cut_settle(cut *c, int n, int k, propane_error *err) {
    const mil_op *op = c->ops[n];
    const grad_cut_plan *plan = c->plan;
    int home = c->home[n];
    c->inside[n] = home == ANYWHERE || home == k || (plan->recompute && plan->recompute(plan->ctx, op, k));
    if (c->inside[n]) {
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++) c->asked[op->operands[p].values[i]->id] = true;
        return PROPANE_OK;
    }
    for (int i = 0; i < op->result_count; i++) {
        const mil_value *v = op->results[i];
        if (!c->asked[v->id]) continue;
        if (home > k)
            return propane_fail(
                err, PROPANE_ERR_INVALID,
                "value '%s' would flow backwards: kernel '%s' uses it, but the later kernel '%s' produces it", v->name,
                plan->names[k], plan->names[home]);
        c->received[v->id] = c->crosses[v->id] = true;
    }
    return PROPANE_OK;
}

/* Finds the ops that kernel k computes and the values that it receives. Sets *any to whether the kernel computes
 * anything but constants. */
static propane_status cut_ask(cut *c, int k, bool *any, propane_error *err) {
    const mil_function *f = c->f;
    memset(c->asked, 0, (size_t)f->value_count * sizeof *c->asked);
    memset(c->received, 0, (size_t)f->value_count * sizeof *c->received);
    memset(c->inside, 0, (size_t)f->op_count * sizeof *c->inside);
    *any = false;
    for (int n = f->op_count - 1; n >= 0; n--) {
        const mil_op *op = c->ops[n];
        bool wanted = false;
        for (int i = 0; i < op->result_count; i++) {
            int id = op->results[i]->id;
            if (c->home[n] == k && (c->is_result[id] || c->crosses[id])) c->asked[id] = true;
            wanted |= c->asked[id];
        }
        if (!wanted) continue;
        PROPANE_TRY(cut_settle(c, n, k, err));
        *any |= c->inside[n] && c->home[n] != ANYWHERE;
    }
    return PROPANE_OK;
}

static propane_status cut_emit(cut *c, int k, mil_function **out, propane_error *err) {
    const mil_function *f = c->f;
    mil_builder b;
    memset(c->map, 0, (size_t)f->value_count * sizeof *c->map);
    mil_build_begin(&b, c->into, c->plan->names[k], f->opset);
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *p = f->params[i];
        if (c->asked[p->id]) c->map[p->id] = mil_build_param(&b, p->name, p->type);
    }
    for (int n = 0; n < f->op_count; n++)
        for (int i = 0; i < c->ops[n]->result_count; i++) {
            const mil_value *v = c->ops[n]->results[i];
            if (c->received[v->id]) c->map[v->id] = mil_build_param(&b, v->name, v->type);
        }
    for (int n = 0; n < f->op_count; n++) {
        if (!c->inside[n]) continue;
        b.stage = c->ops[n]->stage;
        b.backward = c->ops[n]->backward;
        if (!mil_build_copy(&b, c->ops[n], c->map)) break;
    }
    for (int i = 0; i < f->result_count; i++) {
        const mil_value *r = f->results[i];
        if (c->maker[r->id] >= 0 && c->home[c->maker[r->id]] == k) mil_build_result(&b, c->map[r->id]);
    }
    for (int n = 0; n < f->op_count; n++)
        for (int i = 0; i < c->ops[n]->result_count; i++) {
            int id = c->ops[n]->results[i]->id;
            if (c->home[n] == k && c->crosses[id] && !c->is_result[id]) mil_build_result(&b, c->map[id]);
        }
    *out = b.function;
    return mil_build_end(&b, err);
}

/* Decides what the kernels compute from the last to the first, but writes them in order, so that the module lists them
 * as they run. */
static propane_status cut_kernels(cut *c, arena *a, mil_function **out, propane_error *err) {
    int kernels = c->plan->kernel_count;
    cut *kept = ARENA_ARRAY(a, kernels, cut); /* one per kernel, with tables of what it computes */
    if (!kept) return propane_fail_memory(err, (size_t)kernels * sizeof *kept);
    size_t values = (size_t)c->f->value_count + 1, ops = (size_t)c->f->op_count + 1;
    bool any;
    for (int k = kernels - 1; k >= 0; k--) {
        PROPANE_TRY(cut_ask(c, k, &any, err));
        kept[k] = *c;
        if (!any) {
            kept[k].inside = NULL;
            continue;
        }
        kept[k].asked = arena_copy(a, c->asked, values * sizeof(bool));
        kept[k].received = arena_copy(a, c->received, values * sizeof(bool));
        kept[k].inside = arena_copy(a, c->inside, ops * sizeof(bool));
        if (!kept[k].asked || !kept[k].received || !kept[k].inside) return propane_fail_memory(err, values);
    }
    for (int k = 0; k < kernels; k++)
        if (kept[k].inside) PROPANE_TRY(cut_emit(&kept[k], k, &out[k], err));
    return PROPANE_OK;
}

/* Restores the module after a failure: removes the functions after `last`. */
static void cut_drop_behind(mil_module *m, mil_function *last, int count) {
    if (last)
        last->next = NULL;
    else
        m->functions = NULL;
    m->function_count = count;
}

propane_status grad_cut(const mil_function *f, const grad_cut_plan *plan, mil_module *into, mil_function **out,
                        propane_error *err) {
    for (int k = 0; k < plan->kernel_count; k++) out[k] = NULL;
    mil_function *last = into->functions;
    while (last && last->next) last = last->next;
    int count = into->function_count;
    arena *a = arena_create();
    cut c = {.f = f, .plan = plan, .into = into};
    if (!a || !cut_make(&c, a)) {
        arena_free(a);
        return propane_fail_memory(err, (size_t)f->value_count);
    }
    cut_index_ops(&c);
    propane_status status = cut_find_homes(&c, err);
    if (status == PROPANE_OK) status = cut_kernels(&c, a, out, err);
    if (status != PROPANE_OK) {
        cut_drop_behind(into, last, count);
        for (int k = 0; k < plan->kernel_count; k++) out[k] = NULL;
    }
    arena_free(a);
    return status;
}

/* ---- purposes of an op ------------------------------------------------------------------------------------------- */

static propane_status cut_mark_served(const mil_function *f, const char *const *results, int count,
                                      unsigned char *serves, propane_error *err) {
    for (int i = 0; i < f->result_count; i++) serves[f->results[i]->id] |= 2;
    for (int k = 0; k < count; k++) {
        int found = -1;
        for (int i = 0; i < f->result_count; i++)
            if (strcmp(f->results[i]->name, results[k]) == 0) found = i;
        if (found < 0)
            return propane_fail(err, PROPANE_ERR_NOT_FOUND, "function '%s' has no result '%s'", f->name, results[k]);
        serves[f->results[found]->id] = 1;
    }
    return PROPANE_OK;
}

propane_status grad_only_for(const mil_function *joint, const char *const *results, int result_count, bool *by_op_index,
                             propane_error *err) {
    /* By value: 1 if a named result depends on it, plus 2 if another result does. */
    unsigned char *serves = mem_alloc((size_t)joint->value_count + 1);
    if (!serves) return propane_fail_memory(err, (size_t)joint->value_count);
    propane_status status = cut_mark_served(joint, results, result_count, serves, err);
    int n = joint->op_count - 1;
    for (const mil_op *op = joint->last; status == PROPANE_OK && op; op = op->prev, n--) {
        unsigned char all = 0;
        for (int i = 0; i < op->result_count; i++) all |= serves[op->results[i]->id];
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++) serves[op->operands[p].values[i]->id] |= all;
        by_op_index[n] = all == 1;
    }
    mem_free(serves);
    return status;
}
