/* SPDX-License-Identifier: MIT
 * Owns the units of an update that runs in parallel with the device, the calls that read and write them, and the
 * thread. A unit is the set of weights that the kernels of one half of a layer read. step_update.c updates a unit.
 * There are no units if updates do not overlap or change constants of programs, or if a call reads more than
 * STEP_CALL_UNITS units. The update is then a single sweep.
 */
#include "core/base/memory.h"
#include "lm/step/step_internal.h"

static int step_units_find(step_updates *u, int instance) {
    for (int i = 0; i < u->unit_count; i++)
        if (u->units[i].instance == instance) return i;
    u->units[u->unit_count] = (step_unit){.instance = instance, .last = {-1, -1}};
    return u->unit_count++;
}

static void step_units_enter_call(train_step *s, int call, int unit) {
    step_call *c = &s->calls[call];
    for (int i = 0; i < c->unit_count; i++)
        if (c->unit[i] == unit) return;
    if (c->unit_count < STEP_CALL_UNITS) c->unit[c->unit_count] = unit;
    c->unit_count++;
}

/* Records that a call reads weights of a unit or writes their gradients. The call is now the unit's last on its queue.
 * If it reads weights, the unit is added to the call's list; forward calls wait for the units in their lists. */
static void step_units_visit(train_step *s, int call, const char *name, bool forward) {
    const dataflow_call *c = &s->dataflow->calls[call];
    const dataflow_ref ref = dataflow_resolve(s->dataflow, c, name);
    if (ref.kind == DATAFLOW_VALUE || !s->trained[ref.index]) return;
    if (s->updates->unit_of[ref.index] < 0) {
        if (ref.kind != DATAFLOW_WEIGHT || !forward) return;
        s->updates->unit_of[ref.index] = step_units_find(s->updates, c->instance);
    }
    const int unit = s->updates->unit_of[ref.index];
    s->updates->units[unit].last[c->host] = call;
    if (ref.kind == DATAFLOW_WEIGHT) step_units_enter_call(s, call, unit);
}

static void step_units_visit_calls(train_step *s) {
    for (int c = 0; c < s->dataflow->call_count; c++) {
        const partition_kernel *k = &s->partition->kernels[s->dataflow->calls[c].kernel];
        for (int i = 0; i < k->function->param_count; i++)
            step_units_visit(s, c, k->function->params[i]->name, !k->backward);
        for (int i = 0; i < k->function->result_count; i++)
            step_units_visit(s, c, k->function->results[i]->name, !k->backward);
    }
}

/* Adds each tensor to its unit's list. Tensors that no forward kernel reads, such as an embedding, form a separate
 * unit. */
static void step_units_fill_units(train_step *s) {
    step_updates *u = s->updates;
    int n = 0;
    for (int i = 0; i < s->updated_count; i++)
        if (u->unit_of[s->updated[i]] < 0) u->unit_of[s->updated[i]] = step_units_find(u, -1);
    for (int k = 0; k < u->unit_count; k++) {
        u->units[k].updated = u->order + n;
        for (int i = 0; i < s->updated_count; i++) {
            const int tensor = s->updated[i];
            if (u->unit_of[tensor] != k) continue;
            u->order[n++] = i;
            u->units[k].count++;
            u->units[k].gathered |= s->dataflow->gradients[tensor].made == s->dataflow->call_count;
        }
    }
}

static bool step_units_suits(const train_step *s) {
    for (int c = 0; c < s->dataflow->call_count; c++)
        if (s->calls[c].unit_count > STEP_CALL_UNITS) return false;
    return true;
}

static propane_status step_units_make(train_step *s, update_run *run, propane_error *err) {
    step_updates *u = s->updates;
    u->units = mem_array((size_t)s->dataflow->instance_count + 1, sizeof *u->units);
    u->unit_of = mem_array((size_t)step_total(s), sizeof *u->unit_of);
    u->order = mem_array((size_t)s->updated_count, sizeof *u->order);
    if (!u->units || !u->unit_of || !u->order) return propane_fail_memory(err, (size_t)step_total(s) * sizeof(int));
    for (int i = 0; i < step_total(s); i++) u->unit_of[i] = -1;
    step_units_visit_calls(s);
    step_units_fill_units(s);
    for (int i = 0; i < u->unit_count; i++)
        PROPANE_TRY(propane_event_create(step_device(s, false), &u->units[i].done, err));
    return update_thread_create(u->unit_count, run, s, &u->thread, err);
}

propane_status step_make_updates(train_step *s, update_run *run, propane_error *err) {
    if (!s->options.overlap || !s->two_queues || step_bakes_what_is_trained(s)) return PROPANE_OK;
    s->updates = mem_alloc(sizeof *s->updates);
    if (!s->updates) return propane_fail_memory(err, sizeof *s->updates);
    PROPANE_TRY(step_units_make(s, run, err));
    if (!step_units_suits(s)) step_free_updates(s);
    return PROPANE_OK;
}

void step_free_updates(train_step *s) {
    step_updates *u = s->updates;
    if (!u) return;
    update_thread_free(u->thread);
    for (int i = 0; u->units && i < u->unit_count; i++) propane_event_free(u->units[i].done);
    mem_free(u->units);
    mem_free(u->unit_of);
    mem_free(u->order);
    mem_free(u);
    s->updates = NULL;
}

propane_status step_wait_updates(train_step *s, propane_error *err) {
    if (!s->updates) return PROPANE_OK;
    const propane_status status = update_thread_settle(s->updates->thread, err);
    s->own_ns += update_thread_ns(s->updates->thread);
    return status;
}
