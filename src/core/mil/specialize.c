/* SPDX-License-Identifier: MIT
 * Owns the conversion of a late function into one with fixed shapes. One idea: copy operation by operation. An
 * operation that waits for an unknown value is left out, together with everything that reads its results, and the value
 * is marked as wanted.
 */
#include "core/mil/specialize.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/fold_empty.h"
#include "core/mil/function_copy.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

typedef struct settle {
    const mil_function *late;
    mil_builder b;
    mil_value **map; /* by id in `late`: the value in b's function, or NULL if it waits */
    bool *wanted;    /* by id in `late`: a run must compute the value */
    mil_type *empty; /* by id in `late`: types of values without elements */
} settle;

static const mil_known *specialize_given(const mil_known *known, int count, int id) {
    for (int i = 0; i < count; i++)
        if (known[i].id == id) return &known[i];
    return NULL;
}

/* Sets *ready to whether all arguments are known. Returns false if an operand itself waits; nothing can then be decided
 * yet. */
static bool specialize_operands(settle *s, const mil_op *op, bool *ready) {
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

static void specialize_want(settle *s, const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (!v->is_inline && mil_operand_unknown(op, p, s->map[v->id])) s->wanted[v->id] = true;
        }
}

static void specialize_constant(settle *s, const mil_value *v, const mil_known *k) {
    s->map[v->id] = mil_build_const(&s->b, v->name, &k->type, k->data);
}

/* Removes empty parts from a split. If only one part remains, it is x itself. */
static void specialize_split(settle *s, const mil_op *op, mil_op *made) {
    mil_value *x = mil_in(made, "x"), *axis = mil_in(made, "axis");
    const mil_type type = made->results[0]->type;
    int64_t at = 0, sizes[MIL_MAX_RESULTS];
    int kept = 0, last = 0;
    if (mil_attr_int(made, "axis", &at, NULL)) return;
    if (at < 0) at += type.rank;
    for (int k = 0; k < made->result_count; k++)
        if ((sizes[kept] = made->results[k]->type.dim[at])) kept++, last = k;
    if (kept == made->result_count) return;
    for (int k = 0; k < op->result_count; k++) {
        s->empty[op->results[k]->id] = made->results[k]->type;
        s->map[op->results[k]->id] = NULL;
    }
    mil_make_remove(made);
    mil_value *list = mil_build_ints(&s->b, sizes, kept);
    const mil_argument arguments[] = {{"x", 1, &x}, {"split_sizes", 1, &list}, {"axis", 1, &axis}};
    const mil_op *parts = mil_build_op(&s->b, kept > 1 ? MIL_OP_split : MIL_OP_identity,
                                       kept > 1 ? NULL : op->results[last]->name, arguments, kept > 1 ? 3 : 1);
    for (int k = 0, from = 0; parts && k < op->result_count; k++) {
        const mil_value *old = op->results[k];
        if (mil_type_count(&s->empty[old->id]) == 0) continue;
        s->empty[old->id] = (mil_type){0};
        s->map[old->id] = parts->results[from++];
        if (kept > 1) (void)!mil_rename(s->b.function, s->map[old->id], old->name, &s->b.err);
    }
}

/* Copies an operation, and leaves it out if its result has no elements. */
static void specialize_copy(settle *s, const mil_op *op) {
    mil_op *made = mil_build_copy(&s->b, op, s->map);
    if (made && made->info->code == MIL_OP_split) specialize_split(s, op, made);
    if (!made || made->result_count != 1 || made->info->code == MIL_OP_const || made->info->code == MIL_OP_split)
        return;
    const mil_type *type = &made->results[0]->type;
    if (type->container != MIL_TENSOR || mil_type_count(type)) return;
    s->empty[op->results[0]->id] = *type;
    s->map[op->results[0]->id] = NULL;
    mil_make_remove(made);
}

static void specialize_body(settle *s, const mil_known *known, int count) {
    for (int i = 0; i < s->late->param_count; i++) {
        const mil_value *v = s->late->params[i];
        const mil_known *k = specialize_given(known, count, v->id);
        s->map[v->id] = mil_build_param(&s->b, v->name, v->type);
        if (k) specialize_constant(s, v, k);
    }
    for (const mil_op *op = s->late->first; op && !s->b.err.status; op = op->next) {
        bool ready = false;
        if (mil_fold_empty(&s->b, op, s->map, s->empty)) continue;
        if (specialize_operands(s, op, &ready)) {
            if (ready)
                specialize_copy(s, op);
            else
                specialize_want(s, op);
        }
        for (int i = 0; i < op->result_count; i++) {
            const mil_known *k = specialize_given(known, count, op->results[i]->id);
            if (k) specialize_constant(s, op->results[i], k);
        }
    }
}

/* Makes the wanted values results. A parameter is copied by an identity, because results need separate names. */
static void specialize_wanted_results(settle *s, mil_specialized *out) {
    for (int id = 0; id < s->late->value_count; id++) {
        if (!s->wanted[id]) continue;
        mil_value *v = s->map[id];
        if (v && !v->def) v = mil_build_unary(&s->b, MIL_OP_identity, v);
        if (v) mil_build_result(&s->b, v);
        out->wanted[out->wanted_count++] = id;
    }
}

/* Finds the results by name, because a value given by a run has replaced the original. */
static void specialize_results(settle *s) {
    for (int i = 0; i < s->late->result_count; i++) {
        const char *name = s->late->results[i]->name;
        mil_value *v = mil_scope_find(s->b.function, name, strlen(name));
        if (!v && !s->b.err.status) (void)!mil_fold_empty_refuse(s->late, s->map, s->empty, &s->b.err);
        mil_build_result(&s->b, v);
    }
}

propane_status mil_specialize(const mil_function *late, const mil_known *known, int known_count, mil_module *m,
                              mil_specialized *out, propane_error *err) {
    const size_t values = (size_t)late->value_count + 1;
    settle s = {.late = late,
                .map = mem_array(values, sizeof *s.map),
                .wanted = mem_array(values, sizeof *s.wanted),
                .empty = mem_array(values, sizeof *s.empty)};
    *out = (mil_specialized){.wanted = ARENA_ARRAY(m->arena, values, int)};
    propane_status status =
        s.map && s.wanted && s.empty && out->wanted ? mil_function_load(late, err) : propane_fail_memory(err, values);
    if (!status) {
        mil_build_begin(&s.b, m, late->name, late->opset);
        specialize_body(&s, known, known_count);
        specialize_wanted_results(&s, out);
        if (!out->wanted_count) specialize_results(&s);
        out->function = s.b.function;
        status = mil_build_end(&s.b, err);
    }
    mem_free(s.map);
    mem_free(s.wanted);
    mem_free(s.empty);
    return status;
}

/* Returns whether `f` has a tensor without elements other than a constant list of axes or sizes. */
static bool specialize_has_empty(const mil_function *f) {
    int param = 0;
    for (const mil_op *op = f->first; op; op = op->next) {
        for (int i = 0; i < op->result_count; i++) {
            const mil_type *type = &op->results[i]->type;
            const bool list = op->info->code == MIL_OP_const && type->rank == 1;
            if (type->container == MIL_TENSOR && !list && mil_type_count(type) == 0) return true;
        }
        if (mil_op_empty_operand(op, &param)) return true;
    }
    return false;
}

propane_status mil_settle_constants(mil_function **f, propane_error *err) {
    mil_function *old = *f;
    mil_specialized settled = {0};
    if (old->late || !specialize_has_empty(old)) return PROPANE_OK;
    mil_module_drop(old->module, old);
    PROPANE_TRY(mil_specialize(old, NULL, 0, old->module, &settled, err));
    settled.function->ranged = old->ranged;
    settled.function->line = old->line, settled.function->column = old->column;
    *f = settled.function;
    return PROPANE_OK;
}

propane_status mil_settle_refuse(const mil_function *f, propane_error *err) {
    if (!f->late) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: function '%.60s': shapes depend on values known only at run time: open a session "
                        "(propane_session_open, propane run)",
                        f->module->source, f->name);
}

static propane_status specialize_standards(const mil_function *f, mil_module *m, mil_known *known, int *count,
                                           propane_error *err) {
    const mil_interface *seen = mil_interface_of(f->module, f->name);
    for (int i = 0; seen && i < f->param_count; i++) {
        const mil_value *v = f->params[i];
        if (v->type.container == MIL_STATE) continue;
        const mil_feature *feature = mil_feature_find(seen, PROPANE_INPUT, v->name);
        if (!feature || !feature->has_standard || mil_type_is_open(&v->type) || mil_type_count(&v->type) != 1) continue;
        void *data = arena_alloc(m->arena, (size_t)mil_type_bytes(&v->type) + 1);
        if (!data) return propane_fail_memory(err, 0);
        mil_pack_f64(data, v->type.dtype, &feature->standard, 1);
        known[(*count)++] = (mil_known){.id = v->id, .type = v->type, .data = data};
    }
    return PROPANE_OK;
}

propane_status mil_settle_standard(const mil_function *f, mil_module *m, const mil_function **out, propane_error *err) {
    mil_specialized settled = {0};
    int count = 0;
    *out = f;
    if (!f->late) return PROPANE_OK;
    mil_known *known = ARENA_ARRAY(m->arena, f->param_count + 1, mil_known);
    if (!known) return propane_fail_memory(err, 0);
    PROPANE_TRY(specialize_standards(f, m, known, &count, err));
    if (count) PROPANE_TRY(mil_specialize(f, known, count, m, &settled, err));
    if (!count || settled.wanted_count) return mil_settle_refuse(f, err);
    *out = settled.function;
    return PROPANE_OK;
}
