/* SPDX-License-Identifier: MIT
 * The cpu driver. It plans a function once (plan/plan.h) and runs the plan on the process's pool. All programs of a
 * device share one block of memory for values between inputs and outputs, because a device runs one program at a time.
 * The block grows when a program that needs more is compiled, never during a run.
 *
 * A function that it cannot run is refused at compile time, and the error names the operation. The option `threads`
 * limits the number of threads that run at once. If it is 1, the whole program runs on the calling thread.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/fork.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "cpu/blas.h"
#include "cpu/gemm/gemm_choice.h"
#include "cpu/plan/plan.h"
#include "cpu/profile.h"
#include "cpu/simd/kernels.h"

extern const propane_driver cpu_driver;

typedef struct cpu_device {
    const cpu_kernels *kernels;
    const cpu_blas *blas; /* for large products; NULL if none */
    fork_mutex mutex;     /* guards the block: a compile must not replace it during a run */
    void *block;
    size_t block_bytes;
} cpu_device;

static propane_status cpu_probe(propane_error *why) {
    cpu_isa isa;
    return cpu_isa_current(&isa, why);
}

static propane_status cpu_open(const char *rest, void **impl, propane_error *err) {
    cpu_isa isa;
    if (*rest)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "device cpu: it has no options, but its name is followed by '%.40s'", rest);
    const cpu_blas *blas = NULL;
    PROPANE_TRY(cpu_isa_current(&isa, err));
    PROPANE_TRY(cpu_blas_current(&blas, err));
    cpu_device *d = mem_alloc(sizeof *d);
    if (!d) return propane_fail_memory(err, sizeof *d);
    d->kernels = cpu_kernels_of(isa);
    d->blas = blas;
    if (fork_mutex_init(&d->mutex)) {
        mem_free(d);
        return propane_fail(err, PROPANE_ERR_DEVICE, "the system cannot create a lock");
    }
    *impl = d;
    return PROPANE_OK;
}

static void cpu_close(void *impl) {
    cpu_device *d = impl;
    if (!d) return;
    mem_pages_free(d->block, d->block_bytes);
    fork_mutex_destroy(&d->mutex);
    mem_free(d);
}

static void cpu_describe(const void *impl, propane_device_info *out) {
    out->compile_limit = 0;
    out->simulated = false;
}

static cpu_plan_options cpu_driver_options_of(const cpu_device *d, const propane_compile_options *options) {
    return (cpu_plan_options){.kernels = d->kernels,
                              .blas = d->blas,
                              .threads = options ? options->threads : 0,
                              .bf16 = options && options->precision == PROPANE_PRECISION_BF16,
                              .fuse = true};
}

/* Checks whether a function can be planned, and therefore run. */
static propane_status cpu_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                   propane_error *why) {
    const cpu_plan_options o = cpu_driver_options_of(impl, options);
    return cpu_plan_check(f, &o, why);
}

static propane_status cpu_driver_grow_block(cpu_device *d, size_t bytes, propane_error *err) {
    propane_status status = PROPANE_OK;
    fork_mutex_lock(&d->mutex);
    if (bytes > d->block_bytes) {
        void *block = mem_pages_alloc(bytes);
        if (block) {
            mem_pages_free(d->block, d->block_bytes);
            d->block = block;
            d->block_bytes = bytes;
        } else {
            status = propane_fail_memory(err, bytes);
        }
    }
    fork_mutex_unlock(&d->mutex);
    return status;
}

static propane_status cpu_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                  driver_program *out, propane_error *err) {
    cpu_program *program = NULL;
    cpu_plan_options o = cpu_driver_options_of(impl, options);
    PROPANE_TRY(cpu_plan_compile(f, &o, out->arena, &program, err));
    out->impl = program;
    out->input_count = program->input_count;
    out->output_count = program->output_count;
    out->inputs = program->inputs;
    out->outputs = program->outputs;
    out->shares = program->shares;
    out->share_count = program->share_count;
    propane_status status = cpu_driver_grow_block(impl, (size_t)program->block_bytes, err);
    if (status != PROPANE_OK) cpu_program_deinit(program);
    return status;
}

static void cpu_program_free(void *impl, driver_program *program) {
    cpu_program_deinit(program->impl);
    program->impl = NULL;
}

enum { SMALL_BUFFER = 2048, BUFFER_ALIGNMENT = 64 };

/* A small buffer does not get pages of its own, because a session that keeps all values of a large program has 100,000
 * small buffers. */
static propane_status cpu_buffer_create(void *impl, size_t bytes, driver_buffer *out, propane_error *err) {
    const bool small = bytes <= SMALL_BUFFER;
    out->impl = small ? mem_alloc(bytes + BUFFER_ALIGNMENT - 1) : NULL;
    const uintptr_t at = ((uintptr_t)out->impl + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
    out->memory = small ? (void *)at : mem_pages_alloc(bytes);
    return out->memory ? PROPANE_OK : propane_fail_memory(err, bytes);
}

static void cpu_buffer_free(void *impl, driver_buffer *buffer) {
    if (buffer->memory && !buffer->impl) mem_pages_free(buffer->memory, buffer->bytes);
    mem_free(buffer->impl);
    buffer->memory = buffer->impl = NULL;
}

static propane_status cpu_execute(void *impl, const driver_execution *e, propane_completion *out, propane_error *err) {
    cpu_device *d = impl;
    cpu_program *program = e->program->impl;
    fork_mutex_lock(&d->mutex);
    int64_t start = clock_ns();
    for (int i = 0; i < program->input_count; i++) program->in[i] = e->inputs[i]->memory;
    for (int i = 0; i < program->output_count; i++) program->out[i] = e->outputs[i]->memory;
    propane_status status = cpu_program_run(program, d->block, program->in, program->out, err);
    out->device_ns = clock_ns() - start;
    out->energy_j = -1;
    out->simulated = false;
    out->status = status;
    fork_mutex_unlock(&d->mutex);
    return status;
}

static void cpu_profile_switch(driver_program *program, bool on) {
    cpu_profile_enable(program, on);
    if (on) cpu_profile_reset(program);
}

static void cpu_profile_row_of(const driver_program *program, int step, propane_profile_row *out) {
    cpu_profile_row r;
    cpu_profile_get(program, step, &r);
    *out = (propane_profile_row){sizeof *out, r.kind, r.name, r.stage, r.flops, r.bytes, r.runs, r.ns, -1};
}

/* Describes a matrix of fp32 numbers that is stored by rows or, if `turned`, by columns. */
static cpu_matrix cpu_driver_matrix(int64_t rows, int64_t columns, bool turned) {
    return (cpu_matrix){.dtype = CPU_F32, .row_stride = turned ? 1 : columns, .col_stride = turned ? rows : 1};
}

/* Measures the products of a linear layer y[rows, positions] = w[rows, columns] x[columns, positions] in a training
 * step, in the layouts of plan layer. */
static void cpu_time_products(void *impl, int64_t rows, int64_t columns, int64_t positions,
                              propane_product_times *out) {
    const cpu_device *d = impl;
    const struct {
        int64_t m, n, k;
        bool turn_a, turn_b;
    } products[] = {{rows, positions, columns, false, false}, /* y = w x */
                    {columns, positions, rows, true, false},  /* dx = w^T dy */
                    {rows, columns, positions, false, true}}; /* dw = dy x^T */
    cpu_gemm_types sum = {.agreed = true};
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        const int64_t m = products[i].m, n = products[i].n, k = products[i].k;
        const cpu_gemm g = {.kernels = d->kernels,
                            .m = m,
                            .n = n,
                            .k = k,
                            .batch = 1,
                            .alpha = 1,
                            .a = cpu_driver_matrix(m, k, products[i].turn_a),
                            .b = cpu_driver_matrix(k, n, products[i].turn_b),
                            .c = cpu_driver_matrix(m, n, false)};
        cpu_gemm_compare_bf16(d->blas, &g, &sum);
    }
    out->fp32_ms = (double)sum.fp32_ns / 1e6, out->bf16_ms = (double)sum.bf16_ns / 1e6;
    out->reproduced = sum.agreed;
    out->bf16_pays = sum.agreed && out->bf16_ms < cpu_gemm_choice_margin * out->fp32_ms;
    out->bf16_costs = sum.agreed && out->fp32_ms < cpu_gemm_choice_margin * out->bf16_ms;
}

const propane_driver cpu_driver = {
    .name = "cpu",
    .summary = "this machine's processor, with vector kernels and a thread pool",
    .host_memory = true,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .supports = cpu_supports,
    .compile = cpu_compile,
    .program_free = cpu_program_free,
    .buffer_create = cpu_buffer_create,
    .buffer_free = cpu_buffer_free,
    .execute = cpu_execute,
    .profile = cpu_profile_switch,
    .profile_count = cpu_profile_count,
    .profile_row = cpu_profile_row_of,
    .profile_fusion = cpu_profile_fusion,
    .time_products = cpu_time_products,
};
