/* SPDX-License-Identifier: MIT
 * Owns the states of a session. A state is an input of the program, and also an output called NAME_out if the program
 * writes it.
 */
#include "core/run/session_states.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/device/device.h"

static const char out_ending[] = "_out";
enum { OUT_ENDING = sizeof out_ending - 1 };

propane_status session_states_note(session *s, propane_error *err) {
    const mil_function *f = s->function;
    s->states = mem_array((size_t)f->param_count + 1, sizeof *s->states);
    if (!s->states) return propane_fail_memory(err, (size_t)f->param_count * sizeof *s->states);
    for (int i = 0; i < f->param_count; i++) {
        if (f->params[i]->type.container != MIL_STATE) continue;
        char *name = mem_copy_string(f->params[i]->name);
        if (!name) return propane_fail_memory(err, strlen(f->params[i]->name));
        s->states[s->state_count] = (session_state){name, -1, -1};
        if (!piece_map_enter(&s->states_by_name, name, strlen(name), s->state_count++))
            return propane_fail_memory(err, strlen(name));
    }
    return PROPANE_OK;
}

void session_states_free(session *s) {
    for (int k = 0; k < s->state_count; k++) mem_free(s->states[k].name);
    mem_free(s->states);
    mem_free(s->state_of);
    piece_map_deinit(&s->states_by_name);
}

static int session_states_find(const session *s, const char *name, size_t length) {
    const int32_t *at = piece_map_find(&s->states_by_name, name, length);
    return at ? *at : -1;
}

propane_status session_states_place(session *s, propane_error *err) {
    mem_free(s->state_of);
    s->state_of = mem_array((size_t)s->outputs + 1, sizeof *s->state_of);
    if (!s->state_of) return propane_fail_memory(err, (size_t)s->outputs * sizeof *s->state_of);
    for (int k = 0; k < s->state_count; k++) {
        const int at = program_place(s->run.program, s->states[k].name);
        s->states[k].input = at < s->inputs ? at : -1;
        s->states[k].output = -1;
    }
    for (int i = 0; i < s->outputs; i++) {
        const char *name = s->run.bindings[s->inputs + i].name;
        const size_t length = strlen(name);
        const bool ends = length > OUT_ENDING && strcmp(name + length - OUT_ENDING, out_ending) == 0;
        const int k = ends ? session_states_find(s, name, length - OUT_ENDING) : -1;
        s->state_of[i] = k;
        if (k >= 0) s->states[k].output = s->inputs + i;
    }
    return PROPANE_OK;
}

bool session_is_state(const session *s, const char *name) { return session_states_find(s, name, strlen(name)) >= 0; }

const char *session_state_of(const session *s, int at) {
    const int k = s->state_of[at - s->inputs];
    return k < 0 ? NULL : s->states[k].name;
}

static propane_status session_states_copy(session *s, const session_state *state, propane_error *err) {
    propane_buffer *from = s->run.bindings[state->output].buffer, *to = s->run.bindings[state->input].buffer;
    const size_t bytes = runner_io(&s->run, state->output)->bytes, room = runner_io(&s->run, state->input)->bytes;
    void *source = NULL, *target = NULL;
    PROPANE_TRY(propane_buffer_lock(from, false, &source, err));
    propane_status status = propane_buffer_lock(to, true, &target, err);
    if (!status) {
        memcpy(target, source, bytes < room ? bytes : room);
        propane_buffer_unlock(to);
    }
    propane_buffer_unlock(from);
    return status;
}

propane_status session_states_carry(session *s, propane_error *err) {
    for (int k = 0; k < s->state_count; k++)
        if (s->states[k].output >= 0 && s->states[k].input >= 0)
            PROPANE_TRY(session_states_copy(s, &s->states[k], err));
    return PROPANE_OK;
}
