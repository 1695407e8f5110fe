/* SPDX-License-Identifier: MIT
 * Owns the scripted driver.
 */
#include "device/scripted.h"

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

typedef struct scripted_device {
    atomic_int busy;
} scripted_device;

static propane_status scripted_open(const char *rest, void **impl, propane_error *err) {
    if (strcmp(rest, "broken") == 0) return propane_fail(err, PROPANE_ERR_DEVICE, "scripted: broken on request");
    *impl = mem_alloc(sizeof(scripted_device));
    return *impl ? PROPANE_OK : propane_fail_memory(err, sizeof(scripted_device));
}

static void scripted_close(void *impl) { mem_free(impl); }

static void scripted_describe(const void *impl, propane_device_info *out) {}

static propane_status scripted_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                        propane_error *why) {
    return PROPANE_OK;
}

static propane_status scripted_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                       driver_program *out, propane_error *err) {
    return driver_dense_io(out, f, err);
}

static void scripted_program_free(void *impl, driver_program *program) {}

static propane_status scripted_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->memory = mem_alloc(bytes);
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void scripted_buffer_free(void *impl, driver_buffer *buffer) { mem_free(buffer->memory); }

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

#define SCRIPTED(its_name, its_probe)                                                                                  \
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
     .execute = scripted_execute}

static const propane_driver scripted_driver = SCRIPTED("scripted", NULL);
static const propane_driver other_driver = SCRIPTED("other", NULL);
static const propane_driver absent_driver = SCRIPTED("absent", absent_probe);

const propane_driver *const propane_drivers[] = {&scripted_driver, &other_driver, &absent_driver};
const int propane_drivers_count = 3;
