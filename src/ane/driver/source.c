/* SPDX-License-Identifier: MIT
 * Owns the text and the weight file in which functions are passed to Apple's compiler. A program has one weight file,
 * with one record per larger constant, because macOS 27 refuses programs with several weight files (C37b). The text
 * contains no larger constants, so the same program with other weights has the same text, and its compiled net can be
 * loaded with the other weights. Refuses only control flow; the compiler decides about everything else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/driver/ane.h"
#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/function_copy.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "core/pass/pass.h"

static propane_status source_copy_function(const mil_function *f, const char *name, ane_source *s, propane_error *err) {
    for (const mil_op *op = f->first; op; op = op->next)
        if (op->block_count > 0)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "no Neural Engine is known to support control flow");
    mil_function *copy;
    return mil_function_copy(f, s->module, name, &copy, err);
}

/* ---- omitted arguments ------------------------------------------------------------------------------------------- */

/* Returns a parameter's default as a literal, or NULL if it has no default that can be written. */
static mil_value *source_make_default(mil_builder *b, const mil_op *op, const mil_param *param) {
    static const char *const spatial[] = {"strides", "dilations", "pad"}; /* 1, 1 and 0 in each direction */
    int64_t values[2 * MIL_MAX_RANK] = {0};
    if (op->info->code == MIL_OP_conv)
        for (int k = 0; k < 3; k++) {
            int directions = op->results[0]->type.rank - 2, count = k == 2 ? 2 * directions : directions;
            if (strcmp(param->name, spatial[k]) != 0) continue;
            for (int i = 0; i < count && k < 2; i++) values[i] = 1;
            return mil_build_ints(b, values, count);
        }
    if (!param->standard) return NULL;
    if (param->type_class == MIL_CLASS_K_BOOL) return mil_build_bool(b, strcmp(param->standard, "true") == 0);
    if (param->type_class == MIL_CLASS_K_INT) return mil_build_int(b, (int32_t)strtol(param->standard, NULL, 10));
    return param->type_class == MIL_CLASS_K_TEXT ? mil_build_text(b, param->standard) : NULL;
}

/* Adds the defaults of omitted arguments, as programs from Core ML's tools do. Compilers have been seen to refuse
 * programs that omit some arguments (C19, C20). */
static propane_status source_write_defaults(mil_function *f, propane_error *err) {
    mil_builder b = {0};
    mil_build_resume(&b, f);
    for (mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count && strncmp(op->info->name, "const", 5) != 0; i++) {
            if (op->operands[i].count || op->info->params[i].need != MIL_OPTIONAL) continue;
            b.before = op;
            mil_value *v = source_make_default(&b, op, &op->info->params[i]);
            if (b.err.status) return propane_fail(err, b.err.status, "%s", b.err.text);
            if (v && !mil_make_operand(op, i, &v, 1)) return propane_fail_memory(err, sizeof *v);
        }
    return PROPANE_OK;
}

/* ---- outputs that are read inside -------------------------------------------------------------------------------------------- */

static bool source_is_read(const mil_function *f, const mil_value *v) {
    for (const mil_op *op = f->first; op; op = op->next)
        MIL_FOR_OPERANDS (op, x)
            if (x == v) return true;
    return false;
}

/* Puts an identity before outputs that the program also reads. One client got NaN in such outputs without the identity,
 * and right numbers with it (C59). */
static propane_status source_part_outputs(mil_function *f, propane_error *err) {
    mil_builder b = {0};
    mil_build_resume(&b, f);
    for (int i = 0; i < f->result_count; i++)
        if (source_is_read(f, f->results[i])) f->results[i] = mil_build_unary(&b, MIL_OP_identity, f->results[i]);
    return b.err.status ? propane_fail(err, b.err.status, "%s", b.err.text) : PROPANE_OK;
}

/* ---- weights -------------------------------------------------------------------------------------------------------------- */

static bool source_goes_into_file(const mil_value *v) {
    return v->is_inline && v->constant && v->constant->data && mil_type_count(&v->type) > ANE_LITERAL_ELEMENTS &&
           mil_dtype_get(v->type.dtype)->blob_code;
}

/* Returns the path at which the route is known to have run with one weight file: in a folder, or next to the program.
 * The system may cache a compiled program by its text. So the number in the file's name must be increased with every
 * change of the file's layout, which prevents the use of a program compiled for another layout. */
static const char *source_weights_path(const ane_options *o) {
    return o->route == ANE_ROUTE_MEMORY ? "weights/weights2.bin" : "weights2.bin";
}

static propane_status source_add_weight(ane_source *s, mil_const *c, propane_error *err) {
    PROPANE_TRY(mil_blob_append(&s->weights, c->type.dtype, mil_type_count(&c->type), c->data, &c->blob_offset, err));
    c->blob_path = arena_printf(s->module->arena, "@model_path/%s", s->weights_path);
    return c->blob_path ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* Clears the constants' paths, which name the files that the program came with. The driver writes its own weight
 * file. */
static void source_forget_files(mil_function *f) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++) {
                const mil_value *v = op->operands[i].values[k];
                if (v->is_inline && v->constant) ((mil_const *)(uintptr_t)v->constant)->blob_path = NULL;
            }
}

static propane_status source_collect_weights(const mil_function *f, ane_source *s, propane_error *err) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->info->param_count; i++)
            for (int k = 0; k < op->operands[i].count; k++) {
                const mil_value *v = op->operands[i].values[k];
                if (!source_goes_into_file(v) || v->constant->blob_path) continue;
                PROPANE_TRY(source_add_weight(s, (mil_const *)(uintptr_t)v->constant, err));
            }
    return PROPANE_OK;
}

/* Makes the symbols of several functions unique, such as p000_i000_x, because all functions share one list of
 * symbols. */
static propane_status source_distinguish(mil_function *f, int index, propane_error *err) {
    for (int k = 0; k < f->param_count + f->result_count; k++) {
        mil_value *v = k < f->param_count ? f->params[k] : f->results[k - f->param_count];
        const char *name = arena_printf(f->module->arena, "p%03d_%s", index, v->name);
        if (!name) return propane_fail_memory(err, 0);
        PROPANE_TRY(mil_rename(f, v, name, err));
    }
    return PROPANE_OK;
}

/* Adds a copy of `from`, the function with number `index` of `count`, to the source. */
static propane_status source_add_function(const mil_function *from, int index, int count, const ane_options *o,
                                          ane_source *s, propane_error *err) {
    const char **params, **results;
    char name[20] = "main";
    mil_function *f = NULL;
    if (from->param_count > ANE_MAX_IO || from->result_count > ANE_MAX_IO)
        return propane_fail(err, PROPANE_ERR_LIMIT, "ane: function '%s' has more than %d inputs or outputs", from->name,
                            ANE_MAX_IO);
    if (count > 1) snprintf(name, sizeof name, "p%03d", index);
    PROPANE_TRY(source_copy_function(from, name, s, err));
    f = mil_module_function(s->module, name, err);
    if (!f) return PROPANE_ERR_NOT_FOUND;
    source_forget_files(f);
    if (o->part_outputs) PROPANE_TRY(source_part_outputs(f, err));
    if (!o->own_names) PROPANE_TRY(pass_name_io(f, &params, &results, err));
    if (count > 1) PROPANE_TRY(source_distinguish(f, index, err));
    if (!o->leave_defaults) PROPANE_TRY(source_write_defaults(f, err));
    return source_collect_weights(f, s, err);
}

propane_status ane_source_create(const mil_function *const *f, int count, const ane_options *o, ane_source *out,
                                 propane_error *err) {
    *out = (ane_source){.module = mil_module_create(f[0]->module->source), .weights_path = source_weights_path(o)};
    propane_status status = out->module ? PROPANE_OK : propane_fail_memory(err, 0);
    for (int i = 0; i < count && status == PROPANE_OK; i++) status = source_add_function(f[i], i, count, o, out, err);
    if (status == PROPANE_OK) {
        mil_print(&out->program, out->module,
                  &(mil_print_options){.dialect = (mil_dialect)o->dialect, .name_literals = !o->inline_literals});
        if (out->program.failed) status = propane_fail_memory(err, out->program.length);
    }
    if (status != PROPANE_OK) ane_source_deinit(out);
    return status;
}

void ane_source_deinit(ane_source *s) {
    text_deinit(&s->weights);
    text_deinit(&s->program);
    mil_module_free(s->module);
    *s = (ane_source){0};
}
