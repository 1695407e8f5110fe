/* SPDX-License-Identifier: MIT
 * Owns turning states into inputs and outputs. A state that a program reads and writes becomes a parameter with its
 * content before and a result, NAME_out, with its content after; the caller passes the result back as the parameter.
 * Devices therefore need not support states. Refuses states inside blocks.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/pass/pass.h"

typedef struct states {
    mil_function *function;
    mil_value **held; /* by id: a state's current content; NULL means the initial one */
    propane_error *err;
} states;

static mil_value *states_state_of(const mil_op *op) {
    mil_value *v = op->info->param_count && op->operands[0].count ? op->operands[0].values[0] : NULL;
    return v && v->type.container == MIL_STATE ? v : NULL;
}

/* read_state returns the content; write_state and coreml_update_state change it. */
static propane_status states_turn_op(states *s, mil_op *op) {
    mil_value *state = states_state_of(op);
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (v->type.container == MIL_STATE && op->block_count)
                return mil_op_fail(op, s->err, PROPANE_ERR_UNSUPPORTED, "state '%.60s' is used inside a block",
                                   v->name);
        }
    mil_replace_settle(op);
    if (!state) return PROPANE_OK;
    if (op->info->param_count > 1) s->held[state->id] = op->operands[1].values[0];
    if (op->result_count) op->results[0]->replaced_by = s->held[state->id] ? s->held[state->id] : state;
    mil_op_remove(op);
    return PROPANE_OK;
}

/* Adds the result NAME_out of a state. The result is a new value, so that it is neither a parameter nor returned
 * twice. */
static propane_status states_add_result(states *s, mil_builder *b, mil_value *state) {
    char name[300];
    mil_value *held = s->held[state->id];
    if (!held) return PROPANE_OK; /* never written */
    snprintf(name, sizeof name, "%.280s_out", state->name);
    const mil_argument x[] = {{"x", 1, &held}};
    mil_op *copy = mil_build_op(b, MIL_OP_identity, name, x, 1);
    if (copy) mil_build_result(b, copy->results[0]);
    return b->err.status;
}

static propane_status states_turn(states *s) {
    mil_function *f = s->function;
    mil_builder b;
    for (mil_op *op = f->first, *next; op; op = next) {
        next = op->next;
        PROPANE_TRY(states_turn_op(s, op));
    }
    bool *was_state = mem_array((size_t)f->param_count + 1, sizeof *was_state);
    if (!was_state) return propane_fail_memory(s->err, (size_t)f->param_count);
    for (int i = 0; i < f->param_count; i++) {
        was_state[i] = f->params[i]->type.container == MIL_STATE;
        f->params[i]->type.container = MIL_TENSOR;
    }
    mil_params_placed(f);
    mil_build_resume(&b, f);
    for (int i = 0; i < f->result_count; i++) {
        mil_value *v = mil_replaced(f->results[i]);
        if (v == f->results[i]) continue;
        const mil_argument x[] = {{"x", 1, &v}};
        const char *name = f->results[i]->name;
        mil_op *copy = mil_build_op(&b, MIL_OP_identity, name, x, 1);
        if (copy) f->results[i] = copy->results[0];
    }
    for (int i = 0; i < f->param_count; i++)
        if (was_state[i]) (void)!states_add_result(s, &b, f->params[i]);
    mem_free(was_state);
    return mil_build_end(&b, s->err);
}

propane_status pass_states(mil_function *f, propane_error *err) {
    states s = {f, mem_array((size_t)f->value_count + 1, sizeof *s.held), err};
    propane_error own = {0};
    if (!err) s.err = &own;
    propane_status status = s.held ? states_turn(&s) : propane_fail_memory(err, 0);
    mem_free(s.held);
    return status;
}
