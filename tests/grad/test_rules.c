/* SPDX-License-Identifier: MIT
 * Every gradient rule against central finite differences in double, over its attributes and its forms of broadcasting.
 * Rows without a gradient are printed by name. A row with a rule but without a case fails.
 */
#include <math.h>
#include <stdlib.h>

#include "core/grad/grad.h"
#include "support/grad_check.h"
#include "support/op_cases.h"
#include "support/test.h"

/* Largest seen: 2.2e-7, where an emitted constant is rounded to fp32 (1/n of layer_norm); most cases are below
 * 1e-10. */
static const double tolerance = 1e-6;

/* Constants that rules emit are rounded to the program's type. */
static const double half_tolerance = 2e-3;

typedef struct rule_case {
    mil_opcode code;
    mil_draw draw;
    const char *spec;
} rule_case;

#define C(code, draw, spec) {MIL_OP_##code, MIL_DRAW_##draw, spec}
static const rule_case rule_cases[] = {
    C(add, any, "x[2,3] y[2,3]"),
    C(add, any, "x[2,3,4] y[3,1]"),
    C(add, any, "x[1,3,1] y[2,1,4]"),
    C(add, any, "x[] y[2,2]"),
    C(add, any, "x[2,3] y=0.5"),
    C(sub, any, "x[2,3] y[2,3]"),
    C(sub, any, "x[4] y[2,3,4]"),
    C(sub, any, "x[1,3] y[2,1]"),
    C(sub, any, "x[2,2] y[]"),
    C(mul, any, "x[2,3] y[2,3]"),
    C(mul, any, "x[1,3,1,1] y[2,3,1,4]"),
    C(mul, any, "x[2,1,4] y[3,1]"),
    C(mul, any, "x[2,3] y#[2,1]"),
    C(real_div, nonzero, "x[2,3] y[2,3]"),
    C(real_div, nonzero, "x[2,3] y[3]"),
    C(real_div, nonzero, "x[1,3] y[2,1]"),
    C(mod, apart, "x[2,3] y[2,3]"),
    C(mod, apart, "x[2,3] y[3]"),
    C(pow, positive, "x[2,3] y[2,3]"),
    C(pow, positive, "x[2,3] y[3]"),
    C(pow, positive, "x[3] y[2,3]"),
    C(pow, positive, "x[2,3] y=2.0"),
    C(pow, positive, "x[2,3] y=-0.5"),
    C(pow, positive, "x[2,3] y=0.5"),
    C(pow, positive, "x[2,3] y=-1.0"),
    C(pow, positive, "x[2,3] y=3.0"),
    C(pow, positive, "x[2,3] y=1.0"),
    C(pow, positive, "x[2,3] y=0.0"),
    C(pow, positive, "x[2,3] y=1.7"),
    C(pow, nonzero, "x[2,3] y=2.0"),
    C(maximum, apart, "x[2,3] y[2,3]"),
    C(maximum, apart, "x[2,3] y[3]"),
    C(maximum, apart, "x[2,1] y[1,3]"),
    C(minimum, apart, "x[2,3] y[2,3]"),
    C(minimum, apart, "x[3] y[2,3]"),
    C(select, any, "cond?[2,3] a[2,3] b[2,3]"),
    C(select, any, "cond?[2,1] a[2,3] b[3]"),
    C(select, any, "cond?[2,3] a[1,3] b[]"),
    C(abs, apart, "x[2,3]"),
    C(square, any, "x[2,3]"),
    C(sqrt, positive, "x[2,3]"),
    C(rsqrt, positive, "x[2,3]"),
    C(rsqrt, positive, "x[2,3] epsilon=0.1"),
    C(inverse, positive, "x[2,3]"),
    C(inverse, positive, "x[2,3] epsilon=0.25"),
    C(exp, any, "x[2,3]"),
    C(exp2, any, "x[2,3]"),
    C(log, positive, "x[2,3]"),
    C(log, positive, "x[2,3] epsilon=0.5"),
    C(sin, any, "x[2,3]"),
    C(cos, any, "x[2,3]"),
    C(tanh, any, "x[2,3]"),
    C(erf, any, "x[2,3]"),
    C(sigmoid, any, "x[2,3]"),
    C(relu, apart, "x[4,5]"),
    C(relu6, apart, "x[4,5]"),
    C(silu, any, "x[2,3]"),
    C(gelu, any, "x[2,3]"),
    C(gelu, any, "x[2,3] mode='TANH_APPROXIMATION'"),
    C(gelu, any, "x[2,3] mode='SIGMOID_APPROXIMATION'"),
    C(softplus, any, "x[2,3]"),
    C(softsign, apart, "x[2,3]"),
    C(leaky_relu, apart, "x[4,5] alpha=0.1"),
    C(elu, apart, "x[4,5] alpha=0.7"),
    C(sigmoid_hard, apart, "x[4,5] alpha=0.2 beta=0.5"),
    C(clip, apart, "x[4,5] alpha=-2.5 beta=3.0"),
    C(clip, apart, "x[4,5] alpha=-1e31 beta=3.0"),
    C(cast, any, "x[2,3] dtype='fp32'"),
    C(cast, any, "x[2,3] dtype='fp16'"),
    C(identity, any, "x[2,3]"),
    C(reduce_sum, any, "x[2,3,4]"),
    C(reduce_sum, any, "x[2,3,4] axes={-1} keep_dims=true"),
    C(reduce_sum, any, "x[2,3,4] axes={0,2}"),
    C(reduce_mean, any, "x[2,3,4]"),
    C(reduce_mean, any, "x[2,3,4] axes={1} keep_dims=true"),
    C(reduce_mean, any, "x[2,3,4] axes={0,2}"),
    C(reduce_max, apart, "x[2,3,4] axes={1}"),
    C(reduce_max, apart, "x[2,3,4] axes={0,2} keep_dims=true"),
    C(reduce_min, apart, "x[2,3,4] axes={-1}"),
    C(reduce_min, apart, "x[3,4]"),
    C(reduce_prod, nonzero, "x[2,3,4] axes={1}"),
    C(reduce_prod, nonzero, "x[2,3] axes={0,1} keep_dims=true"),
    C(reduce_l1_norm, apart, "x[2,3,4] axes={1}"),
    C(reduce_l2_norm, nonzero, "x[2,3,4] axes={0,2}"),
    C(reduce_l2_norm, nonzero, "x[2,3,4] axes={1} keep_dims=true"),
    C(reduce_sum_square, any, "x[2,3,4] axes={1,2}"),
    C(reduce_log_sum, positive, "x[2,3,4] axes={1}"),
    C(reduce_log_sum_exp, any, "x[2,3,4] axes={2}"),
    C(reduce_log_sum_exp, any, "x[2,3,4] axes={0,1} keep_dims=true"),
    C(cumsum, any, "x[3,4]"),
    C(cumsum, any, "x[3,4] axis=-1 exclusive=true"),
    C(cumsum, any, "x[3,4] axis=1 reverse=true"),
    C(cumsum, any, "x[3,4] axis=0 exclusive=true reverse=true"),
    C(softmax, any, "x[2,3,4]"),
    C(softmax, any, "x[2,3,4] axis=1"),
    C(softmax, any, "x[2,5,1,3] axis=-3"),
    C(layer_norm, any, "x[2,3,4] axes={2} gamma[4] beta[4]"),
    C(layer_norm, any, "x[2,3,4] axes={1,2} gamma[3,4] beta[3,4]"),
    C(layer_norm, any, "x[2,3,4] axes={-1} epsilon=0.01"),
    C(layer_norm, any, "x[2,3,4] axes={1} gamma[3]"),
    C(layer_norm, any, "x[2,3]"),
    C(layer_norm, any, "x[2,4] axes={1} gamma#[4] beta[4]"),
    C(batch_norm, positive, "x[2,3,4] mean[3] variance[3]"),
    C(batch_norm, positive, "x[2,3,2,2] mean[3] variance[3] gamma[3] beta[3]"),
    C(batch_norm, positive, "x[2,3,4] mean#[3] variance[3] gamma[3]"),
    C(batch_norm, positive, "x[3,2,4] mean[2] variance[2] epsilon=0.1"),
    C(instance_norm, any, "x[2,3,4]"),
    C(instance_norm, any, "x[2,3,2,3] gamma[3] beta[3]"),
    C(instance_norm, any, "x[1,2,5] gamma[2] beta[2] epsilon=0.01"),
    C(l2_norm, any, "x[2,3,2,2]"),
    C(l2_norm, any, "x[2,2,3] epsilon=0.01"),
    C(matmul, any, "x[2,3] y[3,4]"),
    C(matmul, any, "x[3,2] y[3,4] transpose_x=true"),
    C(matmul, any, "x[2,3] y[4,3] transpose_y=true"),
    C(matmul, any, "x[3,2] y[4,3] transpose_x=true transpose_y=true"),
    C(matmul, any, "x[2,2,3] y[3,4]"),
    C(matmul, any, "x[4,3] y[2,1,3,5]"),
    C(matmul, any, "x[2,1,2,3] y[1,3,3,2]"),
    C(matmul, any, "x[1,3,2,3] y[2,1,4,3] transpose_y=true"),
    C(matmul, any, "x[3] y[3,4]"),
    C(matmul, any, "x[2,3] y[3]"),
    C(matmul, any, "x[3] y[3]"),
    C(matmul, any, "x[2,2,3] y[3]"),
    C(matmul, any, "x[3] y[2,3,2]"),
    C(matmul, any, "x[2,3,2] y[2,3,4] transpose_x=true"),
    C(matmul, any, "x[3] y[2,4,3] transpose_y=true"),
    C(linear, any, "x[2,3] weight[4,3]"),
    C(linear, any, "x[2,2,3] weight[4,3] bias[4]"),
    C(linear, any, "x[3] weight[4,3] bias[4]"),
    C(conv, any, "x[2,3,1,5] weight[4,3,1,1]"),
    C(conv, any, "x[2,3,2,2] weight#[4,3,1,1]"),
    C(conv, any, "x[1,4,2,3] weight[6,2,1,1] groups=2"),
    C(conv, any, "x[2,2,5,4] weight[3,2,3,2]"),
    C(conv, any, "x[1,2,5,4] weight[3,2,3,2] bias[3]"),
    C(conv, any, "x[1,2,6,5] weight[2,2,3,2] strides={2,3}"),
    C(conv, any, "x[1,2,4,4] weight[2,2,3,3] pad_type='same'"),
    C(conv, any, "x[1,2,5,4] weight[2,2,3,2] pad_type='same_lower' strides={2,2}"),
    C(conv, any, "x[1,2,5,4] weight[2,2,2,2] pad_type='custom' pad={1,2,0,1}"),
    C(conv, any, "x[1,2,4,3] weight[2,2,2,1] pad_type='custom' pad={3,2,1,2} strides={2,1}"),
    C(conv, any, "x[1,2,7,6] weight[2,2,2,3] dilations={3,2}"),
    C(conv, any, "x[1,2,8,6] weight[2,2,2,2] dilations={2,1} strides={3,2} pad_type='custom' pad={1,1,2,0}"),
    C(conv, any, "x[2,4,5,3] weight[6,2,3,2] groups=2 strides={2,1}"),
    C(conv, any, "x[1,3,4,4] weight[3,1,3,3] groups=3 pad_type='same'"),
    C(conv, any, "x[2,3,7] weight[2,3,3] strides={2}"),
    C(conv, any, "x[1,4,6] weight#[4,2,2] groups=2 dilations={2}"),
    C(conv, any, "x[1,2,3,4,3] weight[2,2,2,2,2] strides={1,2,1}"),
    C(conv, any, "x[1,4,3,3,3] weight[2,2,2,2,2] groups=2"),
    C(conv, any, "x[1,2,3,4] weight[2,2,1,1] pad_type='custom' pad={1,0,0,2}"),
    C(conv, any, "x[1,2,5,4] weight[2,2,1,1] strides={2,2}"),
    C(einsum, any, "values[2,3] values[3,4] equation='ij,jk->ik'"),
    C(einsum, any, "values[1,3,2,4] values[1,4,2,5] equation='nchw,nwhu->nchu'"),
    C(einsum, any, "values[2,3] values[2,3] equation='ij,ij->j'"),
    C(einsum, any, "values[2,3] values[4] equation='ij,k->kj'"),
    C(einsum, any, "values[2,3] equation='ij->ji'"),
    C(einsum, any, "values[2,3] equation='ij->j'"),
    C(einsum, any, "values[1,3] values[2,3] equation='ij,ij->ij'"),
    C(einsum, any, "values[2,3] values[3,4] values[4,2] equation='ab,bc,cd->ad'"),
    C(einsum, any, "values[2] values[3] equation='i,j->ij'"),
    C(einsum, any, "values[3,3] equation='ii->i'"),
    C(einsum, any, "values[3,3] equation='ii->'"),
    C(einsum, any, "values[2,3,2,2] values[2,3] equation='abaa,ab->b'"),
    C(scaled_dot_product_attention, any, "query[2,3,4] key[2,5,4] value[2,5,3]"),
    C(scaled_dot_product_attention, any, "query[1,2,3,4] key[1,2,5,4] value[1,2,5,3] attn_mask[3,5]"),
    C(scaled_dot_product_attention, any, "query[1,2,3,4] key[1,2,3,4] value[1,2,3,2] attn_mask?[1,1,3,3]"),
    C(reshape, any, "x[2,3,4] shape={4,6}"),
    C(reshape, any, "x[2,3,4] shape={-1,3}"),
    C(transpose, any, "x[2,3,4] perm={2,0,1}"),
    C(transpose, any, "x[2,3,4,1] perm={0,-1,1,2}"),
    C(expand_dims, any, "x[2,3] axes={0,-1}"),
    C(squeeze, any, "x[1,2,1,3] axes={0}"),
    C(squeeze, any, "x[1,2,1,3]"),
    C(slice_by_size, any, "x[3,4,5] begin={1,0,2} size={2,4,2}"),
    C(slice_by_size, any, "x[3,4] begin={1,2} size={-1,2}"),
    C(slice_by_index, any, "x[4,5] begin={1,0} end={3,5}"),
    C(slice_by_index, any, "x[5,7] begin={0,1} end={5,7} stride={2,3}"),
    C(slice_by_index, any,
      "x[5,7] begin={-1,6} end={0,0} stride={-2,-4} begin_mask={true,false} end_mask={true,false}"),
    C(slice_by_index, any,
      "x[3,4,5] begin={1,0,0} end={0,0,4} end_mask={false,true,false} squeeze_mask={true,false,false}"),
    C(slice_by_index, any, "x[4,6] begin={3,0} end={0,6} stride={-1,5}"),
    C(split, any, "x[2,6] num_splits=3 axis=1"),
    C(split, any, "x[5,2] split_sizes={1,3,1} axis=-2"),
    C(concat, any, "values[2,3] values[2,1] values[2,2] axis=1 interleave=false"),
    C(concat, any, "values[2,3] values[1,3] axis=-2"),
    C(concat, any, "values[2,3] values[2,3] axis=1 interleave=true"),
    C(concat, any, "values[2,3] values#[2,3] values[2,3] axis=0 interleave=true"),
    C(stack, any, "values[2,3] values[2,3] axis=1"),
    C(stack, any, "values[2] values[2] values#[2] axis=-1"),
    C(tile, any, "x[2,3] reps={2,1}"),
    C(tile, any, "x[2,1,3] reps={3,2,2}"),
    C(reverse, any, "x[2,3,4] axes={0,2}"),
    C(reverse, any, "x[2,3]"),
    C(pad, any, "x[2,3] pad={1,2}"),
    C(pad, any, "x[2,3] pad={1,0,2,1} mode='constant' constant_val=1.5"),
    C(pad, any, "x[2,4] pad={1,1,2,3} mode='reflect'"),
    C(pad, any, "x[2,3] pad={2,1,0,4} mode='replicate'"),
    C(pad, any, "x[2,1,5] pad={4,2} mode='reflect'"),
    C(gather, any, "x[5,3] indices%5[4]"),
    C(gather, any, "x[2,4,3] indices%4[2,2] axis=1"),
    C(gather, any, "x[2,3] indices={-1,0,-1} axis=-1"),
    C(gather, any, "x[5,3] indices={1,1,4,1}"),
    C(gather, any, "x[2,5,3] indices%5[2,4] axis=1 batch_dims=1"),
    C(gather, any, "x[4,3] indices=2"),
    C(gather_nd, any, "x[2,3,4] indices%3[2,5,1] batch_dims=1"),
    C(gather_nd, any, "x[2,3,3] indices%3[2,2] batch_dims=1"),
    C(gather_nd, any, "x[2,2,3,3,2] indices%3[2,2,4,2] batch_dims=2"),
    C(scatter, positive, "data[5,2] indices={1,1} updates[2,2] mode='mul'"),
    C(scatter, positive, "data[3,5] indices={4,0,4} updates[3,3] axis=1 mode='div'"),
    C(scatter, apart, "data[5,2] indices={1,3,1} updates[3,2] mode='max'"),
    C(scatter, apart, "data[5,2] indices={1,3,1} updates[3,2] mode='min'"),
    C(scatter_along_axis, positive, "data[3,5] indices%5[3,2] updates[3,2] axis=1 mode='mul'"),
    C(scatter_along_axis, apart, "data[3,5] indices%5[3,2] updates[3,2] axis=1 mode='max'"),
    C(scatter_nd, positive, "data[3,4] indices%3[2,1] updates[2,4] mode='div'"),
    C(scatter_nd, apart, "data[3,4] indices%3[2,2] updates[2] mode='min'"),
    C(local_response_norm, any, "x[2,5,3] size=3 alpha=0.5"),
    C(local_response_norm, any, "x[1,3,2,2] size=8 alpha=0.5 beta=1.5 k=2.0"),
    C(band_part, any, "x[4,5] lower=1 upper=2"),
    C(band_part, any, "x[2,4,4] lower=-1 upper=0"),
    C(scaled_dot_product_attention, any, "query[1,3,4] key[2,5,4] value[1,5,3]"),
    C(scaled_dot_product_attention, any, "query[2,1,3,4] key[1,2,5,4] value[1,1,5,3] attn_mask[3,5]"),
    C(resize, any, "x[2,2,5] shape={3,7} resized_dims=2 interpolation_mode='NEAREST_NEIGHBOR'"),
    C(resize, any,
      "x[2,4,6] shape={6,1} resized_dims=2 interpolation_mode='NEAREST_NEIGHBOR' sampling_mode='OFFSET_CORNERS'"),
    C(resize, any,
      "x[2,1,6] shape={3,4} resized_dims=2 interpolation_mode='NEAREST_NEIGHBOR' sampling_mode='ALIGN_CORNERS'"),
};
#undef C
enum { CASES = sizeof rule_cases / sizeof rule_cases[0] };

TEST(every_rule_equals_finite_differences) {
    double worst = 0;
    bool verbose = getenv("TEST_VERBOSE") != NULL;
    for (int i = 0; i < CASES; i++) {
        int below;
        char what[300];
        mil_module *m = mil_module_create("rules");
        snprintf(what, sizeof what, "%s %s", mil_op_get(rule_cases[i].code)->name, rule_cases[i].spec);
        const mil_function *f = grad_spec(m, "f", rule_cases[i].code, rule_cases[i].spec, &below);
        double seen = grad_check_drawn(f, rule_cases[i].draw, below, 100 + (uint64_t)i, tolerance, what);
        if (verbose) printf("%.1e  %s\n", seen, what);
        worst = fmax(worst, seen);
        mil_module_free(m);
    }
    printf("grad/rules: %d cases, largest difference %.1e\n", CASES, worst);
}

typedef struct tally {
    int checked, skipped;
    double worst[2];
    bool seen[MIL_OP_COUNT];
} tally;

/* Checks that sampling at computed positions is refused with the name of the operand. Returns whether the case is one
 * of these. */
static bool sampling_is_refused(const op_case *c) {
    static const struct {
        mil_opcode code;
        const char *param;
    } rows[] = {{MIL_OP_resample, "coordinates"},
                {MIL_OP_affine, "transform_matrix"},
                {MIL_OP_crop_resize, "roi"},
                {MIL_OP_crop_resize, "boxes"},
                {MIL_OP_crop_resize, "box_indices"}};
    const mil_op *op = c->function->last;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        propane_error err = {0};
        mil_function *joint = NULL;
        const mil_value *v = c->code == rows[i].code ? mil_in(op, rows[i].param) : NULL;
        if (!v || v->constant) continue;
        EXPECT_FAIL(grad_function(c->function, "joint", NULL, 0, &joint, &err), PROPANE_ERR_UNSUPPORTED,
                    "is computed; make it a constant");
        EXPECT_MSG(strstr(err.text, rows[i].param), "%s: %s", c->label, err.text);
        return true;
    }
    return false;
}

/* Operations that are expanded first are refused by the rules alone; tests/grad/test_unroll.c checks their gradients. */
static bool is_refused(mil_opcode code) {
    return strcmp(op_grad_name(code), "none") == 0 || strcmp(op_grad_name(code), "expanded") == 0;
}

static void check_case(const op_case *c, void *context) {
    tally *t = context;
    bool half = c->dtype == MIL_fp16, any = false;
    const char *rule = op_grad_name(c->code);
    for (int i = 0; i < c->input_count; i++) any |= c->smooth[i] && mil_dtype_is_float(c->inputs[i].type.dtype);
    if (!any || is_refused(c->code) || strcmp(rule, "zero") == 0 || sampling_is_refused(c)) {
        t->skipped++;
        return;
    }
    double seen = grad_check_some(c->function, c->inputs, c->smooth, 77, half ? half_tolerance : tolerance, c->label);
    t->worst[half] = fmax(t->worst[half], seen);
    if (getenv("TEST_VERBOSE")) printf("%.1e  %s\n", seen, c->label);
    t->seen[c->code] = true;
    t->checked++;
}

/* The cases with which every other reader of ops.def is tested. */
TEST(every_shared_case_equals_finite_differences) {
    static tally t;
    op_cases_each(OP_CASES_ALL, 1, check_case, &t);
    printf("grad/rules: %d shared cases (%d have no gradient to compare), largest difference %.1e, in fp16 programs "
           "%.1e\n",
           t.checked, t.skipped, t.worst[0], t.worst[1]);
    for (int code = 0; code < MIL_OP_COUNT; code++) {
        const char *rule = op_grad_name((mil_opcode)code);
        bool needed = !is_refused((mil_opcode)code) && strcmp(rule, "zero") != 0 &&
                      strcmp(rule, "dequantize") != 0; /* its input is of integers: see test_quantize.c */
        EXPECT_MSG(t.seen[code] || !needed, "no shared case checks the gradient of %s",
                   mil_op_get((mil_opcode)code)->name);
    }
}

static void expect_zeros(const op_case *c, const mil_function *joint) {
    propane_error err = {0};
    arena *a = arena_create();
    mil_tensor *in = ARENA_ARRAY(a, joint->param_count + 1, mil_tensor), *out = NULL;
    for (int i = 0; i < joint->param_count; i++) {
        in[i].type = joint->params[i]->type;
        if (i < c->input_count) {
            in[i] = c->inputs[i];
            continue;
        }
        const int64_t count = mil_type_count(&in[i].type); /* the loss's derivative with respect to a result */
        in[i].data = ARENA_ARRAY(a, count + 1, double);
        for (int64_t k = 0; k < count; k++) in[i].data[k] = 1 + (double)k;
    }
    EXPECT_OK(mil_eval_function(joint, in, false, a, &out, &err));
    EXPECT_MSG(joint->result_count > c->function->result_count, "%s: no gradients", c->label);
    for (int i = c->function->result_count; i < joint->result_count; i++)
        for (int64_t k = 0; k < mil_type_count(&out[i].type); k++)
            EXPECT_MSG(out[i].data[k] == 0, "%s: gradient %d is %g", c->label, i, out[i].data[k]);
    arena_free(a);
}

static void expect_refusal_or_zero(const op_case *c, void *context) {
    bool *seen = context, floats_in = false, floats_out = false;
    const bool refused = is_refused(c->code);
    if (!refused && strcmp(op_grad_name(c->code), "zero") != 0) return;
    for (int i = 0; i < c->input_count; i++) floats_in |= mil_dtype_is_float(c->inputs[i].type.dtype);
    for (int i = 0; i < c->function->result_count; i++)
        floats_out |= mil_dtype_is_float(c->function->results[i]->type.dtype);
    if (!floats_in) return;
    propane_error err = {0};
    mil_function *joint = NULL;
    const propane_status status = grad_function(c->function, "joint", NULL, 0, &joint, &err);
    seen[c->code] = true;
    if (refused && floats_out)
        EXPECT_MSG(status == PROPANE_ERR_UNSUPPORTED && strstr(err.text, "has no gradient") &&
                       strstr(err.text, mil_op_get(c->code)->name),
                   "%s: %s: '%s'", c->label, propane_status_name(status), err.text);
    else
        EXPECT_MSG(status == PROPANE_OK, "%s: %s", c->label, err.text);
    if (!status) expect_zeros(c, joint);
}

/* An operation whose row has no gradient is refused by name. It is accepted if the row says zero or no result
 * varies. */
TEST(rows_without_a_gradient_are_named) {
    static bool seen[MIL_OP_COUNT];
    op_cases_each(OP_CASES_ALL, 1, expect_refusal_or_zero, seen);
    EXPECT(seen[MIL_OP_lstm] && seen[MIL_OP_non_maximum_suppression]);
    EXPECT(seen[MIL_OP_floor] && seen[MIL_OP_less] && seen[MIL_OP_reduce_argmax]);
}

/* reduce_prod with zero, one and two zeros in a row: the gradients are products of the others, as finite differences
 * show too. */
TEST(product_with_zeros) {
    int below;
    mil_module *m = mil_module_create("rules");
    const mil_function *f = grad_spec(m, "f", MIL_OP_reduce_prod, "x[3,3] axes={1}", &below);
    double x[] = {2, -3, 0.5, 0, 4, 5, 0, 0, 7};
    grad_check(f, &(mil_tensor){f->params[0]->type, x}, 3, tolerance, "reduce_prod with zeros");
    mil_module_free(m);
}

static void gradient_at(mil_opcode code, const char *spec, const double *x, double *dx, int count) {
    propane_error err = {0};
    int below;
    mil_module *m = mil_module_create("rules");
    arena *a = arena_create();
    const mil_function *f = grad_spec(m, "f", code, spec, &below);
    mil_function *joint;
    EXPECT_OK(grad_function(f, "joint", NULL, 0, &joint, &err));
    double ones[64];
    for (int i = 0; i < 64; i++) ones[i] = 1;
    mil_tensor in[] = {{f->params[0]->type, (double *)(uintptr_t)x}, {f->results[0]->type, ones}}, *out;
    EXPECT_OK(mil_eval_function(joint, in, true, a, &out, &err)); /* rounded as if stored */
    memcpy(dx, out[1].data, (size_t)count * sizeof *dx);
    arena_free(a);
    mil_module_free(m);
}

/* Equal largest elements share the gradient, a zero vector's norm has no direction, and clip passes at its bounds. */
TEST(kinks) {
    double dx[6];
    gradient_at(MIL_OP_reduce_max, "x[6] axes={0}", (double[]){1, 5, 2, 5, 5, 0}, dx, 6);
    EXPECT(dx[0] == 0 && fabs(dx[1] - 1.0 / 3) < 1e-7 && dx[1] == dx[3] && dx[3] == dx[4] && dx[5] == 0);
    gradient_at(MIL_OP_reduce_l2_norm, "x[3] axes={0}", (double[]){0, 0, 0}, dx, 3);
    EXPECT(dx[0] == 0 && dx[1] == 0 && dx[2] == 0);
    gradient_at(MIL_OP_clip, "x[4] alpha=-1.0 beta=2.0", (double[]){-1, 2, -1.5, 3}, dx, 4);
    EXPECT(dx[0] == 1 && dx[1] == 1 && dx[2] == 0 && dx[3] == 0);
    gradient_at(MIL_OP_relu, "x[3]", (double[]){-1, 0, 1}, dx, 3);
    EXPECT(dx[0] == 0 && dx[1] == 0 && dx[2] == 1);
}

/* fp16 programs stay finite at the ends of the range wherever the gradient does. */
TEST(half_precision_stays_finite) {
    static const struct {
        mil_opcode code;
        const char *mode;
    } ops[] = {{MIL_OP_silu, NULL},
               {MIL_OP_gelu, "EXACT"},
               {MIL_OP_gelu, "TANH_APPROXIMATION"},
               {MIL_OP_gelu, "SIGMOID_APPROXIMATION"},
               {MIL_OP_sigmoid, NULL},
               {MIL_OP_tanh, NULL},
               {MIL_OP_erf, NULL},
               {MIL_OP_softplus, NULL},
               {MIL_OP_softsign, NULL},
               {MIL_OP_softmax, NULL}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        propane_error err = {0};
        mil_module *m = mil_module_create("half");
        arena *a = arena_create();
        mil_builder b;
        int64_t dim[] = {8};
        mil_type type = mil_type_tensor(MIL_fp16, 1, dim);
        mil_build_begin(&b, m, "f", MIL_IOS18);
        mil_value *x = mil_build_param(&b, "x", type), *mode = ops[i].mode ? mil_build_text(&b, ops[i].mode) : NULL;
        mil_op *op =
            mil_build_op(&b, ops[i].code, "y", (mil_argument[]){{"x", 1, &x}, {"mode", 1, &mode}}, mode ? 2 : 1);
        mil_build_result(&b, op->results[0]);
        EXPECT_OK(mil_build_end(&b, &err));
        mil_function *joint;
        EXPECT_OK(grad_function(b.function, "joint", NULL, 0, &joint, &err));
        double data[8] = {-60000, -300, -12, -0.001, 0, 12, 300, 60000}, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        mil_tensor in[] = {{type, data}, {type, ones}}, *out;
        EXPECT_OK(mil_eval_function(joint, in, true, a, &out, &err));
        for (int k = 0; k < 8; k++)
            EXPECT_MSG(isfinite(out[1].data[k]) && fabs(out[1].data[k]) < 1.2, "%s %s at %g: %g",
                       mil_op_get(ops[i].code)->name, ops[i].mode ? ops[i].mode : "", data[k], out[1].data[k]);
        arena_free(a);
        mil_module_free(m);
    }
}

/* ---- norms that a program spells out ---------------------------------------------------------------------------------- */

enum { NORM_ROWS = 3, NORM_WIDTH = 64 };

/* v * rsqrt(sum of (k v)^2 + eps): with a reduce_mean instead of k, or with the root on the left. */
static mil_function *norm_of(mil_module *m, mil_dtype dtype, double k, bool mean, bool left) {
    propane_error err = {0};
    mil_builder b;
    const int64_t dim[] = {NORM_ROWS, NORM_WIDTH}, axis = 1;
    mil_build_begin(&b, m, "f", MIL_IOS18);
    mil_value *v = mil_build_param(&b, "v", mil_type_tensor(dtype, 2, dim));
    mil_value *small = k == 1 ? v : mil_build_binary_scalar(&b, MIL_OP_mul, v, k);
    mil_value *sum = mil_build_reduce(&b, mean ? MIL_OP_reduce_mean : MIL_OP_reduce_sum,
                                      mil_build_unary(&b, MIL_OP_square, small), &axis, 1, true);
    mil_value *epsilon = mil_build_scalar(&b, dtype, 0x1p-20);
    mil_op *root =
        mil_build_op(&b, MIL_OP_rsqrt, "root", (mil_argument[]){{"x", 1, &sum}, {"epsilon", 1, &epsilon}}, 2);
    mil_value *r = root->results[0];
    mil_build_result(&b, mil_build_binary(&b, MIL_OP_mul, left ? r : v, left ? v : r));
    EXPECT_OK(mil_build_end(&b, &err));
    return b.function;
}

/* In fp16, values of 0.02 have a root near 50, and its cube times a sum would not be finite. */
static void norm_in_half(const mil_function *f, double mean_of_squares, const char *what) {
    propane_error err = {0};
    mil_function *joint;
    arena *a = arena_create();
    double data[NORM_ROWS * NORM_WIDTH], dz[NORM_ROWS * NORM_WIDTH], most = 0, worst = 0;
    EXPECT_OK(grad_function(f, "joint", NULL, 0, &joint, &err));
    for (int i = 0; i < NORM_ROWS * NORM_WIDTH; i++)
        data[i] = 0.02 * sin(1 + 2.3 * i), dz[i] = 100 * cos(1.7 * i) + 80 * sin(1 + 2.3 * i);
    const mil_type type = f->params[0]->type;
    mil_tensor in[] = {{type, data}, {type, dz}}, *out;
    EXPECT_OK(mil_eval_function(joint, in, true, a, &out, &err));
    for (int row = 0; row < NORM_ROWS; row++) {
        const double *v = data + row * NORM_WIDTH, *d = dz + row * NORM_WIDTH;
        double squares = 0x1p-20, along = 0;
        for (int i = 0; i < NORM_WIDTH; i++) squares += v[i] * v[i] * mean_of_squares, along += v[i] * d[i];
        for (int i = 0; i < NORM_WIDTH; i++) {
            const double want = d[i] / sqrt(squares) - v[i] * along * mean_of_squares / pow(squares, 1.5);
            most = fmax(most, fabs(want));
            worst = fmax(worst, fabs(out[1].data[row * NORM_WIDTH + i] - want));
        }
    }
    EXPECT_MSG(worst < 0.02 * most, "%s: off by %g of %g", what, worst, most);
    arena_free(a);
}

TEST(norms_that_are_spelt_out) {
    static const struct {
        double k;
        bool mean, left;
        const char *what;
    } forms[] = {{0.125, false, false, "a scale and a sum"},
                 {1, true, false, "a mean"},
                 {0.5, true, true, "a scale and a mean, the root on the left"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const double squares = forms[i].k * forms[i].k / (forms[i].mean ? NORM_WIDTH : 1);
        mil_module *m = mil_module_create("norm");
        norm_in_half(norm_of(m, MIL_fp16, forms[i].k, forms[i].mean, forms[i].left), squares, forms[i].what);
        mil_module_free(m);
        m = mil_module_create("norm");
        grad_check_drawn(norm_of(m, MIL_fp16, forms[i].k, forms[i].mean, forms[i].left), MIL_DRAW_any, 0, 7 + i,
                         half_tolerance, forms[i].what);
        mil_module_free(m);
    }
}

SUITE("grad/rules", T(norms_that_are_spelt_out), T(every_rule_equals_finite_differences),
      T(every_shared_case_equals_finite_differences), T(rows_without_a_gradient_are_named), T(product_with_zeros),
      T(kinks), T(half_precision_stays_finite))
