/* SPDX-License-Identifier: MIT
 * Owns the sim driver, whose devices are named sim:CHIP. It compiles under the chip's rules and compile budget, runs
 * programs as sim.h describes, and reports the time and energy that the cost model predicts for the call. A program
 * copies its constant weights.
 *
 * Refuses what the engine would refuse, but gives the reason. This includes programs that a known rule of the chip
 * refuses (with the rule's id, evidence and fix), compiles beyond the budget, weights that are too large to load, and
 * faulty bindings.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ane/chip/check.h"
#include "ane/chip/placed_cost.h"
#include "ane/chip/refusing_rule.h"
#include "ane/sim/sim.h"
#include "core/base/fork.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "cpu/simd/kernels.h"

extern const propane_driver sim_driver, registers_driver;

typedef struct sim_device {
    const chip *chip;
    sim_switches switches;
    sim_tables tables;
    sim_numbers numbers;
    const cpu_kernels *kernels;
    fork_mutex mutex; /* guards the block and the counters */
    void *block;
    size_t block_bytes;
    chip_process process; /* compiles and loaded programs of this device, for the rules about processes */
    int64_t pid;          /* the process that opened the device */
} sim_device;

/* Returns the registers driver, which runs the interpreter of src/ane/h13, if the URI has a `level` switch. Otherwise
 * returns NULL. */
static const propane_driver *sim_other(const char *rest) {
    const char *switches = strchr(rest, '?');
    return switches && (strncmp(switches, "?level=", 7) == 0 || strstr(switches, "&level=")) ? &registers_driver : NULL;
}

static propane_status sim_open(const char *rest, void **impl, propane_error *err) {
    const chip *c = NULL;
    sim_switches switches;
    cpu_isa isa;
    PROPANE_TRY(sim_switches_parse(rest, &c, &switches, err));
    PROPANE_TRY(cpu_isa_current(&isa, err));
    sim_device *d = mem_alloc(sizeof *d);
    if (!d) return propane_fail_memory(err, sizeof *d);
    *d = (sim_device){.chip = c, .switches = switches, .kernels = cpu_kernels_of(isa), .pid = (int64_t)getpid()};
    if (fork_mutex_init(&d->mutex)) {
        mem_free(d);
        return propane_fail(err, PROPANE_ERR_DEVICE, "the system cannot create a lock");
    }
    sim_tables_build(&d->tables);
    d->numbers = (sim_numbers){.chip = c,
                               .tables = &d->tables,
                               .switches = &d->switches,
                               .array = &d->kernels->array,
                               .product_limit = (float)chip_know(c, CHIP_saturate)->value};
    *impl = d;
    return PROPANE_OK;
}

static void sim_close(void *impl) {
    sim_device *d = impl;
    if (!d) return;
    mem_pages_free(d->block, d->block_bytes);
    fork_mutex_destroy(&d->mutex);
    mem_free(d);
}

static void sim_describe(const void *impl, propane_device_info *out) {
    const sim_device *d = impl;
    out->compile_limit = d->switches.value[SIM_theory] == SIM_COUNTS_COMPILES ? d->switches.value[SIM_budget] : 0;
    out->simulated = true;
    out->queue_depth = (int)chip_limit_value("C17b");
}

/* ---- compiling --------------------------------------------------------------------------------------------------------- */

static bool sim_driver_through_coreml(const sim_device *d, const mil_function *f) {
    const int path = d->switches.value[SIM_path];
    return path < 0 ? f->module->coreml : path == 1;
}

/* Refuses weights that are too large for the engine's loader (C7a), even if the switch `refuse` is off. */
static propane_status sim_driver_check_load(const sim_device *d, const mil_function *f, propane_error *err) {
    double weights = 0;
    for (const mil_op *op = f->first; op; op = op->next)
        for (int r = 0; r < op->result_count; r++)
            if (op->results[r]->constant) weights += (double)mil_type_bytes(&op->results[r]->type);
    double most = chip_limit_value("C7a");
    if (weights > most)
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "sim:%s: function '%s': Program load failure (0x20004): its weights have %.2f GB, and more "
                            "than %.2f GB cannot be loaded (C7a, measured on the M5 Max); split it",
                            d->chip->name, f->name, weights / 1e9, most / 1e9);
    return PROPANE_OK;
}

/* Checks the program against the chip's rules. Sets *moved to an array in the arena that marks the operations that the
 * CPU runs, or to NULL if the engine runs all operations. */
static propane_status sim_driver_place(const sim_device *d, const mil_function *f, arena *a, const bool **moved,
                                       propane_error *err) {
    const int os = d->switches.value[SIM_os];
    *moved = NULL;
    PROPANE_TRY(sim_driver_check_load(d, f, err));
    if (!d->switches.value[SIM_refuse]) return PROPANE_OK;
    if (!sim_driver_through_coreml(d, f)) return chip_check_refusal(f, d->chip, os, err);
    chip_segments cut;
    bool *at = ARENA_ARRAY(a, f->op_count + 1, bool);
    if (!at) return propane_fail_memory(err, (size_t)f->op_count);
    *moved = at;
    return chip_check_placement(f, d->chip, os, at, &cut, err);
}

static propane_status sim_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                   propane_error *why) {
    const sim_device *d = impl;
    cpu_plan_options o = {.kernels = d->kernels, .fuse = false};
    arena *a = arena_create();
    sim_program *p = NULL;
    const bool *moved;
    if (!a) return propane_fail_memory(why, 0);
    propane_status status = sim_driver_place(d, f, a, &moved, why);
    if (status == PROPANE_OK) status = sim_program_create(f, moved, &d->numbers, &o, a, &p, why);
    sim_program_deinit(p);
    arena_free(a);
    return status;
}

/* Returns the id of the disputed rule that the switches `theory` and `budget` activate, or "" if they activate none. */
static const char *sim_driver_chosen_rows(const sim_device *d) {
    static const char *const budget[] = {[SIM_COUNTS_COMPILES] = "C1a", [SIM_COUNTS_LOADED] = "C1b"};
    int theory = d->switches.value[SIM_theory];
    return d->switches.value[SIM_budget] == 0 || theory == SIM_COUNTS_NOTHING ? "" : budget[theory];
}

/* Counts a compile, unless a rule about processes refuses it. The caller holds `mutex`. */
static propane_status sim_driver_count_compile(sim_device *d, const mil_function *f, propane_error *err) {
    chip_process next = d->process;
    next.compiles++;
    next.loaded++;
    next.budget = d->switches.value[SIM_budget];
    next.forked = d->pid != (int64_t)getpid();
    propane_error why = {0};
    propane_status status =
        chip_process_refusal(&next, d->chip, d->switches.value[SIM_os], sim_driver_chosen_rows(d), &why);
    if (status != PROPANE_OK)
        return propane_fail(err, status, "sim:%s: ANECCompile() FAILED: '%s': %s", d->chip->name, f->name, why.text);
    d->process = next;
    return PROPANE_OK;
}

static void sim_driver_widen_rows(propane_io *io, int64_t step) {
    if (step <= 1) return;
    if (!io->rank) {
        io->bytes = (size_t)round_up((int64_t)io->bytes, step);
        return;
    }
    int64_t element = io->stride[io->rank - 1], row = element * io->dim[io->rank - 1];
    int64_t wide = round_up(row, step);
    if (io->rank == 1) {
        io->bytes = (size_t)wide;
        return;
    }
    for (int k = io->rank - 2; k >= 0; k--) {
        io->stride[k] = wide;
        wide *= io->dim[k];
    }
    io->bytes = (size_t)wide;
}

static int sim_driver_compare_inputs(const void *a, const void *b) {
    return strcmp((*(const propane_io *const *)a)->name, (*(const propane_io *const *)b)->name);
}

/* Fills p->order: the engine uses input number order[k] of a request as parameter k. Both are numbered in declared
 * order. */
static propane_status sim_driver_sort_inputs(sim_program *p, const driver_program *out, bool by_position,
                                             propane_error *err) {
    const size_t count = (size_t)out->input_count;
    const propane_io **sorted = mem_array(count + 1, sizeof *sorted);
    p->order = ARENA_ARRAY(out->arena, out->input_count + 1, int);
    if (p->order && sorted) {
        for (size_t i = 0; i < count; i++) sorted[i] = &out->inputs[i];
        if (by_position) qsort(sorted, count, sizeof *sorted, sim_driver_compare_inputs);
        for (size_t i = 0; i < count; i++) p->order[sorted[i] - out->inputs] = (int)i;
    }
    mem_free(sorted);
    return p->order && sorted ? PROPANE_OK : propane_fail_memory(err, 0);
}

static propane_status sim_driver_prepare(sim_device *d, const mil_function *f, driver_program *out, sim_program *p,
                                         propane_error *err) {
    cost_program cost;
    PROPANE_TRY(driver_dense_io(out, f, err));
    p->inputs = ARENA_ARRAY(out->arena, out->input_count + 1, void *);
    p->outputs = ARENA_ARRAY(out->arena, out->output_count + 1, const void *);
    if (!p->inputs || !p->outputs) return propane_fail_memory(err, 0);
    const int64_t rows = p->coreml ? 1 : d->switches.value[SIM_rows]; /* Core ML's arrays are dense */
    for (int i = 0; i < out->input_count; i++) sim_driver_widen_rows(&out->inputs[i], rows);
    for (int i = 0; i < out->output_count; i++) sim_driver_widen_rows(&out->outputs[i], rows);
    PROPANE_TRY(sim_driver_sort_inputs(p, out, !p->coreml && d->switches.value[SIM_order], err));
    for (int i = 0; i < out->input_count; i++) /* space for dense copies of inputs with wide rows */
        p->block_bytes += (int64_t)(out->inputs[i].bytes + 63) / 64 * 64;
    PROPANE_TRY(placed_cost(d->chip, p->coreml ? COST_COREML : COST_DIRECT, f, out->arena, &cost, err));
    p->ms = cost.ms;
    p->energy_mj = cost.energy_mj;
    p->weight_bytes = cost.weight_bytes;
    return PROPANE_OK;
}

static propane_status sim_driver_grow_block(sim_device *d, size_t bytes, propane_error *err) {
    if (bytes <= d->block_bytes) return PROPANE_OK;
    void *block = mem_pages_alloc(bytes);
    if (!block) return propane_fail_memory(err, bytes);
    mem_pages_free(d->block, d->block_bytes);
    d->block = block;
    d->block_bytes = bytes;
    return PROPANE_OK;
}

static propane_status sim_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                  driver_program *out, propane_error *err) {
    sim_device *d = impl;
    sim_program *p = NULL;
    const bool *moved;
    PROPANE_TRY(sim_driver_place(d, f, out->arena, &moved, err));
    cpu_plan_options o = {.kernels = d->kernels, .threads = options ? options->threads : 0, .fuse = false};
    PROPANE_TRY(sim_program_create(f, moved, &d->numbers, &o, out->arena, &p, err));
    p->coreml = sim_driver_through_coreml(d, f);
    propane_status status = sim_driver_prepare(d, f, out, p, err);
    fork_mutex_lock(&d->mutex);
    if (status == PROPANE_OK) status = sim_driver_grow_block(d, (size_t)p->block_bytes, err);
    if (status == PROPANE_OK && !p->coreml) status = sim_driver_count_compile(d, f, err);
    fork_mutex_unlock(&d->mutex);
    out->impl = p;
    if (status != PROPANE_OK) sim_program_deinit(p);
    return status;
}

static void sim_program_free(void *impl, driver_program *program) {
    sim_device *d = impl;
    sim_program *p = program->impl;
    const bool counted = !p->coreml;
    sim_program_deinit(p);
    program->impl = NULL;
    fork_mutex_lock(&d->mutex);
    d->process.loaded -= counted;
    fork_mutex_unlock(&d->mutex);
}

static propane_status sim_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    out->memory = mem_pages_alloc(bytes);
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void sim_buffer_free(void *impl, driver_buffer *buffer) {
    if (buffer->memory) mem_pages_free(buffer->memory, buffer->bytes);
    buffer->memory = NULL;
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

/* Copies the rows of a surface to dense memory, or in the opposite direction if `in` is false. */
static void sim_driver_copy_rows(const propane_io *io, void *dense, void *surface, bool in) {
    int last = io->rank - 1;
    size_t row = (size_t)(io->stride[last] * io->dim[last]), wide = last > 0 ? (size_t)io->stride[last - 1] : row;
    int64_t rows = 1;
    for (int k = 0; k < last; k++) rows *= io->dim[k];
    for (int64_t r = 0; r < rows; r++) {
        unsigned char *a = (unsigned char *)dense + (size_t)r * row, *b = (unsigned char *)surface + (size_t)r * wide;
        memcpy(in ? a : b, in ? b : a, row);
    }
}

static bool sim_driver_is_dense(const propane_io *io) {
    return io->rank < 2 || io->stride[io->rank - 2] == io->stride[io->rank - 1] * io->dim[io->rank - 1];
}

static int sim_driver_by_name(const void *a, const void *b) {
    const chip_surface *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Checks a request's surfaces against the rules about requests. `inputs` and `outputs` are space for the surfaces.
 * p->order may assign another input's surface to a parameter. */
static propane_status sim_driver_check_request(const sim_device *d, const driver_execution *e, chip_surface *inputs,
                                               chip_surface *outputs, propane_error *err) {
    const driver_program *program = e->program;
    const sim_program *p = program->impl;
    for (int i = 0; i < program->input_count; i++)
        inputs[i] = (chip_surface){.name = program->inputs[i].name, .bytes = e->inputs[p->order[i]]->bytes};
    for (int i = 0; i < program->output_count; i++)
        outputs[i] = (chip_surface){.name = program->outputs[i].name, .bytes = e->outputs[i]->bytes};
    /* The ane driver binds surfaces in alphabetical order (rule C12b). */
    qsort(inputs, (size_t)program->input_count, sizeof *inputs, sim_driver_by_name);
    qsort(outputs, (size_t)program->output_count, sizeof *outputs, sim_driver_by_name);
    const chip_request request = {.function = p->function,
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .input_count = program->input_count,
                                  .output_count = program->output_count,
                                  .row_bytes = (size_t)d->switches.value[SIM_rows],
                                  .procedure_count = 1};
    propane_error why = {0};
    propane_status status = chip_request_refusal(&request, d->chip, d->switches.value[SIM_os],
                                                 d->switches.value[SIM_sizes] ? "C11" : "", &why);
    if (status == PROPANE_OK) return PROPANE_OK;
    return propane_fail(err, status, "sim:%s: ANEProgramProcessRequestDirect() failed with status=0x1d: %s",
                        d->chip->name, why.text);
}

static propane_status sim_request_prepare(void *impl, driver_execution *e, propane_error *err) {
    const sim_program *p = e->program->impl;
    if (p->coreml) return PROPANE_OK; /* Core ML owns the surfaces */
    chip_surface *inputs = mem_array((size_t)e->program->input_count + 1, sizeof *inputs);
    chip_surface *outputs = mem_array((size_t)e->program->output_count + 1, sizeof *outputs);
    propane_status status = inputs && outputs ? sim_driver_check_request(impl, e, inputs, outputs, err)
                                              : propane_fail_memory(err, sizeof *inputs);
    mem_free(inputs);
    mem_free(outputs);
    return status;
}

static propane_status sim_execute(void *impl, const driver_execution *e, propane_completion *out, propane_error *err) {
    sim_device *d = impl;
    sim_program *p = e->program->impl;
    void **inputs = p->inputs;
    const void **outputs = p->outputs;
    fork_mutex_lock(&d->mutex);
    unsigned char *room = (unsigned char *)d->block + p->block_bytes;
    for (int i = e->program->input_count - 1; i >= 0; i--) {
        const propane_io *io = &e->program->inputs[i];
        room -= (io->bytes + 63) / 64 * 64;
        inputs[i] = e->inputs[p->order[i]]->memory;
        if (sim_driver_is_dense(io)) continue;
        sim_driver_copy_rows(io, room, inputs[i], true);
        inputs[i] = room;
    }
    propane_status status = sim_program_run(p, &d->numbers, d->block, inputs, outputs, err);
    for (int i = 0; i < e->program->output_count && status == PROPANE_OK; i++) {
        const propane_io *io = &e->program->outputs[i];
        if (io->rank == 0)
            memcpy(e->outputs[i]->memory, outputs[i], mil_dtype_get(p->function->results[i]->type.dtype)->bits / 8u);
        else
            sim_driver_copy_rows(io, (void *)(uintptr_t)outputs[i], e->outputs[i]->memory, false);
    }
    fork_mutex_unlock(&d->mutex);
    out->device_ns = (int64_t)(p->ms * 1e6);
    out->energy_j = p->energy_mj * 1e-3;
    out->simulated = true;
    out->status = status;
    return status;
}

const propane_driver sim_driver = {
    .name = "sim",
    .summary = "sim:CHIP simulates a Neural Engine: its rules and rounding, with time and energy from a model; "
               "sim:m1?level=registers is the device registers",
    .other = sim_other,
    .open = sim_open,
    .close = sim_close,
    .describe = sim_describe,
    .supports = sim_supports,
    .refusing_rule = chip_refusing_rule,
    .compile = sim_compile,
    .program_free = sim_program_free,
    .buffer_create = sim_buffer_create,
    .buffer_free = sim_buffer_free,
    .request_prepare = sim_request_prepare,
    .execute = sim_execute,
};
