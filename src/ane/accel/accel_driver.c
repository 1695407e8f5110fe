/* SPDX-License-Identifier: MIT
 * Device "accel": the Neural Engine of an M1 under Linux, without any of Apple's software. A program is compiled to
 * register settings (src/ane/h13). One buffer holds the program's text and constants. Each surface and the scratch
 * memory have separate buffers. A run copies inputs into their surfaces, submits, and copies outputs back. fp32 inputs
 * and outputs are converted. Device "registers", or "sim:m1?level=registers", needs no hardware: the interpreter runs
 * the tasks. "registers:target=m2", or "sim:m2?level=registers", compiles for an M2 and makes the calls of that chip's
 * driver.
 *
 * None of this has run on hardware.
 */
#include <stdio.h>
#include <string.h>

#include "ane/accel/accel_node.h"
#include "ane/chip/chip.h"
#include "ane/chip/refusing_rule.h"
#include "ane/h13/compile.h"
#include "ane/h13/patch.h"
#include "core/base/bytes.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "core/device/driver.h"

typedef struct accel_device {
    accel_node *node;
} accel_device;

/* A compiled program and its buffers. The program's requests share the surfaces and run one at a time. */
typedef struct accel_program {
    engine_object *object;
    accel_buffer text, first, scratch, surfaces[ENGINE_BARS];
    accel_submit submit; /* ABI 1 */
    accel_exec exec;     /* ABI 2 */
} accel_program;

static propane_status accel_probe(propane_error *why) {
    accel_node *n = NULL;
    PROPANE_TRY(accel_node_open("", &n, why));
    accel_node_close(n);
    return PROPANE_OK;
}

static propane_status accel_open_node(const char *which, void **impl, propane_error *err) {
    accel_device *d = mem_alloc(sizeof *d);
    if (!d) return propane_fail_memory(err, sizeof *d);
    propane_status status = accel_node_open(which, &d->node, err);
    if (status) {
        mem_free(d);
        return status;
    }
    *impl = d;
    return PROPANE_OK;
}

static propane_status accel_open(const char *rest, void **impl, propane_error *err) {
    if (strncmp(rest, "registers", 9) == 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "device accel: to interpret registers in software, use the device 'registers'");
    return accel_open_node(rest, impl, err);
}

static propane_status accel_driver_registers_open(const char *rest, void **impl, propane_error *err) {
    char which[120], name[40];
    const char *switches = strchr(rest, '?');
    const chip *c;
    if (!switches) {
        snprintf(which, sizeof which, "registers%s%.60s", *rest ? "," : "", rest);
        return accel_open_node(which, impl, err);
    }
    snprintf(name, sizeof name, "%.*s", (int)(switches - rest < 39 ? switches - rest : 39), rest);
    PROPANE_TRY(chip_find(name, &c, err));
    if (c->generation != CHIP_H13 && c->generation != CHIP_H14)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "device sim: level=registers supports the A14, the A15, and the M1 and M2 families; too "
                            "little is known about the registers of the %s",
                            c->title);
    size_t used = (size_t)snprintf(which, sizeof which, "registers%s", c->generation == CHIP_H14 ? ",target=m2" : "");
    for (const char *at = switches + 1; *at;) {
        size_t n = strcspn(at, "&");
        bool level = n == strlen("level=registers") && strncmp(at, "level=registers", n) == 0;
        if (!level && strncmp(at, "level=", 6) == 0)
            return propane_fail(err, PROPANE_ERR_INVALID, "device sim: level must be registers, not '%.*s'",
                                (int)(n < 40 ? n - 6 : 34), at + 6);
        if (!level) used += (size_t)snprintf(which + used, sizeof which - used, ",%.*s", (int)(n < 40 ? n : 40), at);
        if (used >= sizeof which) return propane_fail(err, PROPANE_ERR_INVALID, "device sim: too many options");
        at += n + (at[n] == '&');
    }
    return accel_open_node(which, impl, err);
}

static void accel_close(void *impl) {
    accel_device *d = impl;
    accel_node_close(d->node);
    mem_free(d);
}

static void accel_describe(const void *impl, propane_device_info *out) {
    const accel_device *d = impl;
    out->compile_limit = 0;
    out->patches = true;
    out->unproven = accel_node_is_hardware(d->node);
}

static propane_status accel_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                     propane_error *why) {
    accel_device *d = impl;
    engine_object *o = NULL;
    engine_compile_options how = {.patchable = options->reloadable, .subtype = accel_node_subtype(d->node)};
    PROPANE_TRY(engine_compile(f, &how, &o, why));
    engine_object_free(o);
    return PROPANE_OK;
}

/* ---- programs ------------------------------------------------------------------------------------------------------------------ */

static void accel_release(accel_device *d, accel_program *p) {
    accel_buffer_drop(d->node, &p->text);
    accel_buffer_drop(d->node, &p->first);
    accel_buffer_drop(d->node, &p->scratch);
    for (int i = 0; i < ENGINE_BARS; i++) accel_buffer_drop(d->node, &p->surfaces[i]);
    engine_object_free(p->object);
    mem_free(p);
}

/* Makes one buffer for tasks and constants, as the engine reads them, and one each for scratch memory and every
 * surface. */
static propane_status accel_buffers(accel_device *d, accel_program *p, propane_error *err) {
    const engine_object *o = p->object;
    uint64_t constants = engine_object_constants_at(o), total = constants + o->constant_bytes;
    PROPANE_TRY(accel_buffer_make(d->node, (uint64_t)round_up((int64_t)total, ENGINE_PAGE), &p->text, err));
    memcpy(p->text.data, o->text, (size_t)o->text_bytes);
    memcpy(p->text.data + constants, o->constants, (size_t)o->constant_bytes);
    if (o->scratch_bytes) PROPANE_TRY(accel_buffer_make(d->node, o->scratch_bytes, &p->scratch, err));
    for (int i = 0; i < o->surface_count; i++) {
        const engine_surface *s = &o->surfaces[i];
        uint64_t bytes = (uint64_t)round_up((int64_t)((uint64_t)s->n * s->bytes), ENGINE_PAGE);
        PROPANE_TRY(accel_buffer_make(d->node, bytes, &p->surfaces[s->bar], err));
    }
    return PROPANE_OK;
}

static propane_status accel_load_first(accel_device *d, accel_program *p, propane_error *err) {
    const engine_object *o = p->object;
    int words = engine_task_words(&o->tasks[0]);
    PROPANE_TRY(accel_buffer_make(d->node, ENGINE_PAGE, &p->first, err));
    memcpy(p->first.data, o->text, 4 * (size_t)words);
    bytes_put_u32(p->first.data, (bytes_u32(o->text) & 0x0f00ffff) | ACCEL_NID << 16);
    p->submit = (accel_submit){.tsk_size = engine_object_constants_at(o),
                               .td_count = (uint32_t)o->task_count,
                               .td_size = 4 * (uint32_t)words,
                               .btsp_handle = p->first.handle};
    p->submit.handles[0] = p->text.handle;
    p->submit.handles[ENGINE_BAR_SCRATCH] = p->scratch.handle;
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++) p->submit.handles[bar] = p->surfaces[bar].handle;
    return PROPANE_OK;
}

static void accel_bind_buffer(accel_exec *e, int bar, const accel_buffer *b) {
    if (b->handle) e->binds[e->count++] = (accel_bind){(uint32_t)bar, b->handle, b->bytes};
}

static propane_status accel_load_second(accel_device *d, accel_program *p, propane_error *err) {
    const engine_object *o = p->object;
    const accel_section sections[] = {
        {ACCEL_SECTION_TASKS, p->text.handle, o->text_bytes, 0},
        {ACCEL_SECTION_CONSTANTS, p->text.handle, o->constant_bytes, engine_object_constants_at(o)}};
    PROPANE_TRY(accel_load(d->node, sections, 2, &p->exec, err));
    accel_bind_buffer(&p->exec, ENGINE_BAR_SCRATCH, &p->scratch);
    for (int bar = ENGINE_BAR_SURFACES; bar < ENGINE_BARS; bar++) accel_bind_buffer(&p->exec, bar, &p->surfaces[bar]);
    return PROPANE_OK;
}

static propane_status accel_load_program(accel_device *d, accel_program *p, propane_error *err) {
    PROPANE_TRY(accel_buffers(d, p, err));
    return p->object->subtype == ENGINE_H14 ? accel_load_second(d, p, err) : accel_load_first(d, p, err);
}

static propane_status accel_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                    driver_program *out, propane_error *err) {
    accel_device *d = impl;
    PROPANE_TRY(driver_dense_io(out, f, err));
    accel_program *p = mem_alloc(sizeof *p);
    if (!p) return propane_fail_memory(err, sizeof *p);
    engine_compile_options how = {.patchable = options->reloadable, .subtype = accel_node_subtype(d->node)};
    propane_status status = engine_compile(f, &how, &p->object, err);
    if (!status) status = accel_load_program(d, p, err);
    if (status)
        accel_release(d, p);
    else
        out->impl = p;
    return status;
}

/* Patches the buffer that the engine reads, in which constants follow the tasks. */
static propane_status accel_patch(void *impl, driver_program *program, const char *constant, const uint16_t *values,
                                  int64_t count, propane_error *err) {
    accel_program *p = program->impl;
    return engine_patch_apply(p->object, constant, values, count, p->text.data + engine_object_constants_at(p->object),
                              err);
}

static void accel_program_free(void *impl, driver_program *program) {
    accel_release(impl, program->impl);
    program->impl = NULL;
}

static propane_status accel_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->memory = mem_pages_alloc(bytes);
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void accel_buffer_free(void *impl, driver_buffer *buffer) { mem_pages_free(buffer->memory, buffer->bytes); }

/* ---- a run ------------------------------------------------------------------------------------------------------------------------ */

static const engine_surface *accel_surface(const accel_program *p, const char *name) {
    for (int i = 0; i < p->object->surface_count; i++)
        if (strcmp(p->object->surfaces[i].name, name) == 0) return &p->object->surfaces[i];
    return NULL;
}

static void accel_move(const accel_program *p, const propane_io *io, void *host, bool in) {
    const engine_surface *s = accel_surface(p, io->name);
    uint8_t *base = p->surfaces[s->bar].data, *dense = host;
    size_t width = (size_t)s->w, step = width * (s->wide ? 4 : 2);
    for (int64_t row = 0; row < s->c * s->h; row++, dense += step) {
        void *at = base + (uint64_t)row * s->row;
        if (!s->wide)
            memcpy(in ? at : dense, in ? (void *)dense : at, step);
        else if (in)
            fp16_from_f32_array(at, (const float *)(void *)dense, width);
        else
            fp16_to_f32_array((float *)(void *)dense, at, width);
    }
}

static propane_status accel_execute(void *impl, const driver_execution *e, propane_completion *out,
                                    propane_error *err) {
    accel_device *d = impl;
    accel_program *p = e->program->impl;
    for (int i = 0; i < e->program->input_count; i++) accel_move(p, &e->program->inputs[i], e->inputs[i]->memory, true);
    PROPANE_TRY(p->object->subtype == ENGINE_H14 ? accel_call(d->node, &p->exec, err)
                                                 : accel_run(d->node, &p->submit, err));
    for (int i = 0; i < e->program->output_count; i++)
        accel_move(p, &e->program->outputs[i], e->outputs[i]->memory, false);
    return PROPANE_OK;
}

/* The functions that both devices share. */
#define ACCEL_COMMON                                                                                                   \
    .close = accel_close, .describe = accel_describe, .supports = accel_supports, .refusing_rule = chip_refusing_rule, \
    .compile = accel_compile, .patch = accel_patch, .program_free = accel_program_free,                                \
    .buffer_create = accel_buffer_create, .buffer_free = accel_buffer_free, .execute = accel_execute

extern const propane_driver accel_driver, registers_driver;
const propane_driver accel_driver = {
    .name = "accel",
    .summary = "the Neural Engine of an M1 under Linux, programmed through its registers (never run on hardware)",
    .probe = accel_probe,
    .open = accel_open,
    ACCEL_COMMON,
};
const propane_driver registers_driver = {
    .name = "registers",
    .summary = "runs programs compiled for the registers of an M1 or M2, interpreted in software; also "
               "sim:m1?level=registers and sim:m2?level=registers",
    .open = accel_driver_registers_open,
    ACCEL_COMMON,
};
