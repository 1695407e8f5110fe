/* SPDX-License-Identifier: MIT
 * Convolution, pooling, resizing, recurrent layers and slice_update at sizes that the shared cases do not reach:
 * several panels, several blocks of k, shared columns, groups, lines longer than the lanes. Compared with the slow
 * reference.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/plan/plan.h"
#include "support/op_cases.h"
#include "support/test.h"

typedef struct window_case {
    mil_opcode code;
    const char *line;
} window_case;

static const window_case windows[] = {
    {MIL_OP_conv, "x=[1,16,7,7] weight=[40,16,3,3]! bias=[40]! pad_type=same"},
    {MIL_OP_conv, "x=[1,16,7,7] weight=[40,16,3,3] bias=[40] pad_type=same"},
    {MIL_OP_conv, "x=[2,8,9,9] weight=[56,4,3,3]! groups=2 pad_type=custom pad=[1,0,2,1]"},
    {MIL_OP_conv, "x=[1,64,5,9] weight=[20,64,3,3]! strides=[2,2] pad_type=same_lower"},
    {MIL_OP_conv, "x=[1,3,33,35] weight=[13,3,7,7]! strides=[2,2] pad_type=custom pad=[3,3,3,3] bias=[13]!"},
    {MIL_OP_conv, "x=[1,24,4,4] weight=[30,24,1,1]! strides=[2,2]"},
    {MIL_OP_conv, "x=[1,6,70] weight=[9,6,5]! dilations=[3] strides=[2]"},
    {MIL_OP_conv, "x=[1,4,5,6,40] weight=[14,2,2,3,3]! groups=2 strides=[1,2,1] pad_type=same"},
    {MIL_OP_conv, "x=[1,130,6,6] weight=[12,130,3,3]! pad_type=same"},
    {MIL_OP_conv, "x=[2,5,20,37] weight=[5,1,3,3]! groups=5 pad_type=same bias=[5]!"},
    {MIL_OP_conv, "x=[1,4,21,38] weight=[8,1,5,5] groups=4 strides=[2,2] pad_type=custom pad=[2,2,2,2] bias=[8]"},
    {MIL_OP_conv, "x=[1,3,9,40] weight=[3,1,3,3]! groups=3 dilations=[2,3] strides=[1,3]"},
    {MIL_OP_conv_transpose, "x=[1,16,9,7] weight=[16,12,2,2]! strides=[2,2] bias=[12]"},
    {MIL_OP_conv_transpose,
     "x=[1,8,9,7] weight=[8,6,3,3]! groups=2 strides=[2,2] pad_type=custom pad=[1,1,1,1] output_shape=[1,12,18,14]"},
    {MIL_OP_conv_transpose, "x=[2,6,40] weight=[6,5,4] strides=[2] pad_type=same"},
    {MIL_OP_max_pool, "x=[2,3,20,37]~any kernel_sizes=[3,3] strides=[2,2] pad_type=custom pad=[1,1,1,1]"},
    {MIL_OP_max_pool, "x=[1,2,50] kernel_sizes=[5] strides=[3] pad_type=same"},
    {MIL_OP_avg_pool, "x=[1,3,20,37] kernel_sizes=[3,4] strides=[2,1] pad_type=same exclude_padding_from_average=true"},
    {MIL_OP_avg_pool,
     "x=[1,2,6,7,36] kernel_sizes=[2,3,3] strides=[2,2,2] pad_type=custom pad=[1,1,1,1,1,1] ceil_mode=true"},
    {MIL_OP_l2_pool, "x=[1,2,19,35] kernel_sizes=[2,2] pad_type=valid"},
    {MIL_OP_resize_bilinear, "x=[1,3,20,37] target_size_height=33 target_size_width=50 sampling_mode=UNALIGN_CORNERS"},
    {MIL_OP_resize_bilinear, "x=[2,3,20,37] target_size_height=7 target_size_width=12 sampling_mode=OFFSET_CORNERS"},
    {MIL_OP_resize_nearest_neighbor, "x=[1,3,20,37] target_size_height=41 target_size_width=74"},
    {MIL_OP_resize_nearest_neighbor, "x=[1,3,21,38] target_size_height=14 target_size_width=19"},
    {MIL_OP_upsample_nearest_neighbor, "x=[1,3,5,2] scale_factor_height=int32(2) scale_factor_width=int32(49)"},
    {MIL_OP_lstm,
     "x=[7,3,20] initial_h=[3,34] initial_c=[3,34] weight_ih=[68,20]~unit! weight_hh=[68,17]~unit! bias=[68]! "
     "weight_ih_back=[68,20]~unit! weight_hh_back=[68,17]~unit! bias_back=[68]! direction=bidirectional "
     "output_sequence=true"},
    {MIL_OP_gru,
     "x=[6,2,20] initial_h=[2,33] weight_ih=[99,20]~unit weight_hh=[99,33]~unit bias=[99] output_sequence=true"},
    {MIL_OP_gru,
     "x=[6,1,20] initial_h=[1,33] weight_ih=[99,20]~unit! weight_hh=[99,33]~unit! bias=[99]! input_bias=[99]! "
     "reset_after=true"},
    {MIL_OP_slice_update, "x=[2,4,64,8] update=[2,4,3,8] begin=[4]~=0,0,17,0 end=[4]~=2,4,20,8"},
    {MIL_OP_slice_update, "x=[3,40,7] update=[2,9,7] begin=[3]~=1,2,0 end=[3]~=3,29,7 stride=[1,3,1]"},
    {MIL_OP_pixel_shuffle, "x=[1,36,10,11] upscale_factor=3"},
};

/* Observed: 1.2e-6 of the largest element in plain C, 5.8e-7 elsewhere (sums of up to 1170 products), 3.7e-4 in fp16,
 * which rounds a result once. */
static double bound_of(mil_dtype dtype) { return dtype == MIL_fp16 ? 1e-3 : 1e-5; }

static void check(const window_case *w, mil_dtype dtype, cpu_isa isa, double *worst) {
    const cpu_plan_options options = {.kernels = cpu_kernels_of(isa), .guard = true, .fuse = true};
    propane_error err = {0};
    op_case *c = op_case_make(w->code, dtype, w->line, 3, &err);
    if (!c) ck_abort_msg("%s: %s", w->line, err.text);
    arena *a = arena_create();
    cpu_program *program = NULL;
    mil_tensor *want = NULL;
    void *inputs[OP_CASE_INPUTS] = {0}, *outputs[4] = {0};
    if (cpu_plan_compile(c->function, &options, a, &program, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    program->poison = true;
    EXPECT_OK(cpu_program_memory_check(program, &err));
    for (int i = 0; i < c->input_count; i++) {
        inputs[i] = mem_alloc(program->inputs[i].bytes + 1);
        mil_pack_f64(inputs[i], c->inputs[i].type.dtype, c->inputs[i].data, mil_type_count(&c->inputs[i].type));
    }
    for (int i = 0; i < program->output_count; i++) outputs[i] = mem_alloc(program->outputs[i].bytes + 1);
    void *block = mem_pages_alloc((size_t)program->block_bytes + 64);
    if (cpu_program_run(program, block, inputs, outputs, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    if (mil_eval_function(c->function, c->inputs, false, a, &want, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    for (int r = 0; r < program->output_count; r++) {
        const int64_t count = mil_type_count(&want[r].type);
        double *have = mem_array((size_t)count, sizeof *have), largest = 1;
        mil_unpack_f64(have, want[r].type.dtype, outputs[r], count);
        for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(want[r].data[i]));
        for (int64_t i = 0; i < count; i++) {
            const double error = fabs(have[i] - want[r].data[i]) / largest;
            EXPECT_MSG(error <= bound_of(dtype), "%s %s: result %d element %lld is %g, not %g", cpu_isa_name(isa),
                       c->label, r, (long long)i, have[i], want[r].data[i]);
            *worst = fmax(*worst, error);
        }
        mem_free(have);
        mem_free(outputs[r]);
    }
    for (int i = 0; i < c->input_count; i++) mem_free(inputs[i]);
    mem_pages_free(block, (size_t)program->block_bytes + 64);
    cpu_program_deinit(program);
    arena_free(a);
    op_case_free(c);
}

static void check_all(cpu_isa isa) {
    double worst[2] = {0};
    for (size_t k = 0; k < sizeof windows / sizeof windows[0]; k++) {
        check(&windows[k], MIL_fp32, isa, &worst[0]);
        check(&windows[k], MIL_fp16, isa, &worst[1]);
    }
    printf("  %s: largest error %.1e, in fp16 %.1e\n", cpu_isa_name(isa), worst[0], worst[1]);
}

TEST(kernels_agree_with_the_meanings) {
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_isa_available((cpu_isa)isa)) check_all((cpu_isa)isa);
}

SUITE("cpu/windows", T(kernels_agree_with_the_meanings))
