/* SPDX-License-Identifier: MIT
 * Owns the public calls on modules: read, print, write, gradient, precision. This file is a thin layer: the language is
 * in src/core/mil and gradients are in src/core/grad.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/grad/grad.h"
#include "core/mil/coreml/package.h"
#include "core/mil/function_copy.h"
#include "core/mil/ir_edit.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"
#include "core/run/public.h"

propane_status propane_module_parse(const char *program, size_t length, const char *name, const char *model_dir,
                                    propane_module **out, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "text, out", program, out);
    return mil_parse_shaped(program, length, name ? name : "text", model_dir, &(mil_read_options){.late = true}, out,
                            err);
}

propane_status propane_module_read(const char *path, propane_module **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    return propane_module_read_shaped(path, NULL, 0, out, err);
}

propane_status api_shape_choices(const propane_shape *shapes, int count, mil_shape_choice *out, propane_error *err) {
    for (int i = 0; i < count; i++) {
        if (!shapes[i].name || shapes[i].rank < 0 || shapes[i].rank > PROPANE_MAX_RANK)
            return propane_fail(err, PROPANE_ERR_INVALID, "shapes: number %d has %s", i,
                                shapes[i].name ? "no legal rank" : "no name");
        out[i] = (mil_shape_choice){shapes[i].name, mil_type_tensor(MIL_DTYPE_NONE, shapes[i].rank, shapes[i].dim)};
    }
    return PROPANE_OK;
}

propane_status propane_module_read_shaped(const char *path, const propane_shape *shapes, int count,
                                          propane_module **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, path, out);
    NEED_TEXT(err, path);
    NEED_LIST(err, shapes, count);
    mil_shape_choice *choices = mem_array((size_t)count + 1, sizeof *choices);
    if (!choices) return propane_fail_memory(err, (size_t)count * sizeof *choices);
    propane_status status = api_shape_choices(shapes, count, choices, err);
    const mil_read_options options = {choices, count, .late = true};
    if (!status) status = mil_read(path, &options, out, err);
    mem_free(choices);
    return status;
}

propane_status propane_shape_parse(const char *given, propane_shape *out, propane_error *err) {
    NEED(err, given, out);
    NEED_TEXT(err, given);
    const char *equals = strchr(given, '=');
    *out = (propane_shape){0};
    for (const char *at = equals && equals != given ? equals + 1 : ""; *at; at++) {
        char *end = NULL;
        /* The limit for the number of a tensor's elements. strtoll's result for an overflowing number also exceeds
         * it. */
        enum { MOST_BITS = 40 };
        const long long dim = strtoll(at, &end, 10);
        if (end == at || dim < 1 || dim > INT64_C(1) << MOST_BITS || (*end && *end != ',') || (*end && !end[1]) ||
            out->rank == PROPANE_MAX_RANK) {
            out->rank = 0;
            break;
        }
        out->dim[out->rank++] = dim;
        if (!*end) break;
        at = end;
    }
    if (!out->rank) return propane_fail(err, PROPANE_ERR_INVALID, "'%.80s' must be NAME=1,3,224,224", given);
    char *name = mem_alloc((size_t)(equals - given) + 1);
    if (!name) return propane_fail_memory(err, (size_t)(equals - given));
    memcpy(name, given, (size_t)(equals - given));
    out->name = name;
    return PROPANE_OK;
}

void propane_module_free(propane_module *module) { mil_module_free(module); }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static mil_dialect api_module_dialect(propane_dialect dialect) {
    return dialect == PROPANE_MIL_CANONICAL ? MIL_CANONICAL : MIL_SHORT;
}

propane_status propane_module_print(const propane_module *module, propane_dialect dialect, char **out, size_t *length,
                                    propane_error *err) {
    if (out) *out = NULL;
    NEED(err, module, out);
    NEED_WORD(err, dialect, PROPANE_MIL_CANONICAL);
    text program = {0};
    mil_print(&program, module, &(mil_print_options){.dialect = api_module_dialect(dialect)});
    return api_give_text(&program, out, length, err);
}

/* Returns the folder of a file's path, which the caller frees with mem_free. */
static char *api_module_folder_of(const char *path) {
    char *dir = mem_alloc(strlen(path) + 2);
    if (!dir) return NULL;
    memcpy(dir, path, strlen(path));
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    if (!slash) memcpy(dir, ".", 2);
    return dir;
}

/* Returns the name of a program's weight file without .bin: "weight" for model.mil, as in a package, else the name of
 * the program's file without .mil, so that programs in one folder do not overwrite each other's weights. The caller
 * frees it with mem_free. */
static char *api_module_weights_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strcmp(name, "model.mil") == 0) return mem_copy_string("weight");
    char *own = mem_copy_string(name);
    if (own) own[strlen(name) - strlen(".mil")] = 0;
    return own;
}

/* Writes the module as text. If its weights are in a package or in another folder, writes them next to the text. */
static propane_status api_module_write_text(mil_module *m, const char *path, mil_dialect dialect, propane_error *err) {
    text program = {0};
    char *dir = api_module_folder_of(path), *name = api_module_weights_name(path);
    propane_status status = dir && name ? PROPANE_OK : propane_fail_memory(err, strlen(path));
    const bool elsewhere = !status && m->blobs && m->model_dir && !file_same(m->model_dir, dir);
    if (!status && ((m->package && !m->model_dir) || elsewhere)) status = mil_write_weights(m, dir, name, err);
    mem_free(dir);
    mem_free(name);
    if (!status) mil_print(&program, m, &(mil_print_options){.dialect = dialect});
    if (!status && program.failed) status = propane_fail_memory(err, program.capacity);
    if (!status) status = file_write(path, program.data, program.length, err);
    text_deinit(&program);
    return status;
}

propane_status propane_module_write(propane_module *module, const char *path, propane_dialect dialect,
                                    propane_error *err) {
    NEED(err, module, path);
    NEED_TEXT(err, path);
    NEED_WORD(err, dialect, PROPANE_MIL_CANONICAL);
    const mil_dialect as = api_module_dialect(dialect);
    if (text_ends_with(path, ".mlpackage") || text_ends_with(path, ".mlpackage/"))
        return mil_package_write(module, path, err);
    if (text_ends_with(path, ".mil")) return api_module_write_text(module, path, as, err);
    return mil_write_dir(module, path, as, err);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

const propane_value *propane_module_next_value(const propane_module *module, const char *function,
                                               const propane_value *after) {
    if (!module || (after && after->home->module != module)) return NULL;
    const mil_function *f = after ? NULL : api_function(module, function);
    const mil_op *op = after ? after->def : f ? f->first : NULL;
    int next = after ? after->index + 1 : 0;
    while (op && next >= op->result_count) op = op->next, next = 0;
    return op ? op->results[next] : NULL;
}

const char *propane_value_name(const propane_value *value) { return value ? value->name : NULL; }
const char *propane_value_op(const propane_value *value) { return value && value->def ? value->def->info->name : NULL; }

int64_t propane_value_count(const propane_value *value) {
    if (!value) return 0;
    return value->type.container == MIL_TENSOR && !mil_type_is_open(&value->type) ? mil_type_count(&value->type) : 0;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

propane_status propane_module_copy(const propane_module *module, propane_module **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, module, out);
    API_ERROR(err);
    mil_module *m = mil_module_create(module->source);
    mil_function *copy = NULL;
    propane_status status = m ? PROPANE_OK : propane_fail_memory(err, sizeof *m);
    if (m) m->coreml = module->coreml;
    for (const mil_function *f = module->functions; f && !status; f = f->next)
        status = mil_function_copy(f, m, f->name, &copy, err);
    if (!status && module->default_function) {
        m->default_function = arena_string(m->arena, module->default_function);
        if (!m->default_function) status = propane_fail_memory(err, 0);
    }
    if (status)
        mil_module_free(m);
    else
        *out = m;
    return status;
}

/* ---- rewriting --------------------------------------------------------------------------------------------------- */

/* Expands recurrent layers into steps, which have gradients. */
static propane_status api_module_write_out(mil_function *f, const char *const *wrt, int wrt_count, propane_error *err) {
    if (wrt) return pass_unroll(f, wrt, wrt_count, err);
    const char **names = mem_array((size_t)f->param_count + 1, sizeof *names);
    if (!names) return propane_fail_memory(err, (size_t)f->param_count * sizeof *names);
    for (int i = 0; i < f->param_count; i++) names[i] = f->params[i]->name;
    const propane_status status = pass_unroll(f, names, f->param_count, err);
    mem_free(names);
    return status;
}

propane_status propane_module_gradient(propane_module *module, const char *function, const char *name,
                                       const char *const *wrt, int wrt_count, propane_module **out,
                                       propane_error *err) {
    if (out) *out = NULL;
    NEED(err, module, out);
    NEED_LIST(err, wrt, wrt_count);
    API_ERROR(err);
    for (int i = 0; wrt && i < wrt_count; i++)
        if (!wrt[i]) return propane_fail(err, PROPANE_ERR_INVALID, "propane_module_gradient: wrt[%d] is NULL", i);
    mil_function *f = mil_module_function(module, function, err), *copy = NULL, *joint = NULL;
    if (!f) return err->status;
    mil_module *m = mil_module_create(module->source);
    if (!m) return propane_fail_memory(err, sizeof *m);
    m->coreml = module->coreml;
    propane_status status =
        f->late ? pass_gather_slices(f, m, &copy, err) : mil_function_copy(f, m, f->name, &copy, err);
    if (!status) status = api_module_write_out(copy, wrt, wrt_count, err);
    if (!status) status = grad_function(copy, name ? name : "gradient", wrt, wrt_count, &joint, err);
    if (!status) status = pass_run(joint, &pass_all, err);
    if (!status) mil_module_drop(m, copy);
    if (!status) status = mil_verify(m, err);
    if (status)
        mil_module_free(m);
    else
        *out = m;
    return status;
}

propane_status propane_module_widen(propane_module *module, const char *function, propane_error *err) {
    NEED(err, module);
    API_ERROR(err);
    mil_function *f = mil_module_function(module, function, err);
    return f ? pass_retype_fp32(f, err) : err->status;
}

propane_status propane_module_open_states(propane_module *module, const char *function, propane_error *err) {
    NEED(err, module);
    API_ERROR(err);
    mil_function *f = mil_module_function(module, function, err);
    return f ? pass_states(f, err) : err->status;
}
