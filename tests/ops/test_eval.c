/* SPDX-License-Identifier: MIT
 * The reference evaluation against values worked out by hand, and against closed forms written differently.
 * test_reference shows that it agrees with other frameworks.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "support/op_cases.h"
#include "support/test.h"

/* ---- by hand -------------------------------------------------------------------------------------------------------- */

typedef struct known {
    mil_opcode code;
    mil_dtype dtype;
    const char *line;
    double want[16]; /* the concatenated results */
} known;

static const known by_hand[] = {
    {MIL_OP_add, MIL_fp32, "x=[2,1]~=1,10 y=[2]~=1,2", {2, 3, 11, 12}},
    {MIL_OP_real_div, MIL_int32, "x=[4]~=7,-7,6,1 y=[4]~=2,2,3,-2", {3, -3, 2, 0}},
    {MIL_OP_floor_div, MIL_fp32, "x=[4]~=7,-7,7,-7 y=[4]~=2,2,-2,-2", {3, -4, -4, 3}},
    {MIL_OP_floor_div, MIL_int32, "x=[4]~=7,-7,7,-6 y=[4]~=2,2,-2,-2", {3, -4, -4, 3}},
    {MIL_OP_mod, MIL_fp32, "x=[6]~=7,-7,7,-7,6,-6 y=[6]~=3,3,-3,-3,3,3", {1, 2, -2, -1, 0, 0}},
    {MIL_OP_pow, MIL_int32, "x=[3]~=2,-3,5 y=[3]~=10,3,0", {1024, -27, 1}},
    {MIL_OP_less_equal, MIL_fp32, "x=[3]~=1,2,3 y=[3]~=2,2,2", {1, 1, 0}},
    {MIL_OP_logical_xor, MIL_fp32, "x=[4]~=0,0,1,1 y=[4]~=0,1,0,1", {0, 1, 1, 0}},
    {MIL_OP_select, MIL_fp32, "cond=[2]~=1,0 a=[2,1]~=1,2 b=[]~=9", {1, 9, 2, 9}},
    {MIL_OP_round, MIL_fp32, "x=[8]~=0.5,1.5,2.5,-0.5,-1.5,-2.5,2.4,-2.6", {0, 2, 2, 0, -2, -2, 2, -3}},
    {MIL_OP_sign, MIL_fp32, "x=[3]~=-2,0,5", {-1, 0, 1}},
    {MIL_OP_inverse, MIL_fp32, "x=[2]~=3,-1 epsilon=1", {0.25, INFINITY}},
    {MIL_OP_clip, MIL_fp32, "x=[3]~=-3,0.5,9 alpha=-1 beta=6", {-1, 0.5, 6}},
    {MIL_OP_leaky_relu, MIL_fp32, "x=[2]~=-2,3 alpha=0.5", {-1, 3}},
    {MIL_OP_relu6, MIL_fp32, "x=[3]~=-1,3,7", {0, 3, 6}},
    {MIL_OP_sigmoid_hard, MIL_fp32, "x=[3]~=-4,1,4 alpha=0.25 beta=0.5", {0, 0.75, 1}},
    {MIL_OP_softsign, MIL_fp32, "x=[2]~=-1,3", {-0.5, 0.75}},
    {MIL_OP_cast, MIL_fp32, "x=[5]~=-1.9,1.9,300,-300,0.5 dtype=int8", {-1, 1, 127, -128, 0}},
    {MIL_OP_cast, MIL_fp32, "x=[3]~=-1,0,0.25 dtype=bool", {1, 0, 1}},
    {MIL_OP_cast, MIL_fp32, "x=[3]~=-1.5,70000,2.99 dtype=uint16", {0, 65535, 2}},
    {MIL_OP_reduce_sum, MIL_fp32, "x=[2,3]~=1,2,3,4,5,6 axes=[0]", {5, 7, 9}},
    {MIL_OP_reduce_mean, MIL_int32, "x=[2,2]~=1,2,-1,-2 axes=[1]", {1, -1}},
    {MIL_OP_reduce_prod, MIL_fp32, "x=[2,2]~=1,2,3,4", {24}},
    {MIL_OP_reduce_l1_norm, MIL_fp32, "x=[3]~=-1,2,-3", {6}},
    {MIL_OP_reduce_l2_norm, MIL_fp32, "x=[2]~=3,-4 keep_dims=true", {5}},
    {MIL_OP_reduce_log_sum_exp, MIL_fp32, "x=[1,1]~=1000 axes=[1]", {1000}},
    {MIL_OP_reduce_argmax, MIL_fp32, "x=[2,3]~=1,3,3,9,2,1", {1, 0}},
    {MIL_OP_reduce_argmin, MIL_fp32, "x=[2,3]~=1,3,3,9,2,1 axis=0", {0, 1, 1}},
    {MIL_OP_cumsum, MIL_fp32, "x=[4]~=1,2,3,4", {1, 3, 6, 10}},
    {MIL_OP_cumsum, MIL_fp32, "x=[4]~=1,2,3,4 exclusive=true", {0, 1, 3, 6}},
    {MIL_OP_cumsum, MIL_fp32, "x=[4]~=1,2,3,4 reverse=true", {10, 9, 7, 4}},
    {MIL_OP_cumsum, MIL_fp32, "x=[4]~=1,2,3,4 reverse=true exclusive=true", {9, 7, 4, 0}},
    {MIL_OP_softmax, MIL_fp32, "x=[2,2]~=1000,1000,-1000,-1000", {0.5, 0.5, 0.5, 0.5}},
    {MIL_OP_softmax, MIL_fp32, "x=[2,2]~=0,5,0,5 axis=0", {0.5, 0.5, 0.5, 0.5}},
    {MIL_OP_layer_norm, MIL_fp32, "x=[2]~=1,3 gamma=[2]~=1,2 beta=[2]~=0,10 epsilon=3", {-0.5, 11}},
    {MIL_OP_l2_norm, MIL_fp32, "x=[1,1,2]~=2,1 epsilon=4", {2.0 / 3, 1.0 / 3}},
    {MIL_OP_matmul, MIL_fp32, "x=[2,2]~=1,2,3,4 y=[2,2]~=5,6,7,8", {19, 22, 43, 50}},
    {MIL_OP_matmul, MIL_fp32, "x=[2,2]~=1,2,3,4 y=[2,2]~=5,6,7,8 transpose_x=true transpose_y=true", {23, 31, 34, 46}},
    {MIL_OP_matmul, MIL_fp32, "x=[2]~=1,2 y=[2,2,1]~=1,2,3,4", {5, 11}},
    {MIL_OP_linear, MIL_fp32, "x=[2]~=1,2 weight=[2,2]~=1,2,3,4 bias=[2]~=10,20", {15, 31}},
    {MIL_OP_conv, MIL_fp32, "x=[1,1,4]~=1,2,3,4 weight=[1,1,2]~=1,10", {21, 32, 43}},
    {MIL_OP_conv, MIL_fp32, "x=[1,1,4]~=1,2,3,4 weight=[1,1,2]~=1,10 pad_type=same", {21, 32, 43, 4}},
    {MIL_OP_conv, MIL_fp32, "x=[1,1,4]~=1,2,3,4 weight=[1,1,2]~=1,10 pad_type=same_lower", {10, 21, 32, 43}},
    {MIL_OP_conv, MIL_fp32, "x=[1,1,5]~=1,2,3,4,5 weight=[1,1,2]~=1,10 dilations=[2] strides=[2]", {31, 53}},
    {MIL_OP_conv, MIL_fp32, "x=[1,2,2]~=1,2,3,4 weight=[2,1,1]~=10,100 groups=2 bias=[2]~=0,1", {10, 20, 301, 401}},
    {MIL_OP_einsum, MIL_fp32, "values=[2,2]~=1,2,3,4 equation=ii->", {5}},
    {MIL_OP_einsum, MIL_fp32, "values=[2]~=1,2|[2]~=3,4 equation=i,j->ji", {3, 6, 4, 8}},
    {MIL_OP_scaled_dot_product_attention,
     MIL_fp32,
     "query=[1,1,4]~=0,0,0,0 key=[1,2,4] value=[1,2,1]~=1,3 attn_mask=bool[2]~=1,1",
     {2}},
    {MIL_OP_scaled_dot_product_attention,
     MIL_fp32,
     "query=[1,1,4]~=0,0,0,0 key=[1,2,4] value=[1,2,1]~=1,3 attn_mask=bool[2]~=0,1",
     {3}},
    {MIL_OP_transpose, MIL_fp32, "x=[2,3]~=1,2,3,4,5,6 perm=[1,0]", {1, 4, 2, 5, 3, 6}},
    {MIL_OP_slice_by_index, MIL_fp32, "x=[6]~=0,1,2,3,4,5 begin=[-1] end=[0] stride=[-2]", {5, 3, 1}},
    {MIL_OP_slice_by_index,
     MIL_fp32,
     "x=[6]~=0,1,2,3,4,5 begin=[0] end=[0] stride=[-2] begin_mask=[true] end_mask=[true]",
     {5, 3, 1}},
    {MIL_OP_split, MIL_fp32, "x=[2,3]~=1,2,3,4,5,6 split_sizes=[1,2] axis=1", {1, 4, 2, 3, 5, 6}},
    {MIL_OP_concat, MIL_fp32, "values=[2,1]~=1,2|[2,2]~=3,4,5,6 axis=1", {1, 3, 4, 2, 5, 6}},
    {MIL_OP_concat,
     MIL_fp32,
     "values=[3,2]~=1,2,3,4,5,6|[3,2]~=7,8,9,10,11,12 axis=0 interleave=true",
     {1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}},
    {MIL_OP_stack, MIL_fp32, "values=[2]~=1,2|[2]~=3,4 axis=1", {1, 3, 2, 4}},
    {MIL_OP_tile, MIL_fp32, "x=[2]~=1,2 reps=[3]", {1, 2, 1, 2, 1, 2}},
    {MIL_OP_reverse, MIL_fp32, "x=[2,2]~=1,2,3,4 axes=[1]", {2, 1, 4, 3}},
    {MIL_OP_pad, MIL_fp32, "x=[3]~=1,2,3 pad=[2,1] mode=reflect", {3, 2, 1, 2, 3, 2}},
    {MIL_OP_pad, MIL_fp32, "x=[3]~=1,2,3 pad=[2,1] mode=replicate", {1, 1, 1, 2, 3, 3}},
    {MIL_OP_pad, MIL_fp32, "x=[2]~=1,2 pad=[1,2] constant_val=7", {7, 1, 2, 7, 7}},
    {MIL_OP_gather, MIL_fp32, "x=[3]~=5,6,7 indices=[4]~=0,-1,2,-3", {5, 7, 7, 5}},
    {MIL_OP_gather, MIL_fp32, "x=[2,2]~=1,2,3,4 indices=[2,1]~=1,0 axis=1 batch_dims=1", {2, 3}},
    {MIL_OP_one_hot,
     MIL_fp32,
     "indices=[3]~=1,0,5 one_hot_vector_size=2 on_value=fp32(2) off_value=fp32(-1)",
     {-1, 2, 2, -1, -1, -1}},
    {MIL_OP_band_part, MIL_fp32, "x=[3,3]~=1,2,3,4,5,6,7,8,9 lower=0 upper=1", {1, 2, 0, 0, 5, 6, 0, 0, 9}},
    {MIL_OP_quantize,
     MIL_fp32,
     "input=[5]~=0.25,0.75,100,-100,-0.25 scale=$(0.5) zero_point=int8(1) output_dtype=int8",
     {1, 3, 127, -128, 1}},
    {MIL_OP_dequantize,
     MIL_fp32,
     "input=int8[2,2]~=1,2,3,4 scale=fp32[2]~=0.5,2 zero_point=int8[2]~=1,0 axis=1",
     {0, 4, 1, 8}},
    {MIL_OP_constexpr_affine_dequantize,
     MIL_fp32,
     "quantized_data=uint8[2,2]~=1,2,3,4 scale=fp32[2]~=0.5,2 zero_point=uint8(1) axis=0",
     {0, 0.5, 4, 6}},
};

static mil_tensor *run(const op_case *c, bool round, arena *a) {
    propane_error err = {0};
    mil_tensor *out = NULL;
    if (mil_eval_function(c->function, c->inputs, round, a, &out, &err)) ck_abort_msg("%s: %s", c->label, err.text);
    return out;
}

TEST(values_worked_out_by_hand) {
    for (size_t k = 0; k < sizeof by_hand / sizeof by_hand[0]; k++) {
        propane_error err = {0};
        op_case *c = op_case_make(by_hand[k].code, by_hand[k].dtype, by_hand[k].line, 1, &err);
        if (!c) ck_abort_msg("%s", err.text);
        arena *a = arena_create();
        const mil_tensor *out = run(c, false, a);
        int at = 0;
        for (int r = 0; r < c->op->result_count; r++)
            for (int64_t i = 0; i < mil_type_count(&out[r].type); i++, at++) {
                const double have = out[r].data[i], want = by_hand[k].want[at];
                EXPECT_MSG(have == want || fabs(have - want) < 1e-15, "%s: element %d is %.17g, not %.17g", c->label,
                           at, have, want);
            }
        arena_free(a);
        op_case_free(c);
    }
}

/* ---- nearest neighbours ---------------------------------------------------------------------------------------------- */

typedef struct nearest_row {
    const char *modes; /* separated by spaces */
    int in, out;
    const char *want; /* one digit per result: the index of the element of x */
} nearest_row;

/* 2 -> 3 is from coremltools (iOS14 and iOS17, test_image_resizing.py). The other DEFAULT rows follow TensorFlow's
 * half-pixel grid, for which its frontend requests DEFAULT. The rest follow from the grid points in the operation's
 * description. */
static const nearest_row nearest_rows[] = {
    {"DEFAULT STRICT_ALIGN_CORNERS ALIGN_CORNERS OFFSET_CORNERS UNALIGN_CORNERS", 2, 3, "011"},
    {"DEFAULT UNALIGN_CORNERS STRICT_ALIGN_CORNERS ALIGN_CORNERS", 4, 8, "00112233"},
    {"OFFSET_CORNERS", 4, 8, "01112223"},
    {"DEFAULT UNALIGN_CORNERS", 4, 6, "011233"},
    {"STRICT_ALIGN_CORNERS ALIGN_CORNERS OFFSET_CORNERS", 4, 6, "011223"},
    {"DEFAULT UNALIGN_CORNERS OFFSET_CORNERS", 7, 3, "135"},
    {"STRICT_ALIGN_CORNERS ALIGN_CORNERS", 7, 3, "036"},
    {"DEFAULT UNALIGN_CORNERS ALIGN_CORNERS OFFSET_CORNERS", 6, 1, "3"},
    {"STRICT_ALIGN_CORNERS", 6, 1, "0"},
    {"DEFAULT STRICT_ALIGN_CORNERS ALIGN_CORNERS OFFSET_CORNERS UNALIGN_CORNERS", 1, 5, "00000"},
    {"DEFAULT STRICT_ALIGN_CORNERS ALIGN_CORNERS OFFSET_CORNERS UNALIGN_CORNERS", 5, 5, "01234"},
    {"DEFAULT UNALIGN_CORNERS", 3, 7, "0011122"}, /* 3.5 * 3 / 7 is 1.5, and 2.5 * 3 / 7 is just above 1 */
    {"DEFAULT UNALIGN_CORNERS", 2, 7, "0001111"}, /* 3.5 * 2 / 7 is 1 */
};

static void expect_nearest(mil_opcode code, const char *line, const char *want) {
    propane_error err = {0};
    op_case *c = op_case_make(code, MIL_fp32, line, 1, &err);
    if (!c) ck_abort_msg("%s", err.text);
    arena *a = arena_create();
    const mil_tensor *out = run(c, false, a);
    EXPECT(mil_type_count(&out->type) == (int64_t)strlen(want));
    for (int64_t i = 0; want[i]; i++)
        EXPECT_MSG(out->data[i] == want[i] - '0', "%s: element %d is %g, not %c", c->label, (int)i, out->data[i],
                   want[i]);
    arena_free(a);
    op_case_free(c);
}

TEST(nearest_neighbours_by_mode) {
    static const char counts[] = "0,1,2,3,4,5,6,7,8";
    for (size_t k = 0; k < sizeof nearest_rows / sizeof nearest_rows[0]; k++) {
        const nearest_row *r = &nearest_rows[k];
        char line[300];
        for (const char *mode = r->modes; *mode; mode += strcspn(mode, " "), mode += *mode == ' ') {
            snprintf(line, sizeof line,
                     "x=[%d]~=%.*s shape=[%d] resized_dims=1 interpolation_mode=NEAREST_NEIGHBOR sampling_mode=%.*s",
                     r->in, 2 * r->in - 1, counts, r->out, (int)strcspn(mode, " "), mode);
            expect_nearest(MIL_OP_resize, line, r->want);
        }
        if (strncmp(r->modes, "DEFAULT", 7) != 0) continue;
        snprintf(line, sizeof line, "x=[1,1,%d]~=%.*s target_size_height=1 target_size_width=%d", r->in, 2 * r->in - 1,
                 counts, r->out);
        expect_nearest(MIL_OP_resize_nearest_neighbor, line, r->want);
    }
    /* In upsample_nearest_neighbor an element begins where its share begins; 49 * (2 / 98) is below 1 in floating
     * point. */
    expect_nearest(MIL_OP_upsample_nearest_neighbor, "x=[1,1,2]~=0,1 scale_factor_width=fp32(1.5)", "001");
    char many[99];
    for (int i = 0; i < 98; i++) many[i] = i < 49 ? '0' : '1';
    many[98] = 0;
    expect_nearest(MIL_OP_upsample_nearest_neighbor, "x=[1,1,2]~=0,1 scale_factor_width=int32(49)", many);
    expect_nearest(MIL_OP_resize_nearest_neighbor, "x=[1,1,2]~=0,1 target_size_height=1 target_size_width=98", many);
}

/* ---- closed forms, written differently ------------------------------------------------------------------------------ */

typedef struct law {
    mil_opcode code;
    const char *line;
    double (*f)(double x);
} law;

static double law_gelu(double x) { return x * 0.5 * erfc(-x * M_SQRT1_2); }
static double law_gelu_tanh(double x) { /* computes x sigma(2 u) */
    const double u = 0.7978845608028654 * (x + 0.044715 * pow(x, 3));
    return x / (1 + exp(-2 * u));
}
static double law_gelu_sigmoid(double x) { return 0.5 * x * (1 + tanh(0.851 * x)); }
static double law_sigmoid(double x) { return 0.5 * (1 + tanh(x / 2)); }
static double law_silu(double x) { return x * 0.5 * (1 + tanh(x / 2)); }
static double law_softplus(double x) { return log(1 + exp(x)); }
static double law_rsqrt(double x) { return pow(x + 1e-12, -0.5); }
static double law_log(double x) { return log2(x) * M_LN2; }
static double law_exp2(double x) { return exp(x * M_LN2); }
static double law_tanh(double x) { return 1 - 2 / (exp(2 * x) + 1); }
static double law_elu(double x) { return x > 0 ? x : (double)0.7f * (exp(x) - 1); }
static double law_sin(double x) { return cos(x - M_PI_2); }
static double law_cos(double x) { return 1 - 2 * pow(sin(x / 2), 2); }
static double law_erf(double x) { /* sums the power series */
    double term = x, sum = x;
    for (int n = 1; n < 80; n++) {
        term *= -x * x / n;
        sum += term / (2 * n + 1);
    }
    return sum * M_2_SQRTPI;
}

static const law laws[] = {
    {MIL_OP_gelu, "x=[200]", law_gelu},
    {MIL_OP_gelu, "x=[200] mode=TANH_APPROXIMATION", law_gelu_tanh},
    {MIL_OP_gelu, "x=[200] mode=SIGMOID_APPROXIMATION", law_gelu_sigmoid},
    {MIL_OP_sigmoid, "x=[200]", law_sigmoid},
    {MIL_OP_silu, "x=[200]", law_silu},
    {MIL_OP_softplus, "x=[200]", law_softplus},
    {MIL_OP_rsqrt, "x=[200]", law_rsqrt},
    {MIL_OP_log, "x=[200]", law_log},
    {MIL_OP_exp2, "x=[200]", law_exp2},
    {MIL_OP_tanh, "x=[200]", law_tanh},
    {MIL_OP_elu, "x=[200]", law_elu},
    {MIL_OP_erf, "x=[200]", law_erf},
    {MIL_OP_sin, "x=[200]", law_sin},
    {MIL_OP_cos, "x=[200]", law_cos},
};

/* Largest seen: 4e-15, from the power series of erf. */
TEST(functions_follow_their_laws) {
    for (size_t k = 0; k < sizeof laws / sizeof laws[0]; k++) {
        propane_error err = {0};
        op_case *c = op_case_make(laws[k].code, MIL_fp32, laws[k].line, k + 1, &err);
        if (!c) ck_abort_msg("%s", err.text);
        arena *a = arena_create();
        const mil_tensor *out = run(c, false, a);
        for (int64_t i = 0; i < mil_type_count(&out[0].type); i++) {
            const double x = c->inputs[0].data[i], want = laws[k].f(x);
            EXPECT_MSG(fabs(out[0].data[i] - want) < 1e-13, "%s at %g: %.17g, not %.17g", c->label, x, out[0].data[i],
                       want);
        }
        arena_free(a);
        op_case_free(c);
    }
}

/* NaN propagates, as in numpy. */
TEST(nan_is_not_swallowed) {
    static const mil_opcode codes[] = {MIL_OP_relu,    MIL_OP_relu6,        MIL_OP_maximum,
                                       MIL_OP_minimum, MIL_OP_reduce_max,   MIL_OP_reduce_min,
                                       MIL_OP_clip,    MIL_OP_sigmoid_hard, MIL_OP_softmax};
    for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
        propane_error err = {0};
        const bool two = mil_op_param(mil_op_get(codes[k]), "y") >= 0;
        for (int side = 0; side < 1 + two; side++) {
            op_case *c = op_case_make(codes[k], MIL_fp32, two ? "x=[1]~=1 y=[1]~=2" : "x=[1]~=1", 1, &err);
            if (!c) ck_abort_msg("%s", err.text);
            c->inputs[side].data[0] = NAN;
            arena *a = arena_create();
            EXPECT_MSG(isnan(run(c, false, a)[0].data[0]), "%s", c->label);
            arena_free(a);
            op_case_free(c);
        }
    }
}

TEST(indices_out_of_range_are_an_error) {
    propane_error err = {0};
    op_case *c = op_case_make(MIL_OP_gather, MIL_fp32, "x=[2,3] indices=[2]~=1,3 axis=1", 1, &err);
    EXPECT(c != NULL);
    arena *a = arena_create();
    mil_tensor *out = NULL;
    EXPECT_FAIL(mil_eval_function(c->function, c->inputs, false, a, &out, &err), PROPANE_ERR_INVALID,
                "index 1 is 3, but dimension 1 of x has 3 elements");
    c->inputs[1].data[1] = -4;
    EXPECT_FAIL(mil_eval_function(c->function, c->inputs, false, a, &out, &err), PROPANE_ERR_INVALID, "index 1 is -4");
    arena_free(a);
    op_case_free(c);
}

/* ---- functions ------------------------------------------------------------------------------------------------------ */

TEST(functions_run_op_by_op_and_round_if_asked) {
    static const char source[] = "program(1.3)\n{ func main<ios18>(tensor<fp16, [2]> x) {\n"
                                 "  fp16 third = const()[name = string(\"third\"), val = fp16(0x1.554p-2)];\n"
                                 "  tensor<fp16, [2]> a = mul(x = x, y = third)[name = string(\"a\")];\n"
                                 "  tensor<fp16, [2]> b = sub(x = a, y = x)[name = string(\"b\")];\n"
                                 "  } -> (b, a); }\n";
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(source, strlen(source), "t.mil", NULL, &m, &err));
    const mil_function *f = mil_module_function(m, NULL, &err);
    arena *a = arena_create();
    double data[2] = {3, 10};
    mil_tensor x = {.type = f->params[0]->type, .data = data}, *out = NULL;
    EXPECT_OK(mil_eval_function(f, &x, false, a, &out, &err));
    EXPECT(out[1].data[1] == 10 * 0x1.554p-2);
    EXPECT(out[0].data[1] == 10 * 0x1.554p-2 - 10);
    EXPECT_OK(mil_eval_function(f, &x, true, a, &out, &err));
    const double rounded = fp16_to_f32(fp16_from_f32(10 * 0x1.554p-2f));
    EXPECT(out[1].data[1] == rounded && rounded != 10 * 0x1.554p-2);
    EXPECT(out[0].data[1] == fp16_to_f32(fp16_from_f64(rounded - 10)));
    x.type.dim[0] = 3;
    EXPECT_FAIL(mil_eval_function(f, &x, true, a, &out, &err), PROPANE_ERR_INVALID,
                "parameter 'x' is tensor<fp16, [2]>");
    arena_free(a);
    mil_module_free(m);
}

/* ---- rounding and packing ------------------------------------------------------------------------------------------- */

TEST(rounding_to_element_types) {
    EXPECT(mil_round(MIL_fp16, 2049) == 2048 && mil_round(MIL_fp16, 2051) == 2052); /* ties to even */
    EXPECT(mil_round(MIL_fp16, 65519.9) == 65504 && isinf(mil_round(MIL_fp16, 65520)));
    EXPECT(mil_round(MIL_fp16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10); /* rounded once, not through fp32 */
    EXPECT(mil_round(MIL_fp32, 0.1) == (double)0.1f);
    EXPECT(mil_round(MIL_int32, -2.9) == -2 && mil_round(MIL_int32, 3e9) == INT32_MAX &&
           mil_round(MIL_int32, -3e9) == INT32_MIN);
    EXPECT(mil_round(MIL_uint8, -5) == 0 && mil_round(MIL_uint8, 256) == 255 && mil_round(MIL_int8, -129) == -128);
    EXPECT(mil_round(MIL_int4, 9) == 7 && mil_round(MIL_int4, -9) == -8 && mil_round(MIL_uint3, 9) == 7);
    EXPECT(mil_round(MIL_bool, -0.5) == 1 && mil_round(MIL_bool, 0) == 0);
    EXPECT(mil_round(MIL_int32, NAN) == 0 && isnan(mil_round(MIL_fp16, NAN)));
}

/* Every numeric element type, with every kind of value that it can hold. */
TEST(packing_keeps_every_value) {
    rng r;
    rng_init(&r, 7);
    for (int dtype = 1; dtype < MIL_DTYPE_COUNT; dtype++) {
        const mil_dtype_info *info = mil_dtype_get((mil_dtype)dtype);
        if (info->kind == MIL_KIND_STRING) continue;
        double values[101], back[101];
        uint8_t bytes[101 * 8 + 1];
        memset(bytes, 0xa5, sizeof bytes);
        const mil_type type = {.dtype = (mil_dtype)dtype, .rank = 1, .dim = {101}};
        for (int k = 0; k < 101; k++) values[k] = mil_round((mil_dtype)dtype, rng_normal(&r) * (k % 3 ? 4 : 1e5));
        mil_pack_f64(bytes, (mil_dtype)dtype, values, 101);
        EXPECT_MSG(bytes[mil_type_bytes(&type)] == 0xa5, "%s: written behind the end", info->name);
        mil_unpack_f64(back, (mil_dtype)dtype, bytes, 101);
        for (int k = 0; k < 101; k++)
            EXPECT_MSG(values[k] == back[k], "%s: %g became %g", info->name, values[k], back[k]);
        /* The language reads constants in the same way. */
        const mil_const constant = {.type = type, .data = bytes, .bytes = mil_type_bytes(&type)};
        for (int k = 0; k < 101; k++)
            EXPECT_MSG(mil_const_f64(&constant, k) == values[k], "%s: element %d of the constant is %g, not %g",
                       info->name, k, mil_const_f64(&constant, k), values[k]);
    }
}

/* ---- cost ----------------------------------------------------------------------------------------------------------- */

typedef struct price {
    mil_opcode code;
    const char *line;
    double flops, bytes_in, bytes_const, bytes_out;
    bool is_matrix;
} price;

static const price prices[] = {
    {MIL_OP_add, "x=[2,3] y=[3]", 6, 24 + 12, 0, 24, false},
    {MIL_OP_matmul, "x=[4,5] y=[5,6]!", 2 * 4 * 5 * 6, 80 + 120, 120, 96, true},
    {MIL_OP_linear, "x=[4,5] weight=[6,5] bias=[6]", 2 * 4 * 5 * 6, 80 + 120 + 24, 0, 96, true},
    {MIL_OP_conv, "x=[1,4,1,8] weight=[6,2,1,3] groups=2 pad_type=same", 2 * 6 * 8 * 2 * 3, 128 + 144, 0, 192, true},
    {MIL_OP_einsum, "values=[3,4]|[4,5] equation=ij,jk->ik", 2 * 3 * 4 * 5, 48 + 80, 0, 60, true},
    {MIL_OP_reduce_sum, "x=[3,4] axes=[0]", 12, 48, 0, 16, false},
    {MIL_OP_reduce_sum_square, "x=[3,4] axes=[0]", 24, 48, 0, 16, false},
    {MIL_OP_reshape, "x=[3,4] shape=[12]", 0, 48, 0, 48, false},
};

TEST(costs_worked_out_by_hand) {
    for (size_t k = 0; k < sizeof prices / sizeof prices[0]; k++) {
        propane_error err = {0};
        const price *p = &prices[k];
        op_case *c = op_case_make(p->code, MIL_fp32, p->line, 1, &err);
        if (!c) ck_abort_msg("%s", err.text);
        mil_cost cost;
        mil_op_cost(c->op, &cost);
        EXPECT_MSG(cost.flops == p->flops && cost.bytes_in == p->bytes_in && cost.bytes_const == p->bytes_const &&
                       cost.bytes_out == p->bytes_out && cost.is_matrix == p->is_matrix,
                   "%s: %g flops, %g bytes in, %g of them constant, %g out, matrix %d", c->label, cost.flops,
                   cost.bytes_in, cost.bytes_const, cost.bytes_out, cost.is_matrix);
        op_case_free(c);
    }
}

SUITE("ops/eval", T(values_worked_out_by_hand), T(nearest_neighbours_by_mode), T(functions_follow_their_laws),
      T(nan_is_not_swallowed), T(indices_out_of_range_are_an_error), T(functions_run_op_by_op_and_round_if_asked),
      T(rounding_to_element_types), T(packing_keeps_every_value), T(costs_worked_out_by_hand))
