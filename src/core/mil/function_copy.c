/* SPDX-License-Identifier: MIT
 * Owns copies of functions for drivers. Loading fills in the data of constants and changes nothing else, so a function
 * that the caller only reads may be loaded.
 */
#include "core/mil/function_copy.h"

#include <pthread.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/coreml/blob.h"

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static propane_status function_copy_load(const mil_function *f, propane_error *err) {
    for (mil_op *op = f->first; op; op = op->next) {
        for (int b = 0; b < op->block_count; b++) PROPANE_TRY(function_copy_load(op->blocks[b], err));
        for (int r = 0; r < op->result_count; r++) {
            const mil_const *c = op->results[r]->constant;
            if (c && !c->data) PROPANE_TRY(mil_blob_load(f->module, (mil_const *)c, err));
        }
    }
    return PROPANE_OK;
}

propane_status mil_function_load(const mil_function *f, propane_error *err) {
    pthread_mutex_lock(&loading);
    propane_status status = function_copy_load(f, err);
    pthread_mutex_unlock(&loading);
    return status;
}

propane_status mil_function_copy(const mil_function *f, mil_module *module, const char *name, mil_function **out,
                                 propane_error *err) {
    *out = NULL;
    PROPANE_TRY(mil_function_load(f, err));
    mil_value **map = mem_array((size_t)f->value_count + 1, sizeof *map);
    if (!map) return propane_fail_memory(err, ((size_t)f->value_count + 1) * sizeof *map);
    mil_builder b = {0};
    mil_build_begin(&b, module, name, f->opset);
    if (b.function) b.function->late = f->late;
    for (int i = 0; i < f->param_count; i++)
        map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, f->params[i]->type);
    for (const mil_op *op = f->first; op && !b.err.status; op = op->next) mil_build_copy(&b, op, map);
    for (int i = 0; i < f->result_count && !b.err.status; i++) {
        const mil_value *v = f->results[i];
        mil_value *own = map[v->id];
        if (!own && v->constant) own = mil_build_const(&b, v->name, &v->type, v->constant->data); /* a literal */
        mil_build_result(&b, own);
    }
    mem_free(map);
    *out = b.function;
    return mil_build_end(&b, err);
}
