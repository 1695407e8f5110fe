/* SPDX-License-Identifier: MIT
 * Owns cutting a function after one of its operations. The operation's results become the outputs; later operations,
 * and any that are then unused, are removed. So a package that a device refuses can be halved until the refused
 * operation is found.
 */
#include <string.h>

#include "core/mil/build.h"
#include "core/mil/coreml/package.h"
#include "core/mil/specialize.h"
#include "core/pass/pass.h"
#include "core/run/public.h"

static const mil_op *api_until_find(const mil_function *f, const char *name) {
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++)
            if (strcmp(op->results[i]->name, name) == 0) return op;
    return NULL;
}

/* Updates the description of what an app sees: the inputs stay, and new outputs are described as arrays. */
static propane_status api_until_describe(propane_module *m, const mil_function *f, propane_error *err) {
    mil_interface *seen = (mil_interface *)(uintptr_t)mil_interface_of(m, f->name);
    if (!seen) return PROPANE_OK;
    mil_feature *outputs = ARENA_ARRAY(m->arena, f->result_count + 1, mil_feature);
    if (!outputs) return propane_fail_memory(err, (size_t)f->result_count * sizeof *outputs);
    for (int i = 0; i < f->result_count; i++) {
        const mil_value *v = f->results[i];
        const mil_feature *old = mil_feature_find(seen, PROPANE_OUTPUT, v->name);
        outputs[i] = old ? *old
                         : (mil_feature){.name = v->name,
                                         .text = "",
                                         .kind = MIL_FEATURE_ARRAY,
                                         .dtype = v->type.dtype,
                                         .shape = mil_type_bare(&v->type)};
    }
    seen->outputs = outputs;
    seen->output_count = f->result_count;
    seen->predicted = seen->probabilities = "";
    return mil_interface_index(seen) ? PROPANE_OK : propane_fail_memory(err, 0);
}

/* Checks that a package's outputs can have the types of the operation's results. Called before anything changes. */
static propane_status api_until_check(const mil_op *op, propane_error *err) {
    for (int i = 0; i < op->result_count; i++) {
        const mil_type *type = &op->results[i]->type;
        const bool fits = type->container == MIL_TENSOR &&
                          (type->dtype == MIL_fp16 || type->dtype == MIL_fp32 || type->dtype == MIL_int32);
        if (op->results[i]->constant || !fits)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "'%.60s' (%s) cannot be an output, because it is %s; name an operation that computes "
                                "fp16, fp32 or int32, such as one that reads it",
                                op->results[i]->name, op->info->name,
                                op->results[i]->constant        ? "a constant"
                                : type->container == MIL_TENSOR ? mil_dtype_get(type->dtype)->name
                                                                : "no tensor");
    }
    return PROPANE_OK;
}

propane_status propane_module_until(propane_module *module, const char *function, const char *value,
                                    propane_error *err) {
    NEED(err, module, value);
    API_ERROR(err);
    mil_function *f = mil_module_function(module, function, err);
    if (!f) return err->status;
    PROPANE_TRY(mil_settle_refuse(f, err));
    const mil_op *op = api_until_find(f, value);
    if (!op)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: function '%.60s' has no operation outside blocks that produces '%.60s'; 'propane "
                            "show' prints the names",
                            module->source, f->name, value);
    PROPANE_TRY(api_until_check(op, err));
    mil_value **results = ARENA_ARRAY(module->arena, op->result_count + 1, mil_value *);
    if (!results) return propane_fail_memory(err, 0);
    for (int i = 0; i < op->result_count; i++) results[i] = op->results[i];
    f->results = results;
    f->result_count = op->result_count;
    while (f->last != op) mil_op_remove(f->last);
    PROPANE_TRY(pass_run(f, &(pass_options){.drop_unused = true}, err));
    return api_until_describe(module, f, err);
}
