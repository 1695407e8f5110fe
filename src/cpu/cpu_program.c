/* SPDX-License-Identifier: MIT
 * Runs a program: executes its steps in order, measures their time and limits the threads. For tests, it also fills
 * dead memory with NaN and checks guards after buffers.
 */
#include "cpu/cpu_program.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/base/pool.h"
#include "cpu/cpu_list.h"

propane_status cpu_program_no_memory(propane_error *err) {
    return propane_fail(err, PROPANE_ERR_MEMORY, "not enough memory for the plan of a program");
}

void cpu_program_deinit(cpu_program *program) {
    if (!program) return;
    for (cpu_program *block = program->inside; block; block = block->outside) cpu_program_deinit(block);
    program->inside = NULL;
    cpu_list_free(program->lists);
    mem_pages_free(program->constants, program->constant_bytes);
    mil_module_free(program->module);
    program->constants = NULL;
    program->module = NULL;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

void cpu_run_parallel(const cpu_run *run, void (*task)(void *context, int task, int worker), void *context, int count) {
    pool_run_most(task, context, count, run->threads);
}

/* Fills with NaN each buffer whose last step is `at`, unless its memory overlaps a buffer that is still alive. */
static void cpu_program_poison(cpu_program *program, int at) {
    for (int b = 0; b < program->buffer_count; b++) {
        const cpu_buffer *o = &program->buffers[b];
        if (o->place != CPU_STORAGE_TEMP || o->first > o->last || o->last != at || o->alias >= 0) continue;
        bool taken_over = false;
        for (int c = 0; c < program->buffer_count; c++) {
            const cpu_buffer *n = &program->buffers[c];
            taken_over |= n->place == CPU_STORAGE_TEMP && n->first <= at && n->last > at &&
                          n->offset < o->offset + o->bytes && o->offset < n->offset + n->bytes;
        }
        if (!taken_over) memset(program->base[b], 0xff, (size_t)o->bytes);
    }
}

static bool cpu_program_is_guarded(const cpu_buffer *b) {
    return b->place == CPU_STORAGE_TEMP && b->alias < 0 && b->first <= b->last;
}

/* Fills the guard bytes after each buffer whose first step is `at`. */
static void cpu_program_lay_guards(cpu_program *program, int at) {
    for (int b = 0; program->guard && b < program->buffer_count; b++) {
        const cpu_buffer *o = &program->buffers[b];
        if (cpu_program_is_guarded(o) && o->first == at) memset(program->base[b] + o->bytes, 0xff, CPU_PROGRAM_GUARD);
    }
}

static propane_status cpu_program_check_guards(const cpu_program *program, int at, propane_error *err) {
    for (int b = 0; program->guard && b < program->buffer_count; b++) {
        const cpu_buffer *o = &program->buffers[b];
        for (int i = 0; cpu_program_is_guarded(o) && o->first <= at && at <= o->last && i < CPU_PROGRAM_GUARD; i++)
            if (program->base[b][o->bytes + i] != 0xff)
                return propane_fail(err, PROPANE_ERR_INVALID, "step %d (%s) wrote %d bytes beyond buffer %d", at,
                                    program->steps[at].kind, i, b);
    }
    return PROPANE_OK;
}

static propane_status cpu_program_run_steps(cpu_program *program, propane_error *err) {
    cpu_run run = {program->base, program->threads, NULL};
    for (int i = 0; i < program->step_count; i++) {
        cpu_step *s = &program->steps[i];
        if (poll_stop())
            return propane_fail(err, PROPANE_ERR_CANCELLED, "the run was stopped at step %d of %d", i,
                                program->step_count);
        int64_t start = program->profile ? clock_ns() : 0;
        run.next = i + 1 < program->step_count ? s + 1 : NULL;
        cpu_program_lay_guards(program, i);
        PROPANE_TRY(s->run(&run, s->args, err));
        if (program->profile) {
            s->ns += clock_ns() - start;
            s->runs++;
        }
        PROPANE_TRY(cpu_program_check_guards(program, i, err));
        if (program->poison) cpu_program_poison(program, i);
    }
    return PROPANE_OK;
}

/* Context of a program that is limited to one thread. The whole program is one task, and loops nested in a task run on
 * the thread of that task. */
typedef struct alone {
    cpu_program *program;
    propane_error *err;
    propane_status status;
} alone;

static void cpu_program_alone_task(void *context, int task, int worker) {
    alone *a = context;
    if (task == 0) a->status = cpu_program_run_steps(a->program, a->err);
}

propane_status cpu_program_run(cpu_program *program, void *block, void *const *inputs, void *const *outputs,
                               propane_error *err) {
    /* Scratch was planned for this number of threads, and a smaller number may need more scratch. */
    if (pool_threads() != program->planned_threads)
        return propane_fail(err, PROPANE_ERR_DEVICE, "the program was compiled for %d threads, but the pool has %d now",
                            program->planned_threads, pool_threads());
    for (int b = 0; b < program->buffer_count; b++) {
        const cpu_buffer *o = &program->buffers[b];
        if (o->place == CPU_STORAGE_INPUT)
            program->base[b] = inputs[o->index];
        else if (o->place == CPU_STORAGE_OUTPUT)
            program->base[b] = outputs[o->index];
        else if (o->place == CPU_STORAGE_TEMP)
            program->base[b] = (unsigned char *)block + o->offset;
    }
    for (int b = 0; b < program->buffer_count; b++) {
        int root = b;
        while (program->buffers[root].alias >= 0) root = program->buffers[root].alias;
        program->base[b] = program->base[root];
    }
    if (program->poison) memset(block, 0xff, (size_t)program->block_bytes);
    if (program->threads != 1 || pool_threads() == 1) return cpu_program_run_steps(program, err);
    alone a = {program, err, PROPANE_OK};
    pool_run(cpu_program_alone_task, &a, 1);
    return a.status;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

static bool cpu_program_together(const cpu_buffer *a, const cpu_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

propane_status cpu_program_memory_check(const cpu_program *program, propane_error *err) {
    for (int i = 0; i < program->buffer_count; i++) {
        const cpu_buffer *a = &program->buffers[i];
        if (a->place != CPU_STORAGE_TEMP || a->alias >= 0 || a->first > a->last) continue;
        if (a->offset % 64 || a->offset + a->bytes > program->block_bytes)
            return propane_fail(err, PROPANE_ERR_INVALID, "buffer %d is at %lld, outside the block or unaligned", i,
                                (long long)a->offset);
        for (int j = i + 1; j < program->buffer_count; j++) {
            const cpu_buffer *b = &program->buffers[j];
            if (b->place != CPU_STORAGE_TEMP || b->alias >= 0 || b->first > b->last || !cpu_program_together(a, b))
                continue;
            if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                return propane_fail(err, PROPANE_ERR_INVALID,
                                    "buffers %d (steps %d-%d) and %d (steps %d-%d) share memory", i, a->first, a->last,
                                    j, b->first, b->last);
        }
    }
    return PROPANE_OK;
}
