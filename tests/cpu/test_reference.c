/* SPDX-License-Identifier: MIT
 * The cpu driver against results of PyTorch, numpy and Python: every operation, and whole programs with conditions,
 * loops, lists and states, as a user runs them.
 */
#include <float.h>
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/plan/plan.h"
#include "support/reference.h"
#include "support/test.h"

typedef struct tally {
    double worst[2];       /* fp32, fp16; in units of the bound */
    int left_out, control; /* control: programs with blocks or lists */
} tally;

/* One rounding to the type, after fp32 arithmetic: relative to the largest element, for sums that cancel. */
static void compare(const reference_case *c, const mil_type *type, const mil_tensor *want, const void *have, tally *t) {
    const int64_t count = mil_type_count(&want->type);
    const bool half = type->dtype == MIL_fp16;
    double *got = mem_array((size_t)count + 1, sizeof *got), scale = 1;
    EXPECT(got != NULL);
    mil_unpack_f64(got, type->dtype, have, count);
    for (int64_t i = 0; i < count; i++)
        if (isfinite(want->data[i])) scale = fmax(scale, fabs(want->data[i]));
    const double bound = scale * ((half ? 0x1p-11 : 0) + 16 * FLT_EPSILON);
    for (int64_t i = 0; i < count; i++) {
        const double x = got[i],
                     y = mil_dtype_is_float(type->dtype) ? mil_round(type->dtype, want->data[i]) : want->data[i];
        if (x == y || (isnan(x) && isnan(y))) continue;
        const double error = fabs(x - y) / bound;
        EXPECT_MSG(mil_dtype_is_float(type->dtype) && error <= 1, "%s: element %lld is %.9g, not %.9g", c->label,
                   (long long)i, x, y);
        t->worst[half] = fmax(t->worst[half], error);
    }
    mem_free(got);
}

static void check(const reference_case *c, void *context) {
    tally *t = context;
    propane_error err = {0};
    arena *a = arena_create();
    cpu_program *program = NULL;
    void *inputs[REFERENCE_VALUES] = {0}, *outputs[REFERENCE_VALUES] = {0};
    bool state = false, packed = false;
    for (int i = 0; i < c->function->param_count; i++) state |= c->function->params[i]->type.container == MIL_STATE;
    for (int r = 0; r < c->function->result_count; r++)
        packed |= mil_dtype_get(c->function->results[r]->type.dtype)->bits < 8;
    if (state || packed || c->is_distribution) { /* a pass handles states; tests/ops tests distributions */
        t->left_out++;
        arena_free(a);
        return;
    }
    const cpu_plan_options options = {.kernels = cpu_kernels_of(cpu_isa_best()), .guard = true, .fuse = true};
    if (cpu_plan_compile(c->function, &options, a, &program, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    if (cpu_program_memory_check(program, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    program->poison = true;
    if (mil_op_blocks(mil_op_get(c->rows[0])) || c->rows[0] == MIL_OP_make_list) {
        int by_reference = program->reference_count;
        for (const cpu_program *in = program->inside; in; in = in->outside) by_reference += in->reference_count;
        EXPECT_MSG(by_reference == 0, "%s: %d steps go through the slow reference", c->label, by_reference);
        t->control++;
    }
    for (int i = 0; i < program->input_count; i++) {
        inputs[i] = mem_alloc(program->inputs[i].bytes + 1);
        mil_pack_f64(inputs[i], c->inputs[i].type.dtype, c->inputs[i].data, mil_type_count(&c->inputs[i].type));
    }
    for (int i = 0; i < program->output_count; i++) outputs[i] = mem_alloc(program->outputs[i].bytes + 1);
    void *block = mem_pages_alloc((size_t)program->block_bytes + 64);
    if (cpu_program_run(program, block, inputs, outputs, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    for (int r = 0; r < program->output_count; r++)
        compare(c, &c->function->results[r]->type, &c->want[r], outputs[r], t);
    for (int i = 0; i < REFERENCE_VALUES; i++) {
        mem_free(inputs[i]);
        mem_free(outputs[i]);
    }
    mem_pages_free(block, (size_t)program->block_bytes + 64);
    cpu_program_deinit(program);
    arena_free(a);
}

TEST(kernels_agree_with_other_frameworks) {
    static tally t;
    const int cases = reference_each(check, &t);
    EXPECT_MSG(t.control >= 20, "%d programs with blocks or lists", t.control);
    printf("  %d cases, %d left out, worst of the bound: fp32 %.2f, fp16 %.2f\n", cases, t.left_out, t.worst[0],
           t.worst[1]);
}

SUITE("cpu/reference", T(kernels_agree_with_other_frameworks))
