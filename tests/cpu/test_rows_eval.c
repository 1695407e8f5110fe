/* SPDX-License-Identifier: MIT
 * Every case of every row, planned and run, against the slow reference of its row in double. Results of fp16 programs
 * are compared after rounding to fp16; they may differ by one unit in the last place if the kernel's fp32 sum is close
 * to a tie. For sums, the bound grows with the square root of their length, as their error does.
 *
 * The worst observed error is noted next to the bound; PROPANE_ROWS_VERBOSE=1 prints it for each row.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/plan/plan.h"
#include "support/op_cases.h"
#include "support/test.h"

typedef struct sweep {
    cpu_plan_options options;
    bool keep; /* stores the outputs of the first sweep and compares those of the next ones */
    unsigned char *bits;
    size_t used, capacity;
    bool compare;
    double worst[MIL_OP_COUNT][2]; /* in units of the bound: fp32, fp16 */
    int cases[MIL_OP_COUNT], reference[MIL_OP_COUNT];
} sweep;

/* Returns the length of the longest sum behind an element of the result. */
static double reach(const op_case *c) {
    mil_cost cost;
    mil_op_cost(c->op, &cost);
    double out = 1, in = 1;
    for (int r = 0; r < c->op->result_count; r++) out += (double)mil_type_count(&c->op->results[r]->type);
    for (int i = 0; i < c->input_count; i++) in += (double)mil_type_count(&c->inputs[i].type);
    double flops = cost.flops / out;
    return flops > in / out ? flops : in / out;
}

static void check_bits(sweep *s, const op_case *c, const void *data, size_t bytes) {
    if (s->compare) {
        EXPECT_MSG(s->used + bytes <= s->capacity && !memcmp(s->bits + s->used, data, bytes),
                   "%s: another number of threads gives other bits", c->label);
    } else {
        while (s->used + bytes > s->capacity) {
            s->capacity = s->capacity ? 2 * s->capacity : 1 << 20;
            s->bits = mem_resize(s->bits, s->capacity);
            EXPECT(s->bits != NULL);
        }
        memcpy(s->bits + s->used, data, bytes);
    }
    s->used += bytes;
}

/* True for a result that is rounded once from an exact quotient, so that there is no tolerance. */
static bool is_exact(mil_opcode code) { return code == MIL_OP_floor_div || code == MIL_OP_mod; }

static void compare(sweep *s, const op_case *c, const mil_type *type, const double *want, const void *have) {
    int64_t count = mil_type_count(type);
    double *got = mem_array((size_t)count + 1, sizeof *got), scale = 0;
    EXPECT(got != NULL);
    mil_unpack_f64(got, type->dtype, have, count);
    for (int64_t i = 0; i < count; i++)
        if (fabs(want[i]) > scale && isfinite(want[i])) scale = fabs(want[i]);
    bool half = type->dtype == MIL_fp16, real = mil_dtype_is_float(type->dtype);
    double length = sqrt(reach(c)), unit = half ? 0x1p-11 : FLT_EPSILON / 2;
    for (int64_t i = 0; i < count; i++) {
        double w = want[i], g = got[i];
        if (real) w = mil_round(type->dtype, w);
        if (w == g || (isnan(w) && isnan(g))) continue;
        EXPECT_MSG(real && !is_exact(c->code), "%s: element %lld is %g, not %g", c->label, (long long)i, g, w);
        /* Relative to the element, plus the largest element's rounding error for sums that cancel. */
        double bound = unit * (2 * fabs(want[i]) + (half ? 0.02 : 1) * length * (scale < 1 ? 1 : scale)) +
                       (half ? 0x1p-24 : 0x1p-149);
        double error = fabs(g - want[i]) / bound;
        if (error > s->worst[c->code][half]) s->worst[c->code][half] = error;
        EXPECT_MSG(error <= 3, /* observed 1.54, for a reduce_sum that cancels; everything else is below 0.65 */
                   "%s: element %lld is %.9g, not %.9g (%.1f bounds)", c->label, (long long)i, g, want[i], error);
    }
    mem_free(got);
}

/* Only constants have elements of less than a byte: the driver has no such outputs. */
static bool has_packed_result(const op_case *c) {
    for (int r = 0; r < c->function->result_count; r++)
        if (mil_dtype_get(c->function->results[r]->type.dtype)->bits < 8) return true;
    return false;
}

static void run_case(const op_case *c, void *context) {
    sweep *s = context;
    if (has_packed_result(c)) return;
    propane_error err = {0};
    arena *a = arena_create();
    cpu_program *program = NULL;
    mil_tensor *want = NULL;
    void *inputs[OP_CASE_INPUTS] = {0}, **outputs = mem_array(MIL_MAX_RESULTS, sizeof *outputs);
    EXPECT(a && outputs);
    if (cpu_plan_compile(c->function, &s->options, a, &program, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    program->poison = true;
    s->cases[c->code]++;
    s->reference[c->code] += program->reference_count > 0;
    if (cpu_program_memory_check(program, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    for (int i = 0; i < c->input_count; i++) {
        inputs[i] = mem_alloc(program->inputs[i].bytes + 1);
        mil_pack_f64(inputs[i], c->inputs[i].type.dtype, c->inputs[i].data, mil_type_count(&c->inputs[i].type));
    }
    for (int i = 0; i < program->output_count; i++) outputs[i] = mem_alloc(program->outputs[i].bytes + 1);
    void *block = mem_pages_alloc((size_t)program->block_bytes + 64);
    if (cpu_program_run(program, block, inputs, outputs, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    if (mil_eval_function(c->function, c->inputs, false, a, &want, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    for (int r = 0; r < program->output_count; r++) {
        const mil_type *type = &c->function->results[r]->type;
        compare(s, c, type, want[r].data, outputs[r]);
        if (s->keep) check_bits(s, c, outputs[r], program->outputs[r].bytes);
        mem_free(outputs[r]);
    }
    for (int i = 0; i < c->input_count; i++) mem_free(inputs[i]);
    mem_pages_free(block, (size_t)program->block_bytes + 64);
    mem_free(outputs);
    cpu_program_deinit(program);
    arena_free(a);
}

static sweep *sweep_create(cpu_isa isa) {
    sweep *s = mem_alloc(sizeof *s);
    EXPECT(s != NULL);
    s->options = (cpu_plan_options){.kernels = cpu_kernels_of(isa), .guard = true, .fuse = true};
    return s;
}

static void report(const sweep *s) {
    int reference = 0, missing = 0;
    for (int op = 0; op < MIL_OP_COUNT; op++) {
        const char *name = mil_op_get((mil_opcode)op)->name;
        reference += s->reference[op] == s->cases[op] && s->cases[op];
        if (!s->cases[op]) {
            printf("  without a case: %s\n", name);
            missing++;
        }
        if (getenv("PROPANE_ROWS_VERBOSE"))
            printf("  %-28s %4d cases, %4d through the reference, worst fp32 %.2f fp16 %.2f\n", name, s->cases[op],
                   s->reference[op], s->worst[op][0], s->worst[op][1]);
    }
    printf("  %d rows, %d without a case, %d run through the reference alone\n", MIL_OP_COUNT, missing, reference);
}

TEST(every_row_in_plain_c) {
    sweep *s = sweep_create(CPU_ISA_PLAIN);
    op_cases_each(OP_CASES_ALL, 1, run_case, s);
    report(s);
    mem_free(s);
}

TEST(every_row_with_the_best_instructions) {
    sweep *s = sweep_create(cpu_isa_best());
    printf("  %s\n", cpu_isa_name(s->options.kernels->isa));
    op_cases_each(OP_CASES_ALL, 2, run_case, s);
    report(s);
    mem_free(s);
}

TEST(bits_do_not_depend_on_threads) {
    propane_error err = {0};
    sweep *s = sweep_create(cpu_isa_best());
    s->keep = true;
    for (int threads = 1; threads <= 3; threads++) {
        pool_stop();
        EXPECT_OK(pool_set_threads(threads, &err));
        s->compare = threads > 1;
        s->used = 0;
        op_cases_each(OP_CASES_ALL, 3, run_case, s);
    }
    mem_free(s->bits);
    mem_free(s);
}

SUITE("cpu/rows_eval", T(every_row_in_plain_c), T(every_row_with_the_best_instructions),
      T(bits_do_not_depend_on_threads))
