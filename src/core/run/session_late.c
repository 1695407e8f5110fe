/* SPDX-License-Identifier: MIT
 * Owns the stages of a session whose program's shapes depend on values: their programs, the values that they returned,
 * and the plan for these values. All programs share the input buffers. Refuses programs that need more than MAX_STAGES
 * stages.
 */
#include "core/run/session_late.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops.h"
#include "core/mil/specialize.h"
#include "core/run/session_states.h"

enum { MAX_STAGES = 64 };

typedef struct stage {
    propane_program *program;
    runner run;
    mil_module *module; /* holds `settled` */
    mil_specialized settled;
    mil_known *given; /* the last run's result for each wanted value */
    bool has_run;
} stage;

typedef struct session_late {
    mil_function *function;
    stage stages[MAX_STAGES];
    int count;
    bool planned;       /* the session's program is the whole one, planned for the stages' values */
    mil_module *module; /* module of the whole program */
} session_late;

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Lends the buffers of the first stage's inputs to another program. */
static propane_status session_late_lend(void *context, const propane_io *io, int index, propane_buffer **out,
                                        bool *lent, propane_error *err) {
    const runner *first = context;
    (void)io, (void)err;
    if (index >= first->inputs) return PROPANE_OK;
    *out = first->bindings[index].buffer;
    *lent = true;
    return PROPANE_OK;
}

static void session_late_stage_free(stage *g) {
    for (int i = 0; g->given && i < g->settled.wanted_count; i++) mem_free((void *)(uintptr_t)g->given[i].data);
    mem_free(g->given);
    runner_close(&g->run);
    propane_program_free(g->program);
    mil_module_free(g->module);
    *g = (stage){0};
}

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static const mil_value *session_late_value(const mil_function *f, int id) {
    for (int i = 0; i < f->param_count; i++)
        if (f->params[i]->id == id) return f->params[i];
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++)
            if (op->results[i]->id == id) return op->results[i];
    return NULL;
}

/* Reads result `index` of a stage, converted to the type that the value has in the late function. */
static propane_status session_late_read(const session *s, stage *g, int index, void **out, propane_error *err) {
    const mil_type *type = &g->given[index].type;
    const int64_t count = mil_type_count(type);
    const bool real = mil_dtype_is_float(type->dtype);
    double *wide = mem_array((size_t)count + 1, sizeof *wide);
    void *narrow = mem_array((size_t)count + 1, 4);
    *out = mem_alloc((size_t)mil_type_bytes(type) + 1);
    propane_status status = wide && narrow && *out ? runner_read(&g->run, s->inputs + index,
                                                                 real ? PROPANE_FP32 : PROPANE_INT32, narrow, err)
                                                   : propane_fail_memory(err, (size_t)count * 8);
    for (int64_t i = 0; i < count && !status; i++)
        wide[i] = real ? (double)((float *)narrow)[i] : (double)((int32_t *)narrow)[i];
    if (!status) mil_pack_f64(*out, type->dtype, wide, count);
    mem_free(wide);
    mem_free(narrow);
    if (status) mem_free(*out);
    return status;
}

/* Runs a stage. Sets *same to whether the stage returned the same values as in its last run. */
static propane_status session_late_stage_run(const session *s, stage *g, bool *same, propane_error *err) {
    PROPANE_TRY(runner_run(&g->run, NULL, err));
    *same = g->has_run;
    for (int i = 0; i < g->settled.wanted_count; i++) {
        void *data = NULL;
        PROPANE_TRY(session_late_read(s, g, i, &data, err));
        const size_t bytes = (size_t)mil_type_bytes(&g->given[i].type);
        *same &= g->given[i].data && memcmp(data, g->given[i].data, bytes) == 0;
        mem_free((void *)(uintptr_t)g->given[i].data);
        g->given[i].data = data;
    }
    g->has_run = true;
    return PROPANE_OK;
}

static propane_status session_late_note_wanted(const session_late *l, stage *g, propane_error *err) {
    const mil_function *f = g->settled.function;
    g->given = mem_array((size_t)g->settled.wanted_count + 1, sizeof *g->given);
    if (!g->given) return propane_fail_memory(err, 0);
    for (int i = 0; i < g->settled.wanted_count; i++) {
        const mil_value *v = session_late_value(l->function, g->settled.wanted[i]);
        g->given[i] = (mil_known){.id = v->id, .type = f->results[i]->type};
        g->given[i].type.dtype = v->type.dtype;
    }
    return PROPANE_OK;
}

/* Builds the next function from the results of all stages. */
static propane_status session_late_next(const session *s, stage *next, propane_error *err) {
    const session_late *l = s->late;
    int count = 0;
    for (int k = 0; k < l->count; k++) count += l->stages[k].settled.wanted_count;
    mil_known *known = mem_array((size_t)count + 1, sizeof *known);
    next->module = mil_module_create(s->module->source);
    propane_status status = known && next->module ? PROPANE_OK : propane_fail_memory(err, 0);
    if (next->module) next->module->coreml = s->module->coreml;
    count = 0;
    for (int k = 0; k < l->count && !status; k++)
        for (int i = 0; i < l->stages[k].settled.wanted_count; i++) known[count++] = l->stages[k].given[i];
    if (!status) status = mil_specialize(l->function, known, count, next->module, &next->settled, err);
    mem_free(known);
    return status;
}

static propane_status session_late_stage_add(session *s, stage *g, propane_error *err) {
    session_late *l = s->late;
    if (l->count == MAX_STAGES)
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "%s: shapes and values depend on each other more than %d times in a row", s->module->source,
                            MAX_STAGES);
    PROPANE_TRY(session_late_note_wanted(l, g, err));
    PROPANE_TRY(session_prepare(s, g->settled.function, false, err));
    PROPANE_TRY(session_compile(s, g->module, &g->program, err));
    return runner_open(&g->run, s->device, g->program, l->count ? session_late_lend : NULL, &l->stages[0].run, err);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void session_late_forget_plan(session *s) {
    session_late *l = s->late;
    runner_close(&s->run);
    if (l->planned) propane_program_free(s->program);
    s->program = NULL;
    mil_module_free(l->module);
    l->module = NULL;
    l->planned = false;
    s->outputs = 0;
}

/* Makes the first stage's program the session's, so that the session has inputs before there is a plan. */
static propane_status session_late_show_inputs(session *s, propane_error *err) {
    session_late *l = s->late;
    s->function = l->function;
    s->program = l->stages[0].program;
    s->inputs = propane_program_input_count(s->program);
    s->outputs = 0;
    PROPANE_TRY(runner_open(&s->run, s->device, s->program, session_late_lend, &l->stages[0].run, err));
    return session_states_place(s, err);
}

/* Drops the stages from `first` on and the plan, because values that they depend on have changed. */
static propane_status session_late_forget(session *s, int first, propane_error *err) {
    session_late *l = s->late;
    while (l->count > first) session_late_stage_free(&l->stages[--l->count]);
    if (!l->planned) return PROPANE_OK;
    session_late_forget_plan(s);
    return session_late_show_inputs(s, err);
}

static propane_status session_late_plan_whole(session *s, stage *whole, propane_error *err) {
    session_late *l = s->late;
    session_late_forget_plan(s);
    l->module = whole->module;
    whole->module = NULL;
    PROPANE_TRY(session_prepare(s, whole->settled.function, true, err));
    PROPANE_TRY(session_compile(s, l->module, &s->program, err));
    l->planned = true;
    s->outputs = propane_program_output_count(s->program);
    PROPANE_TRY(runner_open(&s->run, s->device, s->program, session_late_lend, &l->stages[0].run, err));
    return session_states_place(s, err);
}

/* Plans the whole program. After an error the session still has its inputs. */
static propane_status session_late_plan(session *s, stage *whole, propane_error *err) {
    propane_error ignored;
    propane_status status = session_late_plan_whole(s, whole, err);
    if (!status) return PROPANE_OK;
    session_late_forget_plan(s);
    (void)!session_late_show_inputs(s, &ignored);
    return status;
}

/* ---- outside ----------------------------------------------------------------------------------------------------- */

propane_status session_late_open(session *s, propane_error *err) {
    session_late *l = mem_alloc(sizeof *l);
    if (!l) return propane_fail_memory(err, sizeof *l);
    *l = (session_late){.function = s->function};
    s->late = l;
    stage first = {0};
    propane_status status = session_late_next(s, &first, err);
    if (!status) status = session_late_stage_add(s, &first, err);
    l->stages[0] = first;
    l->count = 1;
    return status ? status : session_late_show_inputs(s, err);
}

propane_status session_late_settle(session *s, propane_error *err) {
    session_late *l = s->late;
    for (int k = 0;; k++) {
        bool same = false;
        PROPANE_TRY(session_late_stage_run(s, &l->stages[k], &same, err));
        if (!same) PROPANE_TRY(session_late_forget(s, k + 1, err));
        if (k + 1 < l->count) continue;
        if (l->planned) return PROPANE_OK;
        stage next = {0};
        propane_status status = session_late_next(s, &next, err);
        const bool whole = !status && next.settled.wanted_count == 0;
        if (!status) status = whole ? session_late_plan(s, &next, err) : session_late_stage_add(s, &next, err);
        if (status || whole) {
            session_late_stage_free(&next);
            return status;
        }
        l->stages[l->count++] = next;
    }
}

void session_late_close(session *s) {
    session_late *l = s->late;
    if (!l) return;
    if (!l->planned) s->program = NULL; /* the program belongs to the first stage */
    while (l->count > 0) session_late_stage_free(&l->stages[--l->count]);
    mil_module_free(l->module);
    mem_free(l);
    s->late = NULL;
}
