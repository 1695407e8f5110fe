/* SPDX-License-Identifier: MIT
 * Owns the preparation of a session's function for a device: drops labels, turns states into inputs and outputs,
 * changes the precision, and optionally makes every value an output.
 */
#include "core/run/session_program.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ir_edit.h"
#include "core/pass/pass.h"
#include "core/refusal/refusal.h"

/* Gives a classifier's probabilities the name of the dictionary that an app gets. The dictionary, which no device
 * computes, gets another name. */
static propane_status session_program_name_classes(mil_function *f, mil_value *v, mil_value *dictionary,
                                                   propane_error *err) {
    const char *name = dictionary->name;
    const char *aside = mil_scope_unique(f, "dictionary");
    if (!aside) return propane_fail_memory(err, 0);
    PROPANE_TRY(mil_rename(f, dictionary, aside, err));
    return mil_rename(f, v, name, err);
}

/* Makes a classifier's probabilities an output, unless they already are one. Notes the classes and the label's name in
 * the session. */
static propane_status session_program_note_classes(session *s, propane_error *err) {
    mil_function *f = s->function;
    mil_builder b;
    const mil_op *op = f->first;
    while (op && op->info->code != MIL_OP_classify) op = op->next;
    if (!op) return PROPANE_OK;
    mil_value *v = mil_in(op, "probabilities");
    const mil_interface *seen = mil_interface_of(s->module, f->name);
    s->classes = mil_in(op, "classes")->constant;
    const mil_feature *label = seen ? mil_feature_find(seen, PROPANE_OUTPUT, seen->predicted) : NULL;
    s->label = label && label->called ? label->called : seen && seen->predicted[0] ? seen->predicted : "label";
    const bool is_result = mil_is_result(f, v);
    if (v->def && !is_result) PROPANE_TRY(session_program_name_classes(f, v, op->results[1], err));
    mem_free(s->probabilities);
    s->probabilities = mem_copy_string(v->name);
    if (!s->probabilities) return propane_fail_memory(err, 0);
    if (is_result) return PROPANE_OK;
    mil_build_resume(&b, f);
    mil_build_result(&b, v);
    if (b.err.status && err) *err = b.err;
    return b.err.status;
}

/* Drops labels and dictionaries, because a device returns tensors. */
static propane_status session_program_drop_labels(session *s, propane_error *err) {
    mil_function *f = s->function;
    int kept = 0;
    PROPANE_TRY(session_program_note_classes(s, err));
    for (int i = 0; i < f->result_count; i++) {
        mil_value *v = f->results[i];
        const bool label = v->type.container == MIL_DICT || v->type.dtype == MIL_string ||
                           (v->def && v->def->info->code == MIL_OP_classify);
        s->removed_results += label;
        if (!label) f->results[kept++] = v;
    }
    f->result_count = kept;
    if (kept) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: no output is a tensor", s->module->source);
}

/* Chooses the values that may be kept: the named ones, or all if none is named. Results are not chosen. */
static void session_program_choose(const session *s, bool *keep) {
    const mil_function *f = s->function;
    for (int i = 0; i < f->value_count; i++) keep[i] = s->keep_count == 0;
    for (int i = 0; i < s->keep_count; i++) {
        const mil_value *v = mil_scope_find(f, s->keep_names[i], strlen(s->keep_names[i]));
        if (v) keep[v->id] = true;
    }
    for (int i = 0; i < f->result_count; i++) keep[f->results[i]->id] = false;
}

/* Makes the requested computed values, except constants, results after the existing ones. */
static propane_status session_program_keep_values(session *s, propane_error *err) {
    mil_function *f = s->function;
    mil_builder b;
    mem_free(s->keeps);
    bool *keep = s->keeps = mem_array((size_t)f->value_count + 1, sizeof *keep);
    if (!keep) return propane_fail_memory(err, (size_t)f->value_count);
    session_program_choose(s, keep);
    mil_build_resume(&b, f);
    for (mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++) {
            mil_value *v = op->results[i];
            const mil_dtype_info *type = mil_dtype_get(v->type.dtype);
            const bool plain = v->type.container == MIL_TENSOR && (type->bits == 16 || type->bits == 32) &&
                               type->kind != MIL_KIND_UINT && v->type.dtype != MIL_bf16;
            if (!v->constant && keep[v->id] && plain && mil_type_count(&v->type) > 0) mil_build_result(&b, v);
        }
    if (err && b.err.status) *err = b.err;
    return b.err.status;
}

propane_status session_prepare(session *s, mil_function *f, bool whole, propane_error *err) {
    s->function = f;
    if (whole) PROPANE_TRY(session_program_drop_labels(s, err));
    if (s->state_count) PROPANE_TRY(pass_states(f, err));
    if (s->wide) PROPANE_TRY(pass_retype_fp32(f, err));
    s->own_results = f->result_count;
    return whole && s->keep ? session_program_keep_values(s, err) : PROPANE_OK;
}

propane_status session_compile(const session *s, mil_module *m, propane_program **out, propane_error *err) {
    const propane_compile_options options = {
        .size = sizeof options, .function = s->function->name, .precision = s->precision, .threads = s->threads};
    const propane_status status = propane_program_compile(s->device, m, &options, out, err);
    return status ? refusal_explain(s->device, s->function, &options, s->bisect, err) : status;
}
