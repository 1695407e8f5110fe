/* SPDX-License-Identifier: MIT
 * Owns the text and the weight files that a function is handed to Apple's compiler as. Refuses nothing that the language
 * takes: what the compiler refuses is for it to say.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "drivers/ane/ane.h"
#include "mil/blob.h"
#include "mil/build.h"
#include "pass/pass.h"

enum { LITERAL_ELEMENTS = 16 }; /* longer constants go into files */

static propane_status copy_function(const mil_function *f, ane_source *s, propane_error *err) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int r = 0; r < op->result_count; r++) {
            const mil_const *c = op->results[r]->konst;
            if (c && !c->data) PROPANE_TRY(mil_blob_load(f->module, (mil_const *)(uintptr_t)c, err));
        }
    s->module = mil_module_create(f->module->source);
    mil_value **map = mem_array((size_t)f->value_count + 1, sizeof *map);
    propane_status status = s->module && map ? PROPANE_OK : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) {
        mil_builder b = {0};
        mil_build_begin(&b, s->module, "main", f->opset);
        for (int i = 0; i < f->param_count; i++)
            map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, f->params[i]->type);
        for (const mil_op *op = f->first; op && !b.err.status; op = op->next) mil_build_copy(&b, op, map);
        for (int i = 0; i < f->result_count && !b.err.status; i++) mil_build_result(&b, map[f->results[i]->id]);
        status = mil_build_end(&b, err);
    }
    mem_free(map);
    return status;
}

static bool goes_into_file(const mil_value *v) {
    return v->is_inline && v->konst && v->konst->data && mil_type_count(&v->type) > LITERAL_ELEMENTS &&
           mil_dtype_get(v->type.dtype)->blob_code;
}

static propane_status add_weight(ane_source *s, mil_const *c, propane_error *err) {
    ane_weight *larger = mem_resize(s->weights, (size_t)(s->weight_count + 1) * sizeof *larger);
    if (!larger) return propane_fail_memory(err, sizeof *larger);
    s->weights = larger;
    ane_weight *w = &larger[s->weight_count++];
    memset(w, 0, sizeof *w);
    snprintf(w->path, sizeof w->path, "weights/w%03d.bin", s->weight_count - 1);
    PROPANE_TRY(mil_blob_image(&w->bytes, c->type.dtype, mil_type_count(&c->type), c->data, err));
    c->blob_path = arena_printf(s->module->arena, "@model_path/%s", w->path);
    c->blob_offset = MIL_BLOB_FIRST;
    return c->blob_path ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* Constants come from elsewhere with the paths of their own files: here every file is ours. */
static void forget_files(mil_function *f) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++) {
                const mil_value *v = op->operands[i].values[k];
                if (v->is_inline && v->konst) ((mil_const *)(uintptr_t)v->konst)->blob_path = NULL;
            }
}

static propane_status collect_weights(ane_source *s, propane_error *err) {
    const mil_function *f = s->module->functions;
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++) {
                const mil_value *v = op->operands[i].values[k];
                if (!goes_into_file(v) || v->konst->blob_path) continue;
                PROPANE_TRY(add_weight(s, (mil_const *)(uintptr_t)v->konst, err));
            }
    return PROPANE_OK;
}

propane_status ane_source_create(const mil_function *f, mil_dialect dialect, ane_source *out, propane_error *err) {
    const char **params, **results;
    *out = (ane_source){0};
    if (f->param_count > ANE_MAX_IO || f->result_count > ANE_MAX_IO)
        return propane_fail(err, PROPANE_ERR_LIMIT, "ane: function '%s' has more than %d inputs or outputs", f->name,
                            ANE_MAX_IO);
    propane_status status = copy_function(f, out, err);
    if (status == PROPANE_OK) {
        forget_files(out->module->functions);
        status = pass_name_io(out->module->functions, &params, &results, err);
    }
    if (status == PROPANE_OK) status = collect_weights(out, err);
    if (status == PROPANE_OK) {
        mil_print(&out->program, out->module, &(mil_print_options){.dialect = dialect, .name_literals = true});
        if (out->program.failed) status = propane_fail_memory(err, out->program.length);
    }
    if (status != PROPANE_OK) ane_source_deinit(out);
    return status;
}

void ane_source_deinit(ane_source *s) {
    for (int i = 0; i < s->weight_count; i++) text_deinit(&s->weights[i].bytes);
    mem_free(s->weights);
    text_deinit(&s->program);
    mil_module_free(s->module);
    *s = (ane_source){0};
}
