/* SPDX-License-Identifier: MIT
 * Layers with constant weights and images with innermost channels. Small networks of a layer, an addition, an
 * activation and a reader of the result are compared with the slow reference. Sizes are below, at and above the tiles
 * of every instruction set. One thread and several must produce the same bits.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "core/mil/build.h"
#include "core/mil/ops.h"
#include "cpu/plan/plan.h"
#include "support/test.h"

typedef enum act { NONE, RELU, RELU6, CLIP, HARD_SWISH, THRESHOLD, SWISH, SILU, GELU, TANH } act;
typedef enum tail {
    ALONE,
    MAX_POOL,
    AVG_POOL,
    DEPTHWISE,
    MEAN,
    SQUEEZE,
    CONCAT,
    TURNED,
    SECOND,
    PROJECT,
    PROJECT_ADD,
    EXCITE,
    EXCITE_2
} tail;

typedef struct net {
    int64_t n, c, h, w, out; /* linear: h = 0, w rows */
    int kernel, stride, pad, dilation;
    bool bias, sum;
    act act;
    tail tail;
} net;

static const net nets[] = {
    {1, 3, 19, 23, 16, 3, 2, 1, 1, true, false, HARD_SWISH, ALONE},
    {1, 3, 30, 31, 40, 7, 2, 3, 1, true, false, RELU, MAX_POOL},
    {2, 8, 9, 14, 64, 3, 1, 1, 1, false, true, RELU, SECOND},
    {1, 33, 7, 7, 70, 3, 1, 1, 1, true, true, RELU6, AVG_POOL},
    {1, 64, 14, 7, 33, 1, 1, 0, 1, true, true, NONE, MEAN},
    {1, 17, 15, 15, 24, 1, 2, 0, 1, true, false, SWISH, DEPTHWISE},
    {1, 72, 28, 29, 72, 1, 1, 0, 1, true, false, SILU, DEPTHWISE},
    {1, 19, 5, 40, 31, 3, 1, 2, 2, true, false, GELU, SQUEEZE},
    {2, 16, 6, 5, 8, 5, 1, 2, 1, false, true, CLIP, CONCAT},
    {1, 12, 16, 16, 48, 4, 4, 0, 1, true, false, NONE, TURNED},
    {2, 3, 32, 33, 21, 8, 8, 0, 1, true, false, NONE, TURNED}, /* channels with gaps between them are read in place */
    {1, 4, 9, 10, 17, 1, 2, 0, 1, true, true, RELU, ALONE},
    {1, 1024, 4, 9, 40, 1, 1, 0, 1, true, true, RELU, ALONE}, /* points that map to the same cache lines */
    {1, 1300, 3, 8, 65, 1, 1, 0, 1, true, true, TANH, ALONE}, /* several passes */
    {1, 130, 2, 3, 9, 3, 1, 1, 1, true, false, RELU, ALONE},
    {1, 20, 12, 12, 37, 3, 1, 1, 1, true, true, THRESHOLD, DEPTHWISE},
    {1, 64, 14, 14, 64, 3, 1, 1, 1, true, false, RELU, ALONE}, /* Winograd filtering */
    {2, 67, 9, 11, 81, 3, 1, 0, 1, false, true, SILU, MEAN},
    {1, 80, 10, 13, 64, 3, 1, 2, 1, true, true, HARD_SWISH, SECOND},
    {1, 48, 0, 4, 96, 0, 0, 0, 0, true, false, GELU, ALONE},
    {1, 2048, 0, 29, 72, 0, 0, 0, 0, true, true, GELU, ALONE},
    {3, 50, 0, 13, 33, 0, 0, 0, 0, false, true, HARD_SWISH, ALONE},
    {1, 96, 0, 197, 130, 0, 0, 0, 0, true, false, NONE, ALONE},
};

/* Steps of several layers: their images are large if a 1x1 convolution is included. */
static const net blocks[] = {
    {1, 17, 23, 29, 40, 1, 1, 0, 1, true, false, RELU, DEPTHWISE},
    {1, 16, 60, 61, 64, 1, 1, 0, 1, true, false, RELU, PROJECT},
    {2, 9, 53, 62, 73, 1, 1, 0, 1, false, false, SILU, PROJECT},
    {1, 3, 113, 127, 64, 3, 2, 1, 1, true, false, HARD_SWISH, PROJECT_ADD},
    {2, 5, 57, 63, 65, 3, 1, 1, 1, false, false, TANH, PROJECT_ADD},
    {1, 24, 14, 14, 72, 1, 1, 0, 1, true, false, RELU, EXCITE},
    {2, 20, 28, 9, 45, 1, 1, 0, 1, true, false, HARD_SWISH, EXCITE},
    {1, 40, 7, 7, 130, 1, 1, 0, 1, true, false, GELU, EXCITE},
    {1, 256, 9, 7, 33, 1, 1, 0, 1, true, false, RELU, EXCITE_2},
    {2, 4, 41, 39, 24, 5, 2, 2, 1, true, false, RELU, EXCITE_2},
};

static mil_value *weights(mil_builder *b, rng *r, int rank, const int64_t *dim, double size) {
    const mil_type type = mil_type_tensor(MIL_fp32, rank, dim);
    const int64_t count = mil_type_count(&type);
    double *data = mem_array((size_t)count, sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = mil_round(MIL_fp32, size * (2 * rng_unit(r) - 1));
    mil_value *v = mil_build_const_f64(b, NULL, &type, data);
    mem_free(data);
    return v;
}

static mil_value *only(mil_op *op) { return op ? op->results[0] : NULL; }

static mil_value *conv(mil_builder *b, rng *r, mil_value *x, const net *t, int64_t out, int64_t groups, bool bias) {
    const int64_t c = x->type.dim[1], k = t->kernel;
    mil_value *w = weights(b, r, 4, (int64_t[]){out, c / groups, k, k}, 1 / sqrt((double)(c / groups * k * k)));
    mil_value *shift = bias ? weights(b, r, 1, &out, 0.5) : NULL, *count = mil_build_int(b, (int32_t)groups);
    mil_value *type = mil_build_text(b, "custom");
    mil_value *pad = mil_build_ints(b, (int64_t[]){t->pad, t->pad, t->pad, t->pad}, 4);
    mil_value *strides = mil_build_ints(b, (int64_t[]){t->stride, t->stride}, 2);
    mil_value *dilations = mil_build_ints(b, (int64_t[]){t->dilation, t->dilation}, 2);
    const mil_argument in[] = {{"x", 1, &x},          {"weight", 1, &w},        {"pad_type", 1, &type},
                               {"pad", 1, &pad},      {"strides", 1, &strides}, {"dilations", 1, &dilations},
                               {"groups", 1, &count}, {"bias", 1, &shift}};
    return only(mil_build_op(b, MIL_OP_conv, NULL, in, bias ? 8 : 7));
}

static mil_value *linear(mil_builder *b, rng *r, mil_value *x, int64_t out, bool bias) {
    const int64_t c = x->type.dim[x->type.rank - 1];
    mil_value *w = weights(b, r, 2, (int64_t[]){out, c}, 1 / sqrt((double)c));
    mil_value *shift = bias ? weights(b, r, 1, &out, 0.5) : NULL;
    const mil_argument in[] = {{"x", 1, &x}, {"weight", 1, &w}, {"bias", 1, &shift}};
    return only(mil_build_op(b, MIL_OP_linear, NULL, in, bias ? 3 : 2));
}

static mil_value *with_numbers(mil_builder *b, mil_opcode code, mil_value *x, double alpha, double beta) {
    mil_value *p = mil_build_scalar(b, MIL_fp32, alpha), *q = mil_build_scalar(b, MIL_fp32, beta);
    const mil_argument in[] = {{"x", 1, &x}, {"alpha", 1, &p}, {"beta", 1, &q}};
    return only(mil_build_op(b, code, NULL, in, 3));
}

static mil_value *with_alpha(mil_builder *b, mil_opcode code, mil_value *x, double alpha) {
    mil_value *p = mil_build_scalar(b, MIL_fp32, alpha);
    const mil_argument in[] = {{"x", 1, &x}, {"alpha", 1, &p}};
    return only(mil_build_op(b, code, NULL, in, 2));
}

static mil_value *function(mil_builder *b, act f, mil_value *x) {
    switch (f) {
    case RELU: return mil_build_unary(b, MIL_OP_relu, x);
    case RELU6: return mil_build_unary(b, MIL_OP_relu6, mil_build_binary_scalar(b, MIL_OP_mul, x, 6));
    case CLIP: return with_numbers(b, MIL_OP_clip, x, -0.25, 0.5);
    case HARD_SWISH: return mil_build_binary(b, MIL_OP_mul, x, with_numbers(b, MIL_OP_sigmoid_hard, x, 1.0 / 6, 0.5));
    case THRESHOLD: /* the form that coremltools writes */
        x = with_alpha(b, MIL_OP_thresholded_relu, x, -0.75);
        return mil_build_binary(b, MIL_OP_mul, x, with_numbers(b, MIL_OP_sigmoid_hard, x, 2.0 / 3, 0.5));
    case SWISH: return mil_build_binary(b, MIL_OP_mul, mil_build_unary(b, MIL_OP_sigmoid, x), x);
    case SILU: return mil_build_unary(b, MIL_OP_silu, x);
    case TANH: return mil_build_unary(b, MIL_OP_tanh, x);
    case GELU: return mil_build_unary(b, MIL_OP_gelu, x);
    default: return x;
    }
}

static mil_value *pool(mil_builder *b, mil_opcode code, mil_value *x) {
    mil_value *sizes = mil_build_ints(b, (int64_t[]){3, 2}, 2), *strides = mil_build_ints(b, (int64_t[]){2, 1}, 2);
    mil_value *type = mil_build_text(b, "same"), *exclude = mil_build_bool(b, true);
    const mil_argument in[] = {{"x", 1, &x},
                               {"kernel_sizes", 1, &sizes},
                               {"strides", 1, &strides},
                               {"pad_type", 1, &type},
                               {"exclude_padding_from_average", 1, &exclude}};
    return only(mil_build_op(b, code, NULL, in, code == MIL_OP_avg_pool ? 5 : 4));
}

/* Builds squeeze and excitation, and the convolution that reads its result. */
static mil_value *excited(mil_builder *b, rng *r, mil_value *y, int64_t out) {
    const net one = {.kernel = 1, .stride = 1, .dilation = 1};
    const int64_t axes[2] = {2, 3}, channels = y->type.dim[1];
    mil_value *g = mil_build_reduce(b, MIL_OP_reduce_mean, y, axes, 2, true);
    g = function(b, RELU, conv(b, r, g, &one, 11, 1, true));
    g = with_numbers(b, MIL_OP_sigmoid_hard, conv(b, r, g, &one, channels, 1, true), 1, 0.2);
    return function(b, RELU, conv(b, r, mil_build_binary(b, MIL_OP_mul, g, y), &one, out, 1, true));
}

static void build_tail(mil_builder *b, rng *r, const net *t, mil_value *y) {
    const int64_t axes[2] = {2, 3};
    const net five = {.kernel = 5, .stride = 2, .pad = 2, .dilation = 1},
              three = {.kernel = 3, .stride = 1, .pad = 1, .dilation = 1},
              wide = {.kernel = 5, .stride = 1, .pad = 2, .dilation = 1},
              two = {.kernel = 3, .stride = 2, .pad = 0, .dilation = 1},
              one = {.kernel = 1, .stride = 1, .dilation = 1};
    mil_value *parts[2] = {y, NULL};
    switch (t->tail) {
    case MAX_POOL: y = pool(b, MIL_OP_max_pool, y); break;
    case AVG_POOL: y = pool(b, MIL_OP_avg_pool, y); break;
    case DEPTHWISE:
        y = function(b, HARD_SWISH, conv(b, r, y, &five, t->out, t->out, true));
        y = function(b, RELU, conv(b, r, y, &three, t->out, t->out, false));
        break;
    case MEAN: y = mil_build_reduce(b, MIL_OP_reduce_mean, y, axes, 2, true); break;
    case SQUEEZE:
        parts[1] =
            with_numbers(b, MIL_OP_sigmoid_hard, mil_build_reduce(b, MIL_OP_reduce_mean, y, axes, 2, true), 1, 0.2);
        y = mil_build_binary(b, MIL_OP_mul, y, parts[1]);
        break;
    case CONCAT:
        parts[1] = mil_build_unary(b, MIL_OP_tanh, y);
        y = mil_build_concat(b, parts, 2, 1);
        break;
    case TURNED: y = mil_build_transpose(b, y, (int64_t[]){0, 2, 3, 1}, 4); break;
    case SECOND: /* the value itself is also a result */
        mil_build_result(b, y);
        y = mil_build_binary(b, MIL_OP_add, conv(b, r, y, &three, t->out, 1, true), y);
        break;
    case PROJECT: y = conv(b, r, conv(b, r, y, &five, t->out, t->out, true), &one, 24, 1, true); break;
    case PROJECT_ADD:
        parts[1] = function(b, RELU, conv(b, r, y, &three, t->out, t->out, false));
        y = mil_build_binary(b, MIL_OP_add, y, conv(b, r, parts[1], &one, t->out, 1, true));
        break;
    case EXCITE: y = excited(b, r, function(b, HARD_SWISH, conv(b, r, y, &wide, t->out, t->out, true)), 37); break;
    case EXCITE_2: y = excited(b, r, function(b, GELU, conv(b, r, y, &two, t->out, t->out, false)), 16); break;
    default: break;
    }
    mil_build_result(b, y);
}

static mil_module *make(const net *t, mil_builder *b) {
    mil_module *m = mil_module_create("channels");
    rng r;
    rng_init(&r, 5);
    mil_build_begin(b, m, "main", MIL_IOS18);
    const bool matrix = !t->h;
    const int64_t image[4] = {t->n, t->c, t->h, t->w}, rows[3] = {t->n, t->w, t->c};
    mil_value *x = mil_build_param(b, "x", mil_type_tensor(MIL_fp32, matrix ? 3 : 4, matrix ? rows : image));
    mil_value *y = matrix ? linear(b, &r, x, t->out, t->bias) : conv(b, &r, x, t, t->out, 1, t->bias);
    if (t->sum) {
        mil_value *other = matrix ? linear(b, &r, x, t->out, false) : conv(b, &r, x, t, t->out, 1, false);
        y = mil_build_binary(b, MIL_OP_add, mil_build_unary(b, MIL_OP_abs, other), y);
    }
    build_tail(b, &r, t, function(b, t->act, y));
    return m;
}

/* Observed: 6.2e-6 of the largest element, or of 1, with Winograd filtering; 1.4e-6 elsewhere. */
static const double bound = 1.5e-5;

static void run(const mil_function *f, cpu_isa isa, int threads, const mil_tensor *in, float **out, int *steps) {
    const cpu_plan_options options = {.kernels = cpu_kernels_of(isa), .guard = true, .fuse = true, .threads = threads};
    propane_error err = {0};
    arena *a = arena_create();
    cpu_program *program = NULL;
    EXPECT_OK(cpu_plan_compile(f, &options, a, &program, &err));
    EXPECT_OK(cpu_program_memory_check(program, &err));
    program->poison = true;
    void *input = mem_alloc(program->inputs[0].bytes), *outputs[2] = {0};
    mil_pack_f64(input, MIL_fp32, in->data, mil_type_count(&in->type));
    for (int i = 0; i < program->output_count; i++) outputs[i] = out[i] = mem_alloc(program->outputs[i].bytes);
    void *block = mem_pages_alloc((size_t)program->block_bytes + 64);
    EXPECT_OK(cpu_program_run(program, block, &input, outputs, &err));
    EXPECT(program->reference_count == 0);
    *steps = program->step_count;
    mem_pages_free(block, (size_t)program->block_bytes + 64);
    mem_free(input);
    cpu_program_deinit(program);
    arena_free(a);
}

/* Makes a random input for a function of one parameter. */
static mil_tensor input_of(const mil_function *f, arena *a) {
    const mil_type type = f->params[0]->type;
    const mil_tensor in = {type, arena_array(a, (size_t)mil_type_count(&type), sizeof(double))};
    rng r;
    rng_init(&r, 9);
    for (int64_t i = 0; i < mil_type_count(&type); i++) in.data[i] = mil_round(MIL_fp32, 2 * rng_unit(&r) - 1);
    return in;
}

/* Compares one network on one instruction set. */
static void compare(const mil_function *f, size_t index, cpu_isa isa, const mil_tensor *in, const mil_tensor *want,
                    double *worst) {
    float *one[2] = {0}, *all[2] = {0};
    int steps;
    run(f, isa, 1, in, one, &steps);
    run(f, isa, 0, in, all, &steps);
    for (int k = 0; k < f->result_count; k++) {
        const int64_t count = mil_type_count(&want[k].type);
        double largest = 1;
        EXPECT_MSG(!memcmp(one[k], all[k], (size_t)count * sizeof(float)), "net %zu: other bits with one thread",
                   index);
        for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(want[k].data[i]));
        for (int64_t i = 0; i < count; i++) {
            const double error = fabs((double)all[k][i] - want[k].data[i]) / largest;
            EXPECT_MSG(error <= bound, "%s net %zu: result %d element %lld is %g, not %g", cpu_isa_name(isa), index, k,
                       (long long)i, (double)all[k][i], want[k].data[i]);
            *worst = fmax(*worst, error);
        }
        mem_free(one[k]);
        mem_free(all[k]);
    }
}

static void compare_all(const net *list, size_t count) {
    double worst[CPU_ISA_COUNT] = {0};
    for (size_t i = 0; i < count; i++) {
        mil_builder b = {0};
        propane_error err = {0};
        mil_module *m = make(&list[i], &b);
        EXPECT_OK(mil_build_end(&b, &err));
        arena *a = arena_create();
        mil_tensor in = input_of(b.function, a), *want = NULL;
        EXPECT_OK(mil_eval_function(b.function, &in, false, a, &want, &err));
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
            if (cpu_isa_available((cpu_isa)isa)) compare(b.function, i, (cpu_isa)isa, &in, want, &worst[isa]);
        arena_free(a);
        mil_module_free(m);
    }
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        if (cpu_isa_available((cpu_isa)isa))
            printf("  %s: largest error %.1e\n", cpu_isa_name((cpu_isa)isa), worst[isa]);
}

TEST(networks_agree_with_the_meanings) { compare_all(nets, sizeof nets / sizeof nets[0]); }

TEST(layers_in_one_step_agree_with_the_meanings) { compare_all(blocks, sizeof blocks / sizeof blocks[0]); }

static int steps_of(net t) {
    mil_builder b = {0};
    propane_error err = {0};
    mil_module *m = make(&t, &b);
    EXPECT_OK(mil_build_end(&b, &err));
    arena *a = arena_create();
    mil_tensor in = input_of(b.function, a);
    float *out[2] = {0};
    int steps;
    run(b.function, cpu_isa_best(), 0, &in, out, &steps);
    mem_free(out[0]);
    mem_free(out[1]);
    arena_free(a);
    mil_module_free(m);
    return steps;
}

/* The second step copies the result, whose channels have gaps again. */
TEST(a_layer_is_one_step) {
    EXPECT(steps_of((net){1, 16, 8, 8, 32, 3, 1, 1, 1, true, false, HARD_SWISH, ALONE}) == 2);
    EXPECT(steps_of((net){1, 16, 8, 8, 32, 3, 1, 1, 1, true, false, THRESHOLD, ALONE}) == 2);
    EXPECT(steps_of((net){1, 16, 8, 8, 32, 3, 1, 1, 1, true, false, RELU, TURNED}) == 1);
    EXPECT(steps_of((net){1, 16, 8, 8, 32, 3, 1, 1, 1, true, false, SWISH, MAX_POOL}) == 3);
    EXPECT(steps_of((net){1, 16, 0, 8, 32, 0, 0, 0, 0, true, false, GELU, ALONE}) == 1);
    EXPECT(steps_of((net){1, 16, 0, 8, 32, 0, 0, 0, 0, true, true, GELU, ALONE}) == 2); /* the other layer, with abs */
}

/* With a copy at the end, as above. */
TEST(layers_behind_one_another_are_one_step) {
    EXPECT(steps_of((net){1, 16, 9, 8, 32, 1, 1, 0, 1, true, false, RELU, DEPTHWISE}) == 3);
    /* Too small to include the projection. */
    EXPECT(steps_of((net){1, 16, 9, 8, 32, 1, 1, 0, 1, true, false, RELU, PROJECT}) == 3);
    EXPECT(steps_of((net){1, 16, 60, 61, 64, 1, 1, 0, 1, true, false, RELU, PROJECT}) == 2);
    EXPECT(steps_of((net){1, 3, 113, 127, 64, 3, 2, 1, 1, true, false, RELU, PROJECT_ADD}) == 2);
    /* The mean with the layers, two products, two functions, the factors with the convolution. */
    EXPECT(steps_of((net){1, 24, 14, 14, 72, 1, 1, 0, 1, true, false, RELU, EXCITE}) == 7);
}

/* Attention in an image: every row sees all keys. */
TEST(open_attention_is_one_step) {
    mil_builder b = {0};
    propane_error err = {0};
    mil_module *m = mil_module_create("attention");
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_value *x = mil_build_param(&b, "x", mil_type_tensor(MIL_fp32, 4, (const int64_t[]){1, 2, 37, 24}));
    mil_value *scores = mil_build_matmul(&b, x, mil_build_unary(&b, MIL_OP_tanh, x), false, true);
    mil_value *p = mil_build_softmax(&b, mil_build_binary_scalar(&b, MIL_OP_mul, scores, 0.25), 3);
    mil_build_result(&b, mil_build_matmul(&b, p, mil_build_unary(&b, MIL_OP_abs, x), false, false));
    EXPECT_OK(mil_build_end(&b, &err));
    arena *a = arena_create();
    mil_tensor in = input_of(b.function, a), *want = NULL;
    EXPECT_OK(mil_eval_function(b.function, &in, false, a, &want, &err));
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        float *out[2] = {0};
        int steps;
        if (!cpu_isa_available((cpu_isa)isa)) continue;
        run(b.function, (cpu_isa)isa, 0, &in, out, &steps);
        /* The two functions are the other step. */
        EXPECT_MSG(steps == 2, "%s: %d steps", cpu_isa_name((cpu_isa)isa), steps);
        for (int64_t i = 0; i < mil_type_count(&in.type); i++)
            EXPECT_MSG(fabs((double)out[0][i] - want[0].data[i]) <= 1e-6, "%s: element %lld", /* observed 2.1e-7 */
                       cpu_isa_name((cpu_isa)isa), (long long)i);
        mem_free(out[0]);
    }
    arena_free(a);
    mil_module_free(m);
}

SUITE("cpu/conv", T(networks_agree_with_the_meanings), T(layers_in_one_step_agree_with_the_meanings),
      T(a_layer_is_one_step), T(layers_behind_one_another_are_one_step), T(open_attention_is_one_step))
