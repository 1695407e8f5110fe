/* SPDX-License-Identifier: MIT
 * A driver called "cpu" that runs programs with the slow reference of each operation in double (mil_eval_function),
 * rounding every result to its type. A test that includes this has it instead of all real drivers, so an error that it
 * finds is in the plan or the step and not in a kernel.
 */
#ifndef TESTS_TRAIN_EVAL_DRIVER_H
#define TESTS_TRAIN_EVAL_DRIVER_H

#include <string.h>

#include "core/base/memory.h"
#include "core/device/driver.h"
#include "core/mil/ops.h"
#include "lm/step/kernel_rewrite.h"

typedef struct eval_program {
    mil_module *module;
    mil_function *function;
} eval_program;

static propane_status eval_open(const char *rest, void **impl, propane_error *err) {
    *impl = NULL;
    return PROPANE_OK;
}
static void eval_close(void *impl) { (void)impl; }
static void eval_describe(const void *impl, propane_device_info *out) { out->compile_limit = 0; }
static propane_status eval_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                    propane_error *why) {
    return PROPANE_OK;
}

static propane_status eval_keep(void *context, const mil_value *param, const void **data, propane_error *err) {
    return PROPANE_OK;
}

static propane_status eval_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                   driver_program *out, propane_error *err) {
    PROPANE_TRY(driver_dense_io(out, f, err));
    eval_program *p = ARENA_NEW(out->arena, eval_program);
    out->shares = ARENA_ARRAY(out->arena, f->param_count * f->result_count + 1, driver_share);
    if (!p || !out->shares) return propane_fail_memory(err, 0);
    for (int o = 0; o < f->result_count; o++)
        for (int i = 0; i < f->param_count; i++) out->shares[out->share_count++] = (driver_share){o, i};
    p->module = mil_module_create("eval");
    if (!p->module) return propane_fail_memory(err, 0);
    out->impl = p;
    return train_bake(f, p->module, "main", eval_keep, NULL, &p->function, err);
}

static void eval_program_free(void *impl, driver_program *program) {
    eval_program *p = program->impl;
    if (p) mil_module_free(p->module);
}

static propane_status eval_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->memory = mem_pages_alloc(bytes);
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}
static void eval_buffer_free(void *impl, driver_buffer *buffer) { mem_pages_free(buffer->memory, buffer->bytes); }

/* Above 0: counts runs of programs down; the run that reaches 0 ends as if Ctrl-C had stopped it. */
static int eval_stop_in;

static propane_status eval_execute(void *impl, const driver_execution *e, propane_completion *out, propane_error *err) {
    const eval_program *p = e->program->impl;
    const mil_function *f = p->function;
    if (eval_stop_in > 0 && --eval_stop_in == 0)
        return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped inside a program");
    arena *a = arena_create();
    mil_tensor *inputs = a ? ARENA_ARRAY(a, f->param_count + 1, mil_tensor) : NULL, *outputs = NULL;
    propane_status status = inputs ? PROPANE_OK : propane_fail_memory(err, 0);
    for (int i = 0; i < f->param_count && status == PROPANE_OK; i++) {
        int64_t count = mil_type_count(&f->params[i]->type);
        inputs[i] = (mil_tensor){.type = f->params[i]->type, .data = ARENA_ARRAY(a, count + 1, double)};
        if (!inputs[i].data)
            status = propane_fail_memory(err, 0);
        else
            mil_unpack_f64(inputs[i].data, f->params[i]->type.dtype, e->inputs[i]->memory, count);
    }
    if (status == PROPANE_OK) status = mil_eval_function(f, inputs, true, a, &outputs, err);
    for (int i = 0; i < f->result_count && status == PROPANE_OK; i++)
        mil_pack_f64(e->outputs[i]->memory, f->results[i]->type.dtype, outputs[i].data,
                     mil_type_count(&f->results[i]->type));
    arena_free(a);
    return status;
}

static const propane_driver eval_driver = {
    .name = "cpu",
    .summary = "the meaning of each op in double",
    .host_memory = true,
    .open = eval_open,
    .close = eval_close,
    .describe = eval_describe,
    .supports = eval_supports,
    .compile = eval_compile,
    .program_free = eval_program_free,
    .buffer_create = eval_buffer_create,
    .buffer_free = eval_buffer_free,
    .execute = eval_execute,
};
const propane_driver *const propane_drivers[] = {&eval_driver};
const int propane_drivers_count = 1;

#endif
