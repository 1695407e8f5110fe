/* SPDX-License-Identifier: MIT
 * Owns the scripted driver.
 */
#include "device/scripted.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/memory.h"
#include "core/device/driver.h"

const char scripted_program[] = "program(1.3)\n"
                                "[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n"
                                "{\n"
                                "    func main<ios18>(tensor<int32, [4]> command) {\n"
                                "        tensor<int32, [4]> order = identity(x = command)[name = string(\"order\")];\n"
                                "    } -> (order);\n"
                                "}\n";

atomic_int scripted_count, scripted_overlap;
script_calls script;

static propane_status script_fails(char kind, propane_error *err) {
    if (script.fail != kind || script.fail_in-- > 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_DEVICE, "scripted: call '%c' fails on request", kind);
}

typedef struct scripted_device {
    atomic_int busy;
} scripted_device;

static propane_status scripted_open(const char *rest, void **impl, propane_error *err) {
    if (strcmp(rest, "broken") == 0) return propane_fail(err, PROPANE_ERR_DEVICE, "scripted: broken on request");
    *impl = mem_alloc(sizeof(scripted_device));
    script.opened += *impl != NULL;
    return *impl ? PROPANE_OK : propane_fail_memory(err, sizeof(scripted_device));
}

static void scripted_close(void *impl) {
    script.closed++;
    mem_free(impl);
}

static void scripted_describe(const void *impl, propane_device_info *out) {}

static propane_status scripted_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                        propane_error *why) {
    return PROPANE_OK;
}

static propane_status scripted_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                       driver_program *out, propane_error *err) {
    script.compiled++;
    return driver_dense_io(out, f, err);
}

static void scripted_program_free(void *impl, driver_program *program) { script.freed++; }

static propane_status scripted_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->memory = mem_alloc(bytes);
    script.buffers += out->memory != NULL;
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void scripted_buffer_free(void *impl, driver_buffer *buffer) {
    script.buffers_freed++;
    mem_free(buffer->memory);
}

static propane_status scripted_execute(void *impl, const driver_execution *e, propane_completion *out,
                                       propane_error *err) {
    scripted_device *d = impl;
    const int32_t *command = e->inputs[0]->memory;
    int32_t *order = e->outputs[0]->memory;
    propane_status status = PROPANE_OK;
    if (atomic_fetch_add(&d->busy, 1) != 0) atomic_fetch_add(&scripted_overlap, 1);
    if (command[0] == SCRIPT_SLEEP) {
        struct timespec span = {.tv_nsec = command[1] * 1000000L};
        nanosleep(&span, NULL);
    }
    order[0] = atomic_fetch_add(&scripted_count, 1) + 1;
    if (command[0] == SCRIPT_FAIL) {
        out->device_ns = 42;
        status = propane_fail(err, PROPANE_ERR_DEVICE, "scripted: execution %d fails on request", order[0]);
    }
    atomic_fetch_sub(&d->busy, 1);
    return status;
}

static propane_status absent_probe(propane_error *why) {
    return propane_fail(why, PROPANE_ERR_UNSUPPORTED, "absent: this machine has no such engine");
}

/* ---- every optional function -------------------------------------------------------------------------------------- */

/* A buffer's memory is known to the host only while it is locked. */
static propane_status full_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->impl = mem_alloc(bytes);
    script.buffers += out->impl != NULL;
    return out->impl ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void full_buffer_free(void *impl, driver_buffer *buffer) {
    script.buffers_freed++;
    mem_free(buffer->impl);
}

static propane_status full_buffer_lock(void *impl, driver_buffer *buffer, bool for_writing, void **out,
                                       propane_error *err) {
    PROPANE_TRY(script_fails('l', err));
    script.locked++;
    script.locked_for_writing += for_writing;
    *out = buffer->memory = buffer->impl;
    return PROPANE_OK;
}

static void full_buffer_unlock(void *impl, driver_buffer *buffer) {
    script.unlocked++;
    buffer->memory = NULL;
}

static bool full_buffer_native(void *impl, const driver_buffer *buffer, propane_native *out) {
    out->fd = 77;
    return buffer->bytes != 13; /* a size without one */
}

static propane_status full_prepare(void *impl, driver_execution *e, propane_error *err) {
    PROPANE_TRY(script_fails('p', err));
    script.prepared++;
    return PROPANE_OK;
}

static void full_request_free(void *impl, driver_execution *e) { script.requests_freed++; }

static propane_status full_compile_all(void *impl, const mil_function *const *f, int count,
                                       const propane_compile_options *options, driver_program *const *out,
                                       propane_compile_report *report, propane_error *err) {
    report->failed = 1;
    PROPANE_TRY(script_fails('c', err));
    for (int i = 0; i < count; i++) PROPANE_TRY(driver_dense_io(out[i], f[i], err));
    report->compiles = 1;
    report->procedures = count;
    script.compiled_together += count;
    return PROPANE_OK;
}

static propane_status full_patch(void *impl, driver_program *program, const char *constant, const uint16_t *values,
                                 int64_t count, propane_error *err) {
    PROPANE_TRY(script_fails('d', err));
    script.patched++;
    script.patch_count = count;
    script.patch_first = values[0];
    return PROPANE_OK;
}

static void full_profile(driver_program *program, bool on) { script.profiling = on; }
static int full_profile_count(const driver_program *program) { return script.profiling ? 2 : 0; }
static void full_profile_row(const driver_program *program, int step, propane_profile_row *out) {
    out->runs = 10 + step;
}
static const char *full_profile_fusion(const driver_program *program, int index, int *count) {
    *count = index == 0 ? 4 : 0;
    return index == 0 ? "pair" : NULL;
}

static void deep_describe(const void *impl, propane_device_info *out) {
    out->queue_depth = atoi(out->uri + strlen("deep:"));
    out->simulated = true;
}

#define SCRIPTED(its_name, its_probe, ...)                                                                             \
    {.name = its_name,                                                                                                 \
     .summary = "does what its input says",                                                                            \
     .probe = its_probe,                                                                                               \
     .open = scripted_open,                                                                                            \
     .close = scripted_close,                                                                                          \
     .describe = scripted_describe,                                                                                    \
     .supports = scripted_supports,                                                                                    \
     .compile = scripted_compile,                                                                                      \
     .program_free = scripted_program_free,                                                                            \
     .buffer_create = scripted_buffer_create,                                                                          \
     .buffer_free = scripted_buffer_free,                                                                              \
     .execute = scripted_execute,                                                                                      \
     __VA_ARGS__}

static const propane_driver scripted_driver = SCRIPTED("scripted", NULL, .reloads = false);
static const propane_driver other_driver = SCRIPTED("other", NULL, .reloads = false);
static const propane_driver absent_driver = SCRIPTED("absent", absent_probe, .reloads = false);
static const propane_driver host_driver = SCRIPTED("host", NULL, .host_memory = true);
static const propane_driver full_driver = {.name = "full",
                                           .summary = "has every optional function",
                                           .reloads = true,
                                           .open = scripted_open,
                                           .close = scripted_close,
                                           .describe = scripted_describe,
                                           .supports = scripted_supports,
                                           .compile = scripted_compile,
                                           .compile_all = full_compile_all,
                                           .patch = full_patch,
                                           .program_free = scripted_program_free,
                                           .buffer_create = full_buffer_create,
                                           .buffer_free = full_buffer_free,
                                           .buffer_lock = full_buffer_lock,
                                           .buffer_unlock = full_buffer_unlock,
                                           .request_prepare = full_prepare,
                                           .request_free = full_request_free,
                                           .execute = scripted_execute,
                                           .profile = full_profile,
                                           .profile_count = full_profile_count,
                                           .profile_row = full_profile_row,
                                           .profile_fusion = full_profile_fusion,
                                           .buffer_native = full_buffer_native};
static const propane_driver deep_driver = {.name = "deep",
                                           .summary = "has a queue of as many places as its name says",
                                           .open = scripted_open,
                                           .close = scripted_close,
                                           .describe = deep_describe,
                                           .supports = scripted_supports,
                                           .compile = scripted_compile,
                                           .program_free = scripted_program_free,
                                           .buffer_create = scripted_buffer_create,
                                           .buffer_free = scripted_buffer_free,
                                           .execute = scripted_execute};

const propane_driver *const propane_drivers[] = {&scripted_driver, &other_driver, &absent_driver,
                                                 &host_driver,     &full_driver,  &deep_driver};
const int propane_drivers_count = 6;
