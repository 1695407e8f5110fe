/* SPDX-License-Identifier: MIT
 * Owns the expansion of control flow. A while_loop becomes its rounds, one after the other; a cond becomes both of its
 * branches and a select of their results. If only a limit for the number of rounds is known, all rounds up to the limit
 * are emitted. A select after each round keeps the result of the last round that counts. A round is a copy of the
 * blocks with that round's loop variables. Copies with only constant operands are evaluated at once, so the condition
 * of a counted loop is a constant in each round.
 *
 * Refuses a loop whose condition has no known limit, more than MAX_ROUNDS rounds, and a cond with lists or states
 * whose branch is known only at run time.
 */
#include "core/pass/unroll_loop.h"
#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/pass/rewrite.h"

enum { MAX_ROUNDS = 2048, MAX_OPERATIONS = 200000 };

propane_status unroll_replace(mil_builder *b, mil_op *op, mil_value *const *with, propane_error *err) {
    mil_function *f = op->function;
    for (int i = 0; i < op->result_count && !b->err.status; i++) {
        mil_value *old = op->results[i], *v = with[i] ? mil_replaced(with[i]) : NULL;
        const bool given = mil_is_result(f, old);
        if (!v) continue;
        if (given && (!v->def || v->constant || mil_is_result(f, v))) v = mil_build_unary(b, MIL_OP_identity, v);
        if (!v) break;
        mil_replace_uses(f, old, v);
        if (!given) continue;
        const char *name = old->name;
        PROPANE_TRY(mil_rename(f, old, mil_scope_unique(f, name), err));
        PROPANE_TRY(mil_rename(f, v, name, err));
    }
    if (b->err.status) return propane_fail(err, b->err.status, "%s", b->err.text);
    mil_op_remove(op);
    return PROPANE_OK;
}

typedef struct loop_walk {
    mil_builder *b;
    unroll_lists *lists;
    const mil_op *op;
    arena *work;     /* memory for one copy */
    mil_value **now; /* [count]: the current loop variables */
    int count, operations;
    mil_value *pred; /* the condition of a cond decided at run time; NULL if the copied code always runs */
    bool when;       /* the value of pred for which the copied branch counts */
} loop_walk;

static bool unroll_loop_is_known(const mil_op *op) {
    if (op->info->code == MIL_OP_const || op->block_count || op->result_count != 1 || !op->info->eval) return false;
    if (op->results[0]->type.container != MIL_TENSOR || op->results[0]->type.dtype == MIL_string) return false;
    MIL_FOR_OPERANDS (op, v)
        if (!v->constant || !v->constant->data) return false;
    return true;
}

/* Builds the copy of an operation, or the constant that it evaluates to. */
static propane_status unroll_loop_copy_op(loop_walk *w, const mil_op *op, mil_value **map, propane_error *err) {
    mil_op *made = mil_build_copy(w->b, op, map);
    w->operations++;
    if (!made) return PROPANE_OK; /* the builder has recorded the error */
    mil_value *v = NULL;
    mil_tensor out = {0};
    if (unroll_is_list(made)) {
        PROPANE_TRY(unroll_list(w->lists, w->b, made, &v, err));
    } else if (unroll_loop_is_known(made)) {
        PROPANE_TRY(rewrite_evaluate(w->work, made, &out, err));
        v = mil_build_const_f64(w->b, made->results[0]->name, &out.type, out.data);
    }
    if (!v) return PROPANE_OK;
    map[op->results[0]->id] = v;
    mil_op_remove(made);
    return PROPANE_OK;
}

static mil_value *unroll_select(const loop_walk *w, bool when, mil_value *a, mil_value *b) {
    mil_value *cond = w->pred;
    const mil_op *op =
        a && b
            ? mil_build_op(w->b, MIL_OP_select, NULL,
                           (mil_argument[]){{"cond", 1, &cond}, {"a", 1, when ? &a : &b}, {"b", 1, when ? &b : &a}}, 3)
            : NULL;
    return op ? op->results[0] : NULL;
}

/* Returns the value for a block's parameter. A branch or round that is not taken gets ones instead of its floats.
 * Otherwise the logarithm of a zero, for example, would make the gradient NaN, even though the branch's result is
 * multiplied by zero. */
static mil_value *unroll_loop_input(const loop_walk *w, const mil_function *block, int i) {
    mil_value *outer = (mil_value *)(uintptr_t)mil_captured(w->op, block, i);
    if (!outer) outer = w->now[i];
    if (!w->pred || outer->constant || outer->type.container != MIL_TENSOR || !mil_dtype_is_float(outer->type.dtype))
        return outer;
    return unroll_select(w, w->when, outer, mil_build_scalar(w->b, outer->type.dtype, 1));
}

/* Copies one block with the current variables; out is [block->result_count]. */
static propane_status unroll_loop_copy(loop_walk *w, const mil_function *block, mil_value **out, propane_error *err) {
    mil_value **map = mem_array((size_t)block->value_count + 1, sizeof *map);
    w->work = arena_create();
    propane_status status = map && w->work ? PROPANE_OK : propane_fail_memory(err, (size_t)block->value_count * 8);
    for (int i = 0; i < block->param_count && !status; i++) map[block->params[i]->id] = unroll_loop_input(w, block, i);
    for (const mil_op *op = block->first; op && !status && !w->b->err.status; op = op->next)
        status = unroll_loop_copy_op(w, op, map, err);
    for (int i = 0; i < block->result_count && !status && !w->b->err.status; i++) {
        mil_value *v = block->results[i];
        out[i] = map[v->id]    ? map[v->id]
                 : v->constant ? mil_build_const(w->b, v->name, &v->constant->type, v->constant->data)
                               : NULL;
    }
    arena_free(w->work);
    mem_free(map);
    return status;
}

/* Sets *more if another round may follow. If only a run can decide that, w->pred becomes the condition under which this
 * round counts, which implies that all earlier ones do. */
static propane_status unroll_loop_goes_on(loop_walk *w, bool *more, propane_error *err) {
    mil_value *goes = NULL, *before = w->pred;
    bool ends = false;
    w->pred = NULL; /* the condition is evaluated on the results of the rounds so far */
    PROPANE_TRY(unroll_loop_copy(w, w->op->blocks[0], &goes, err));
    w->pred = before;
    *more = goes && !w->b->err.status && !unroll_is_false(goes, &ends);
    if (!*more || goes->constant) return PROPANE_OK;
    if (!ends)
        return mil_op_fail(w->op, err, PROPANE_ERR_UNSUPPORTED,
                           "no gradient of a loop whose condition depends on inputs and has no limit; count to a "
                           "constant, or add a limit: logical_and(x = less(x = i, y = 100), y = ...), or less(x = i, y "
                           "= minimum(x = n, y = 100)), where i counts from a constant in steps of a constant");
    for (int i = 0; i < w->count; i++)
        if (w->now[i]->type.container != MIL_TENSOR)
            return mil_op_fail(w->op, err, PROPANE_ERR_UNSUPPORTED,
                               "no gradient of a loop whose condition depends on inputs, with a list among its "
                               "variables; count to a constant");
    w->pred = before ? mil_build_binary(w->b, MIL_OP_logical_and, before, goes) : goes;
    return PROPANE_OK;
}

/* Updates the loop's results as if this round were the last one. */
static propane_status unroll_loop_take(loop_walk *w, mil_value *const *next, mil_value **out, propane_error *err) {
    for (int i = 0; i < w->count && !w->b->err.status; i++) {
        w->now[i] = next[i];
        if (w->pred && next[i] && !mil_type_equal(&next[i]->type, &out[i]->type))
            return mil_op_fail(
                w->op, err, PROPANE_ERR_UNSUPPORTED,
                "no gradient of a loop whose condition depends on inputs and whose variable %d changes its shape", i);
        out[i] = w->pred ? unroll_select(w, true, next[i], out[i]) : next[i];
    }
    return PROPANE_OK;
}

/* Emits rounds until the condition is certain to be false. `out` initially contains the loop's inputs. */
static propane_status unroll_loop_run(loop_walk *w, mil_value **next, mil_value **out, propane_error *err) {
    for (int round = 0; !w->b->err.status; round++) {
        bool more = false;
        PROPANE_TRY(unroll_loop_goes_on(w, &more, err));
        if (!more) return PROPANE_OK;
        if (round == MAX_ROUNDS || w->operations > MAX_OPERATIONS)
            return mil_op_fail(w->op, err, PROPANE_ERR_UNSUPPORTED,
                               "no gradient of a loop of more than %d iterations or %d operations", MAX_ROUNDS,
                               MAX_OPERATIONS);
        PROPANE_TRY(unroll_loop_copy(w, w->op->blocks[1], next, err));
        PROPANE_TRY(unroll_loop_take(w, next, out, err));
    }
    return PROPANE_OK;
}

propane_status unroll_loop(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err) {
    mil_builder b;
    const int count = op->operands[0].count;
    mil_value **room = mem_array(3 * (size_t)count + 1, sizeof *room), **out = room ? room + count : NULL;
    loop_walk w = {.b = &b, .lists = lists, .op = op, .count = count, .now = room, .when = true};
    propane_status status = room ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof *room);
    mil_build_resume(&b, f);
    b.before = op;
    b.stage = op->stage;
    for (int i = 0; i < count && !status; i++) w.now[i] = out[i] = op->operands[0].values[i];
    if (!status) status = unroll_loop_run(&w, out + count, out, err);
    if (!status && b.err.status) status = propane_fail(err, b.err.status, "%s", b.err.text);
    if (!status) status = unroll_replace(&b, op, out, err);
    mem_free(room);
    return status;
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */

static propane_status unroll_cond_check(const mil_op *op, propane_error *err) {
    MIL_FOR_OPERANDS (op, v)
        if (v->type.container != MIL_TENSOR)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                               "no gradient of branches that use '%s', which is a list or a state", v->name);
    for (int i = 0; i < op->result_count; i++)
        if (op->results[i]->type.container != MIL_TENSOR)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "no gradient of branches whose result '%s' is a list",
                               op->results[i]->name);
    return PROPANE_OK;
}

propane_status unroll_cond(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err) {
    mil_builder b;
    mil_value *pred = mil_in(op, "pred"), *yes[MIL_MAX_RESULTS] = {0}, *no[MIL_MAX_RESULTS] = {0};
    mil_build_resume(&b, f);
    b.before = op;
    b.stage = op->stage;
    loop_walk w = {.b = &b, .lists = lists, .op = op};
    if (pred->constant && pred->constant->data) {
        const bool taken = *(const uint8_t *)pred->constant->data != 0;
        PROPANE_TRY(unroll_loop_copy(&w, op->blocks[taken ? 0 : 1], yes, err));
        return unroll_replace(&b, op, yes, err);
    }
    PROPANE_TRY(unroll_cond_check(op, err));
    w.pred = pred;
    w.when = true;
    PROPANE_TRY(unroll_loop_copy(&w, op->blocks[0], yes, err));
    w.when = false;
    PROPANE_TRY(unroll_loop_copy(&w, op->blocks[1], no, err));
    for (int i = 0; i < op->result_count && !b.err.status; i++) {
        if (!yes[i] || !no[i] || !mil_type_equal(&yes[i]->type, &no[i]->type))
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                               "no gradient of branches that return '%s' with different types or shapes",
                               op->results[i]->name);
        yes[i] = unroll_select(&w, true, yes[i], no[i]);
    }
    return unroll_replace(&b, op, yes, err);
}
