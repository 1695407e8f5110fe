/* SPDX-License-Identifier: MIT
 * The null driver: accepts every verified program, computes nothing, and fills the outputs with zeros. It is the
 * template for a new driver (see its README.md) and the device with which the queue is measured. Refuses only
 * programs that every driver must refuse.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/device/driver.h"

static propane_status null_open(const char *rest, void **impl, propane_error *err) {
    if (*rest)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "device null: it has no options, but its name is followed by '%.40s'", rest);
    *impl = NULL; /* a real driver stores its handles here */
    return PROPANE_OK;
}

static void null_close(void *impl) { (void)impl; }

/* uri, summary and the queue depth are the defaults. */
static void null_describe(const void *impl, propane_device_info *out) { out->compile_limit = 0; }

static propane_status null_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                    propane_error *why) {
    return PROPANE_OK;
}

static propane_status null_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                   driver_program *out, propane_error *err) {
    return driver_dense_io(out, f, err);
}

/* Everything is in the program's arena, which the device layer frees. */
static void null_program_free(void *impl, driver_program *program) { program->impl = NULL; }

static propane_status null_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->memory = mem_pages_alloc(bytes);
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void null_buffer_free(void *impl, driver_buffer *buffer) { mem_pages_free(buffer->memory, buffer->bytes); }

static propane_status null_execute(void *impl, const driver_execution *e, propane_completion *out, propane_error *err) {
    for (int i = 0; i < e->program->output_count; i++) memset(e->outputs[i]->memory, 0, e->program->outputs[i].bytes);
    return PROPANE_OK;
}

extern const propane_driver null_driver;
const propane_driver null_driver = {
    .name = "null",
    .summary = "accepts every program and computes nothing; outputs are zero",
    .open = null_open,
    .close = null_close,
    .describe = null_describe,
    .supports = null_supports,
    .compile = null_compile,
    .program_free = null_program_free,
    .buffer_create = null_buffer_create,
    .buffer_free = null_buffer_free,
    .execute = null_execute,
};
