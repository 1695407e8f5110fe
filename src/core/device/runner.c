/* SPDX-License-Identifier: MIT
 * Owns the buffers and the request of a program that is run on its own.
 */
#include "core/device/runner.h"

#include "core/base/memory.h"
#include "core/base/status.h"

int runner_io_count(const propane_program *program) {
    return propane_program_input_count(program) + propane_program_output_count(program);
}

const propane_io *runner_io_of(const propane_program *program, int index) {
    const int inputs = propane_program_input_count(program);
    return index < inputs ? propane_program_input(program, index) : propane_program_output(program, index - inputs);
}

/* Collects names and buffers, and makes the request. Buffers that were not chosen are made on `device`; if that is
 * NULL, they are an error. */
static propane_status runner_fill(runner *r, propane_device *device, runner_choose *choose, void *context,
                                  propane_error *err) {
    r->inputs = propane_program_input_count(r->program);
    r->count = runner_io_count(r->program);
    r->bindings = mem_array((size_t)r->count + 1, sizeof *r->bindings);
    r->lent = mem_array((size_t)r->count + 1, sizeof *r->lent);
    if (!r->bindings || !r->lent) return propane_fail_memory(err, (size_t)r->count * sizeof *r->bindings);
    for (int i = 0; i < r->count; i++) {
        const propane_io *io = runner_io(r, i);
        propane_buffer **buffer = &r->bindings[i].buffer;
        r->bindings[i].name = io->name;
        if (choose) PROPANE_TRY(choose(context, io, i, buffer, &r->lent[i], err));
        if (*buffer) continue;
        if (!device) return propane_fail(err, PROPANE_ERR_INVALID, "there is no buffer for '%s'", io->name);
        PROPANE_TRY(propane_buffer_create(device, io->bytes, buffer, err));
    }
    return propane_request_create(r->program, r->bindings, r->count, &r->request, err);
}

propane_status runner_open(runner *r, propane_device *device, propane_program *program, runner_choose *choose,
                           void *context, propane_error *err) {
    *r = (runner){.program = program};
    return runner_fill(r, device, choose, context, err);
}

void runner_close(runner *r) {
    propane_request_free(r->request);
    for (int i = 0; r->bindings && r->lent && i < r->count; i++)
        if (!r->lent[i]) propane_buffer_free(r->bindings[i].buffer);
    mem_free(r->bindings);
    mem_free(r->lent);
    *r = (runner){0};
}

propane_status runner_rebind(runner *r, propane_device *device, int index, propane_buffer *buffer, bool lent,
                             propane_error *err) {
    propane_buffer *own = NULL, *old = r->bindings[index].buffer;
    propane_request *request = NULL;
    if (!buffer) PROPANE_TRY(propane_buffer_create(device, runner_io(r, index)->bytes, &own, err));
    r->bindings[index].buffer = buffer ? buffer : own;
    propane_status status = propane_request_create(r->program, r->bindings, r->count, &request, err);
    if (status) {
        r->bindings[index].buffer = old;
        propane_buffer_free(own);
        return status;
    }
    propane_request_free(r->request);
    r->request = request;
    if (!r->lent[index]) propane_buffer_free(old);
    r->lent[index] = buffer && lent;
    return PROPANE_OK;
}

propane_status runner_bind(propane_program *program, runner_choose *choose, void *context, propane_request **out,
                           propane_error *err) {
    runner r = {.program = program};
    const propane_status status = runner_fill(&r, NULL, choose, context, err);
    *out = status == PROPANE_OK ? r.request : NULL;
    for (int i = 0; r.lent && i < r.count; i++) r.lent[i] = true;
    r.request = NULL;
    runner_close(&r);
    return status;
}

propane_status runner_write(runner *r, int index, propane_dtype dtype, const void *values, propane_error *err) {
    const propane_io *io = runner_io(r, index);
    return propane_buffer_write(r->bindings[index].buffer, io, dtype, values, propane_io_count(io), err);
}

propane_status runner_read(const runner *r, int index, propane_dtype dtype, void *values, propane_error *err) {
    const propane_io *io = runner_io(r, index);
    return propane_buffer_read(r->bindings[index].buffer, io, dtype, values, propane_io_count(io), err);
}

propane_status runner_run(runner *r, propane_completion *done, propane_error *err) {
    PROPANE_TRY(propane_submit(&r->request, 1, err));
    return propane_wait(r->request, done, err);
}
