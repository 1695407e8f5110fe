/* SPDX-License-Identifier: MIT
 * Owns the node in this process. The node enforces the rules of the kernel driver's calls: handles, sizes, the header
 * with the network id, and the start of the constants. The interpreter runs the tasks from the buffers. With ABI 1, the
 * first task comes from a separate buffer, as on the hardware.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "ane/accel/accel_node.h"
#include "ane/h13/h14.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"

enum { HANDLES = 4096, PROGRAMS = HANDLES, PAGE = 0x4000 };

/* A loaded program; `procedures` counts the calls of PROC_CREATE. */
typedef struct registers_program {
    bool loaded;
    uint32_t procedures;
    accel_section tasks, constants;
} registers_program;

struct accel_registers {
    pthread_mutex_t mutex; /* one call at a time, as in the kernel's driver */
    engine_machine *machine;
    uint32_t subtype;
    accel_buffer buffers[HANDLES];        /* by handle; 0 is never used */
    registers_program programs[PROGRAMS]; /* ABI 2, by id; 0 is never used */
    int calls, fail_at;
};

accel_registers *accel_registers_open(uint32_t subtype, int fail_at, engine_arithmetic how) {
    accel_registers *r = mem_alloc(sizeof *r);
    if (!r) return NULL;
    r->subtype = subtype;
    r->fail_at = fail_at;
    if (pthread_mutex_init(&r->mutex, NULL) == 0) {
        r->machine = engine_machine_create(how);
        if (r->machine) return r;
        pthread_mutex_destroy(&r->mutex);
    }
    mem_free(r);
    return NULL;
}

void accel_registers_close(accel_registers *r) {
    if (!r) return;
    for (int i = 0; i < HANDLES; i++) mem_pages_free(r->buffers[i].data, (size_t)r->buffers[i].bytes);
    engine_machine_free(r->machine);
    pthread_mutex_destroy(&r->mutex);
    mem_free(r);
}

uint32_t accel_registers_subtype(const accel_registers *r) { return r->subtype; }

static bool registers_fail(accel_registers *r) { return ++r->calls == r->fail_at; }

static int registers_make(accel_registers *r, uint64_t bytes, accel_buffer *out) {
    uint32_t handle = 1;
    while (handle < HANDLES && r->buffers[handle].data) handle++;
    if (bytes == 0) return -EINVAL;
    if (handle == HANDLES || registers_fail(r)) return -ENOMEM;
    accel_buffer *b = &r->buffers[handle];
    bytes = (uint64_t)round_up((int64_t)bytes, PAGE);
    *b = (accel_buffer){
        .handle = handle, .bytes = bytes, .offset = (uint64_t)handle << 32, .data = mem_pages_alloc((size_t)bytes)};
    if (!b->data) return -ENOMEM;
    *out = *b;
    return 0;
}

static accel_buffer *registers_find(accel_registers *r, uint32_t handle) {
    return handle && handle < HANDLES && r->buffers[handle].data ? &r->buffers[handle] : NULL;
}

static int registers_drop(accel_registers *r, uint32_t handle) {
    accel_buffer *b = registers_find(r, handle);
    if (!b) return -EINVAL;
    mem_pages_free(b->data, (size_t)b->bytes);
    *b = (accel_buffer){0};
    for (int i = 0; i < PROGRAMS; i++) {
        registers_program *p = &r->programs[i];
        if (p->loaded && (p->tasks.handle == handle || p->constants.handle == handle)) *p = (registers_program){0};
    }
    return 0;
}

/* Checks a submit as the kernel does, and maps base registers to buffers. Returns 0 or a negative errno value. */
static int registers_check(accel_registers *r, const accel_submit *s, engine_memory bars[ENGINE_BARS]) {
    if (!s->tsk_size || !s->td_count || !s->td_size || !s->handles[0] || s->handles[1] || !s->btsp_handle || s->pad)
        return -EINVAL;
    for (int bar = 0; bar < ENGINE_BARS; bar++) {
        accel_buffer *b = registers_find(r, s->handles[bar]);
        if (!s->handles[bar]) continue;
        if (!b || (bar == 0 && s->tsk_size >= b->bytes)) return -EINVAL;
        bars[bar] = (engine_memory){b->data, b->bytes};
    }
    uint64_t constants = (uint64_t)round_up((int64_t)s->tsk_size, ACCEL_GRANULE);
    if (constants > bars[0].bytes) return -EINVAL;
    bars[1] = (engine_memory){bars[0].data + constants, bars[0].bytes - constants};
    return registers_find(r, s->btsp_handle) ? 0 : -EINVAL;
}

/* Reads the tasks as the engine fetches them: the first task from its own buffer, the others from the tasks' buffer. */
static propane_status registers_tasks(accel_registers *r, const accel_submit *s, const engine_memory *bars, arena *a,
                                      engine_task **tasks, int *count, propane_error *why) {
    const accel_buffer *first = registers_find(r, s->btsp_handle);
    uint8_t *text = arena_copy(a, bars[0].data, (size_t)s->tsk_size);
    if (!text) return propane_fail_memory(why, (size_t)s->tsk_size);
    if (s->td_size % 4 || s->td_size > first->bytes || s->td_size > s->tsk_size)
        return propane_fail(why, PROPANE_ERR_DEVICE, "the first task has an invalid size of %u bytes", s->td_size);
    if (first->data[2] != ACCEL_NID)
        return propane_fail(why, PROPANE_ERR_DEVICE, "the first task has network id 0x%x instead of 0x%x",
                            first->data[2], ACCEL_NID);
    memcpy(text, first->data, s->td_size);
    PROPANE_TRY(engine_stream_read(text, (size_t)s->tsk_size, (int)s->td_size / 4, a, tasks, count, why));
    if ((uint32_t)*count != s->td_count)
        return propane_fail(why, PROPANE_ERR_DEVICE, "the program has %d tasks, but %u were submitted", *count,
                            s->td_count);
    return PROPANE_OK;
}

static int registers_run(accel_registers *r, const accel_submit *s, propane_error *why) {
    engine_memory bars[ENGINE_BARS] = {{0}};
    engine_task *tasks = NULL;
    int count = 0, failed = registers_check(r, s, bars);
    if (r->subtype != ENGINE_H13) return -EOPNOTSUPP;
    if (failed) return failed;
    if (registers_fail(r)) return -ETIMEDOUT;
    arena *a = arena_create();
    if (!a) return -ENOMEM;
    propane_status status = registers_tasks(r, s, bars, a, &tasks, &count, why);
    if (!status) status = engine_simulate(r->machine, tasks, count, bars, why);
    arena_free(a);
    return status ? -EIO : 0;
}

/* ---- ABI 2 ---------------------------------------------------------------------------------------------------------------------- */

static int registers_section(accel_registers *r, const accel_section *s, registers_program *p) {
    const accel_buffer *b = registers_find(r, s->handle);
    accel_section *to = s->id == ACCEL_SECTION_TASKS       ? &p->tasks
                        : s->id == ACCEL_SECTION_CONSTANTS ? &p->constants
                                                           : NULL;
    if (!to || to->bytes || !b || !s->bytes || s->offset > b->bytes || s->bytes > b->bytes - s->offset) return -EINVAL;
    *to = *s;
    return 0;
}

static int registers_load(accel_registers *r, const accel_section *sections, int count, uint32_t *program) {
    registers_program p = {.loaded = true};
    uint32_t id = 1;
    if (r->subtype != ENGINE_H14) return -ENOTTY;
    if (count < 1 || count > ACCEL_SECTIONS) return -EINVAL;
    for (int i = 0; i < count; i++) {
        int failed = registers_section(r, &sections[i], &p);
        if (failed) return failed;
    }
    while (id < PROGRAMS && r->programs[id].loaded) id++;
    if (!p.tasks.bytes || !p.constants.bytes) return -EINVAL;
    if (id == PROGRAMS || registers_fail(r)) return -ENOMEM;
    r->programs[id] = p;
    *program = id;
    return 0;
}

static registers_program *registers_program_of(accel_registers *r, uint32_t id) {
    return id && id < PROGRAMS && r->programs[id].loaded ? &r->programs[id] : NULL;
}

static int registers_procedure(accel_registers *r, uint32_t program, uint32_t *procedure) {
    registers_program *p = registers_program_of(r, program);
    if (!p) return -EINVAL;
    if (registers_fail(r)) return -ENOMEM;
    *procedure = p->procedures++;
    return 0;
}

static engine_memory registers_bytes(accel_registers *r, const accel_section *s) {
    return (engine_memory){registers_find(r, s->handle)->data + s->offset, s->bytes};
}

static int registers_bind(accel_registers *r, const accel_exec *call, engine_memory bars[ENGINE_BARS]) {
    const registers_program *p = registers_program_of(r, call->program);
    if (!p || call->procedure >= p->procedures || call->priority < ACCEL_PRIORITY_LEAST ||
        call->priority > ACCEL_PRIORITY_MOST || !call->timeout_ms || call->count < 1 || call->count > ACCEL_BINDS)
        return -EINVAL;
    for (uint32_t i = 0; i < call->count; i++) {
        const accel_bind *b = &call->binds[i];
        const accel_buffer *buffer = registers_find(r, b->handle);
        if (!buffer || b->id < 2 || b->id >= ENGINE_BARS || bars[b->id].data || b->bytes > buffer->bytes)
            return -EINVAL;
        bars[b->id] = (engine_memory){buffer->data, b->bytes};
    }
    bars[ENGINE_BAR_CONSTANTS] = registers_bytes(r, &p->constants);
    return 0;
}

static int registers_call(accel_registers *r, const accel_exec *call, propane_error *why) {
    engine_memory bars[ENGINE_BARS] = {{0}};
    engine_task *tasks = NULL;
    int count = 0, failed = registers_bind(r, call, bars);
    if (failed) return failed;
    if (registers_fail(r)) return -ETIMEDOUT;
    arena *a = arena_create();
    if (!a) return -ENOMEM;
    engine_memory from = registers_bytes(r, &r->programs[call->program].tasks);
    propane_status status = engine_h14_read(from.data, from.bytes, a, &tasks, &count, why);
    if (!status) status = engine_simulate(r->machine, tasks, count, bars, why);
    arena_free(a);
    return status ? -EIO : 0;
}

/* ---- one call at a time ------------------------------------------------------------------------------------------------------- */

int accel_registers_make(accel_registers *r, uint64_t bytes, accel_buffer *out) {
    pthread_mutex_lock(&r->mutex);
    int failed = registers_make(r, bytes, out);
    pthread_mutex_unlock(&r->mutex);
    return failed;
}

int accel_registers_drop(accel_registers *r, uint32_t handle) {
    pthread_mutex_lock(&r->mutex);
    int failed = registers_drop(r, handle);
    pthread_mutex_unlock(&r->mutex);
    return failed;
}

int accel_registers_run(accel_registers *r, const accel_submit *s, propane_error *why) {
    pthread_mutex_lock(&r->mutex);
    int failed = registers_run(r, s, why);
    pthread_mutex_unlock(&r->mutex);
    return failed;
}

int accel_registers_load(accel_registers *r, const accel_section *sections, int count, uint32_t *program) {
    pthread_mutex_lock(&r->mutex);
    int failed = registers_load(r, sections, count, program);
    pthread_mutex_unlock(&r->mutex);
    return failed;
}

int accel_registers_procedure(accel_registers *r, uint32_t program, uint32_t *procedure) {
    pthread_mutex_lock(&r->mutex);
    int failed = registers_procedure(r, program, procedure);
    pthread_mutex_unlock(&r->mutex);
    return failed;
}

int accel_registers_call(accel_registers *r, const accel_exec *call, propane_error *why) {
    pthread_mutex_lock(&r->mutex);
    int failed = registers_call(r, call, why);
    pthread_mutex_unlock(&r->mutex);
    return failed;
}
