/* SPDX-License-Identifier: MIT
 * Owns the expansion of operations without gradient rules into operations that have them. This file expands an lstm,
 * gru or rnn into its steps; unroll_loop.c expands loops and branches, unroll_list.c lists, and unroll_sample.c
 * sampling. A single matrix product with the inputs serves all steps of a layer, and the rest of a step follows the
 * operation's reference line by line.
 *
 * Refuses more than MAX_STEPS steps, because each step becomes some twenty operations.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/conv_expanded.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops/shape_util.h"
#include "core/pass/pass.h"
#include "core/pass/unroll_loop.h"

enum { MAX_STEPS = 2048 };

/* One direction of a recurrent layer. Omitted operands are NULL. */
typedef struct unit {
    mil_builder *b;
    const mil_recurrent *r;
    /* hidden_bias: for gru with reset_after, the bias that the reset gate scales. */
    mil_value *hh, *hidden_bias, *peephole;
    mil_value *given; /* [steps, batch, gates * hidden]: the contribution of the inputs */
    mil_value *h, *c;
} unit;

/* Slices columns [begin, begin + hidden) of a matrix, or elements of a vector. */
static mil_value *unroll_piece(const unit *u, mil_value *v, int64_t begin) {
    const int64_t n = u->r->hidden;
    if (!v) return NULL;
    if (v->type.rank == 1) return mil_build_slice(u->b, v, (int64_t[]){begin}, (int64_t[]){n});
    return mil_build_slice(u->b, v, (int64_t[]){0, begin}, (int64_t[]){u->r->batch, n});
}

static mil_value *unroll_add(const unit *u, mil_value *x, mil_value *y) {
    return mil_build_binary(u->b, MIL_OP_add, x, y);
}
static mil_value *unroll_mul(const unit *u, mil_value *x, mil_value *y) {
    return mil_build_binary(u->b, MIL_OP_mul, x, y);
}

static mil_value *unroll_hard(const unit *u, mil_value *x) {
    if (!x) return NULL;
    mil_value *alpha = mil_build_scalar(u->b, x->type.dtype, 0.2), *beta = mil_build_scalar(u->b, x->type.dtype, 0.5);
    const mil_op *op = mil_build_op(u->b, MIL_OP_sigmoid_hard, NULL,
                                    (mil_argument[]){{"x", 1, &x}, {"alpha", 1, &alpha}, {"beta", 1, &beta}}, 3);
    return op ? op->results[0] : NULL;
}

static mil_value *unroll_activate(const unit *u, mil_recurrent_activation code, mil_value *x) {
    switch (code) {
    case MIL_RECURRENT_SIGMOID: return mil_build_unary(u->b, MIL_OP_sigmoid, x);
    case MIL_RECURRENT_TANH: return mil_build_unary(u->b, MIL_OP_tanh, x);
    case MIL_RECURRENT_RELU: return mil_build_unary(u->b, MIL_OP_relu, x);
    case MIL_RECURRENT_SIGMOID_HARD: return unroll_hard(u, x);
    default: return x;
    }
}

static mil_value *unroll_hidden_product(const unit *u, mil_value *h, mil_value *weight) {
    return mil_build_matmul(u->b, h, weight, false, true);
}

/* Builds a gate from its input, including its peephole. */
static mil_value *unroll_gate(const unit *u, mil_value *all, int64_t index, mil_value *c) {
    mil_value *v = unroll_piece(u, all, index * u->r->hidden);
    if (u->peephole && c) v = unroll_add(u, v, unroll_mul(u, unroll_piece(u, u->peephole, index * u->r->hidden), c));
    return unroll_activate(u, u->r->gate, v);
}

static void unroll_lstm_step(unit *u, mil_value *given) {
    const mil_recurrent *r = u->r;
    mil_value *all = unroll_add(u, given, unroll_hidden_product(u, u->h, u->hh)),
              *z = unroll_piece(u, all, 3 * r->hidden);
    mil_value *i = unroll_gate(u, all, 0, u->c), *f = unroll_gate(u, all, 1, u->c);
    u->c = unroll_add(u, unroll_mul(u, f, u->c), unroll_mul(u, i, unroll_activate(u, r->cell, z)));
    if (r->clipped) {
        u->c = mil_build_binary_scalar(u->b, MIL_OP_maximum, u->c, -r->clip);
        u->c = mil_build_binary_scalar(u->b, MIL_OP_minimum, u->c, r->clip);
    }
    u->h = unroll_mul(u, unroll_gate(u, all, 2, u->c), unroll_activate(u, r->output, u->c));
}

static void unroll_gru_step(unit *u, mil_value *given) {
    const mil_recurrent *r = u->r;
    const int64_t n = r->hidden;
    mil_value *all = unroll_hidden_product(u, u->h, u->hh), *o;
    if (u->hidden_bias) all = unroll_add(u, all, u->hidden_bias);
    mil_value *reset = unroll_activate(u, r->gate, unroll_add(u, unroll_piece(u, given, 0), unroll_piece(u, all, 0)));
    mil_value *z =
        unroll_activate(u, r->gate, unroll_add(u, unroll_piece(u, given, 2 * n), unroll_piece(u, all, 2 * n)));
    if (r->reset_after) {
        o = unroll_mul(u, reset, unroll_piece(u, all, n));
    } else {
        mil_value *rows = mil_build_slice(u->b, u->hh, (int64_t[]){n, 0}, (int64_t[]){n, n});
        o = unroll_hidden_product(u, unroll_mul(u, reset, u->h), rows);
        if (u->hidden_bias) o = unroll_add(u, o, unroll_piece(u, u->hidden_bias, n));
    }
    o = unroll_activate(u, r->output, unroll_add(u, unroll_piece(u, given, n), o));
    /* (1 - z) o + z h */
    u->h = unroll_add(u, o, unroll_mul(u, z, mil_build_binary(u->b, MIL_OP_sub, u->h, o)));
}

static mil_value *unroll_operand(const mil_op *op, const char *param, bool back) {
    char name[40] = "";
    strcat(strcat(name, param), back ? "_back" : "");
    return mil_op_param(op->info, name) < 0 ? NULL : mil_in(op, name);
}

/* Builds the matrix product with the inputs of all steps, plus the inputs' bias. */
static mil_value *unroll_given_of(const unit *u, const mil_op *op, bool back) {
    const mil_recurrent *r = u->r;
    const int64_t width = r->gates * r->hidden;
    mil_value *x = mil_build_reshape(u->b, mil_in(op, "x"), (int64_t[]){r->steps * r->batch, r->inputs}, 2);
    mil_value *all = mil_build_matmul(u->b, x, unroll_operand(op, "weight_ih", back), false, true);
    mil_value *bias = unroll_operand(op, r->gates == 3 ? "input_bias" : "bias", back);
    if (bias) all = unroll_add(u, all, bias);
    return mil_build_reshape(u->b, all, (int64_t[]){r->steps, r->batch, width}, 3);
}

static void unroll_run_unit(mil_builder *b, const mil_op *op, const mil_recurrent *r, bool back, mil_value **y,
                            mil_value **h, mil_value **c) {
    const int64_t width = r->gates * r->hidden, offset = back ? r->hidden : 0;
    const bool backward = back || r->reverse;
    unit u = {
        .b = b, .r = r, .hh = unroll_operand(op, "weight_hh", back), .peephole = unroll_operand(op, "peephole", back)};
    mil_value *all[MAX_STEPS];
    u.hidden_bias = r->gates == 3 ? unroll_operand(op, "bias", back) : NULL;
    u.given = unroll_given_of(&u, op, back);
    u.h = unroll_piece(&u, mil_in(op, "initial_h"), offset);
    u.c = r->gates == 4 ? unroll_piece(&u, mil_in(op, "initial_c"), offset) : NULL;
    for (int64_t s = 0; s < r->steps && !b->err.status; s++) {
        const int64_t t = backward ? r->steps - 1 - s : s;
        mil_value *given = mil_build_slice(b, u.given, (int64_t[]){t, 0, 0}, (int64_t[]){1, r->batch, width});
        given = mil_build_reshape(b, given, (int64_t[]){r->batch, width}, 2);
        if (r->gates == 4) unroll_lstm_step(&u, given);
        if (r->gates == 3) unroll_gru_step(&u, given);
        if (r->gates == 1)
            u.h = unroll_activate(&u, r->output, unroll_add(&u, given, unroll_hidden_product(&u, u.h, u.hh)));
        all[mil_recurrent_place(r, t, s)] = mil_build_reshape(b, u.h, (int64_t[]){1, r->batch, r->hidden}, 3);
    }
    *y = r->sequence && r->steps > 1 ? mil_build_concat(b, all, (int)r->steps, 0) : all[0];
    *h = u.h;
    *c = u.c;
}

static propane_status unroll_write_out(mil_function *f, mil_op *op, propane_error *err) {
    mil_recurrent r;
    mil_builder b;
    mil_value *made[2][3] = {{0}};
    PROPANE_TRY(mil_recurrent_read(op, &r, err));
    if (r.steps > MAX_STEPS || r.steps < 1)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                           "%lld steps cannot be differentiated; the number must be 1 to %d", (long long)r.steps,
                           MAX_STEPS);
    mil_build_resume(&b, f);
    b.before = op;
    b.stage = op->stage;
    for (int d = 0; d < r.directions; d++) unroll_run_unit(&b, op, &r, d == 1, &made[d][0], &made[d][1], &made[d][2]);
    for (int k = 0; k < op->result_count && r.directions == 2 && !b.err.status; k++)
        made[0][k] = mil_build_concat(&b, (mil_value *[]){made[0][k], made[1][k]}, 2, k == 0 ? 2 : 1);
    return unroll_replace(&b, op, made[0], err);
}

static bool unroll_is_recurrent(const mil_op *op) {
    return op->info->code == MIL_OP_lstm || op->info->code == MIL_OP_gru || op->info->code == MIL_OP_rnn;
}

static bool unroll_is_sampling(const mil_op *op) {
    return op->info->code == MIL_OP_resample || op->info->code == MIL_OP_affine || op->info->code == MIL_OP_crop_resize;
}

static propane_status unroll_quantized(mil_function *f, mil_op *op, propane_error *err) {
    mil_builder b;
    mil_build_resume(&b, f);
    b.before = op;
    b.stage = op->stage;
    mil_value *y = mil_conv_expanded(&b, op);
    return unroll_replace(&b, op, &y, err);
}

typedef struct unroll_walk {
    mil_function *function;
    unroll_lists lists;
    bool *depends; /* by value id */
    int values;    /* value count when the walk began; values made since then depend on the parameters */
} unroll_walk;

static bool unroll_depends(unroll_walk *w, const mil_op *op) {
    bool any = false;
    MIL_FOR_OPERANDS (op, v) any |= v->id >= w->values || w->depends[v->id];
    for (int i = 0; i < op->result_count; i++)
        if (op->results[i]->id < w->values) w->depends[op->results[i]->id] = any;
    return any;
}

/* Tracks the list that an operation returns, and replaces an operation that reads a list. A list that cannot be tracked
 * is an error only if the operation depends on the parameters. */
static propane_status unroll_take_list(unroll_walk *w, mil_op *op, bool any, propane_error *err) {
    mil_builder b;
    propane_error ignored = {0};
    mil_value *v = NULL;
    if (!any && op->results[0]->type.container != MIL_LIST) return PROPANE_OK;
    mil_build_resume(&b, w->function);
    b.before = op;
    b.stage = op->stage;
    const propane_status status = unroll_list(&w->lists, &b, op, &v, any ? err : &ignored);
    if (status) return any ? status : PROPANE_OK;
    if (b.err.status) return propane_fail(err, b.err.status, "%s", b.err.text);
    return v ? unroll_replace(&b, op, &v, err) : PROPANE_OK;
}

static propane_status unroll_walk_down(unroll_walk *w, propane_error *err) {
    mil_function *f = w->function;
    for (mil_op *op = f->first, *next; op; op = next) {
        mil_op *before = op->prev;
        next = op->next;
        mil_replace_settle(op);
        const bool any = unroll_depends(w, op);
        const mil_opcode code = op->info->code;
        if (unroll_is_list(op)) PROPANE_TRY(unroll_take_list(w, op, any, err));
        if (any && unroll_is_recurrent(op)) PROPANE_TRY(unroll_write_out(f, op, err));
        if (any && code == MIL_OP_conv_quantized) PROPANE_TRY(unroll_quantized(f, op, err));
        if (any && unroll_is_sampling(op)) PROPANE_TRY(unroll_sample(f, op, err));
        if (!any || (code != MIL_OP_while_loop && code != MIL_OP_cond)) continue;
        PROPANE_TRY(code == MIL_OP_cond ? unroll_cond(&w->lists, f, op, err) : unroll_loop(&w->lists, f, op, err));
        next = before ? before->next : f->first; /* the blocks may themselves contain loops or layers */
    }
    return PROPANE_OK;
}

propane_status pass_unroll(mil_function *f, const char *const *params, int count, propane_error *err) {
    unroll_walk w = {
        .function = f, .depends = mem_array((size_t)f->value_count + 1, sizeof *w.depends), .values = f->value_count};
    propane_status status = w.depends ? PROPANE_OK : propane_fail_memory(err, (size_t)f->value_count);
    if (!status) status = unroll_lists_open(&w.lists, err);
    for (int k = 0; k < count && !status; k++) {
        const mil_value *v = mil_scope_find(f, params[k], strlen(params[k]));
        if (v && !v->def) w.depends[v->id] = true;
    }
    mil_replace_begin(f);
    if (!status) status = unroll_walk_down(&w, err);
    mil_replace_end(f);
    if (!status) status = unroll_lists_sweep(&w.lists, f, err);
    unroll_lists_close(&w.lists);
    mem_free(w.depends);
    return status;
}
