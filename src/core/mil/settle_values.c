/* SPDX-License-Identifier: MIT
 * Owns turning a late function into one with numbers. One idea: copy operation by operation; what waits for a value that is
 * not known is left out with all that reads it, and the value is asked for.
 */
#include "core/mil/settle_values.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/function_copy.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "core/mil/settle_empty.h"

typedef struct settle {
    const mil_function *late;
    mil_builder b;
    mil_value **map; /* by id there: the value here; NULL: it waits */
    bool *wanted;    /* by id there */
    mil_type *empty; /* by id there: types of values without elements */
} settle;

static const mil_known *settle_values_given(const mil_known *known, int count, int id) {
    for (int i = 0; i < count; i++)
        if (known[i].id == id) return &known[i];
    return NULL;
}

/* Marks what the operation must know first. False: an operand waits itself, so nothing can be said of it yet. */
static bool settle_values_operands(settle *s, const mil_op *op, bool *ready) {
    *ready = true;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            mil_value *here = v->is_inline ? NULL : s->map[v->id];
            if (!v->is_inline && !here) return false;
            if (here && mil_operand_unknown(op, p, here)) *ready = false;
        }
    return true;
}

static void settle_values_want(settle *s, const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (!v->is_inline && mil_operand_unknown(op, p, s->map[v->id])) s->wanted[v->id] = true;
        }
}

static void settle_values_constant(settle *s, const mil_value *v, const mil_known *k) {
    s->map[v->id] = mil_build_const(&s->b, v->name, &k->type, k->data);
}

static void settle_values_body(settle *s, const mil_known *known, int count) {
    for (int i = 0; i < s->late->param_count; i++) {
        const mil_value *v = s->late->params[i];
        const mil_known *k = settle_values_given(known, count, v->id);
        s->map[v->id] = mil_build_param(&s->b, v->name, v->type);
        if (k) settle_values_constant(s, v, k);
    }
    for (const mil_op *op = s->late->first; op && !s->b.err.status; op = op->next) {
        bool ready = false;
        if (mil_settle_empty(&s->b, op, s->map, s->empty)) continue;
        if (settle_values_operands(s, op, &ready)) {
            if (ready)
                mil_build_copy(&s->b, op, s->map);
            else
                settle_values_want(s, op);
        }
        for (int i = 0; i < op->result_count; i++) {
            const mil_known *k = settle_values_given(known, count, op->results[i]->id);
            if (k) settle_values_constant(s, op->results[i], k);
        }
    }
}

/* A parameter that is wanted is given through an identity: results have names of their own. */
static void settle_values_wanted_results(settle *s, mil_settled *out) {
    for (int id = 0; id < s->late->value_count; id++) {
        if (!s->wanted[id]) continue;
        mil_value *v = s->map[id];
        if (v && !v->def) v = mil_build_unary(&s->b, MIL_OP_identity, v);
        if (v) mil_build_result(&s->b, v);
        out->wanted[out->wanted_count++] = id;
    }
}

/* By name: what a run gave has another one. */
static void settle_values_results(settle *s) {
    for (int i = 0; i < s->late->result_count; i++) {
        const char *name = s->late->results[i]->name;
        mil_value *v = mil_scope_find(s->b.function, name, strlen(name));
        if (!v && !s->b.err.status) (void)!mil_settle_empty_refuse(s->late, s->map, s->empty, &s->b.err);
        mil_build_result(&s->b, v);
    }
}

propane_status mil_settle_values(const mil_function *late, const mil_known *known, int known_count, mil_module *m,
                                 mil_settled *out, propane_error *err) {
    const size_t values = (size_t)late->value_count + 1;
    settle s = {.late = late,
                .map = mem_array(values, sizeof *s.map),
                .wanted = mem_array(values, sizeof *s.wanted),
                .empty = mem_array(values, sizeof *s.empty)};
    *out = (mil_settled){.wanted = ARENA_ARRAY(m->arena, values, int)};
    propane_status status =
        s.map && s.wanted && s.empty && out->wanted ? mil_function_load(late, err) : propane_fail_memory(err, values);
    if (!status) {
        mil_build_begin(&s.b, m, late->name, late->opset);
        settle_values_body(&s, known, known_count);
        settle_values_wanted_results(&s, out);
        if (!out->wanted_count) settle_values_results(&s);
        out->function = s.b.function;
        status = mil_build_end(&s.b, err);
    }
    mem_free(s.map);
    mem_free(s.wanted);
    mem_free(s.empty);
    return status;
}

/* A list of axes or sizes may have no entries; anything else needs settling. */
static bool settle_values_has_empty(const mil_function *f) {
    int param = 0;
    for (const mil_op *op = f->first; op; op = op->next) {
        for (int i = 0; i < op->result_count; i++) {
            const mil_type *type = &op->results[i]->type;
            if (type->shell == MIL_TENSOR && type->rank != 1 && mil_type_count(type) == 0) return true;
        }
        if (mil_op_empty_operand(op, &param)) return true;
    }
    return false;
}

propane_status mil_settle_constants(mil_function **f, propane_error *err) {
    mil_function *old = *f;
    mil_settled settled = {0};
    if (old->late || !settle_values_has_empty(old)) return PROPANE_OK;
    mil_module_drop(old->module, old);
    PROPANE_TRY(mil_settle_values(old, NULL, 0, old->module, &settled, err));
    settled.function->ranged = old->ranged;
    settled.function->line = old->line, settled.function->column = old->column;
    *f = settled.function;
    return PROPANE_OK;
}

propane_status mil_settle_refuse(const mil_function *f, propane_error *err) {
    if (!f->late) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: function '%.60s': shapes follow from values that only a run knows: open a session "
                        "(propane_session_open, propane run)",
                        f->module->source, f->name);
}

static propane_status settle_values_standards(const mil_function *f, mil_module *m, mil_known *known, int *count,
                                              propane_error *err) {
    const mil_interface *seen = mil_interface_of(f->module, f->name);
    for (int i = 0; seen && i < f->param_count; i++) {
        const mil_value *v = f->params[i];
        const mil_feature *feature = mil_feature_find(seen->inputs, seen->input_count, v->name);
        if (!feature || !feature->has_standard || mil_type_is_open(&v->type) || mil_type_count(&v->type) != 1) continue;
        void *data = arena_alloc(m->arena, (size_t)mil_type_bytes(&v->type) + 1);
        if (!data) return propane_fail_memory(err, 0);
        mil_pack_f64(data, v->type.dtype, &feature->standard, 1);
        known[(*count)++] = (mil_known){.id = v->id, .type = v->type, .data = data};
    }
    return PROPANE_OK;
}

propane_status mil_settle_standard(const mil_function *f, mil_module *m, const mil_function **out, propane_error *err) {
    mil_settled settled = {0};
    int count = 0;
    *out = f;
    if (!f->late) return PROPANE_OK;
    mil_known *known = ARENA_ARRAY(m->arena, f->param_count + 1, mil_known);
    if (!known) return propane_fail_memory(err, 0);
    PROPANE_TRY(settle_values_standards(f, m, known, &count, err));
    if (count) PROPANE_TRY(mil_settle_values(f, known, count, m, &settled, err));
    if (!count || settled.wanted_count) return mil_settle_refuse(f, err);
    *out = settled.function;
    return PROPANE_OK;
}
