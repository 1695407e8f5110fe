/* SPDX-License-Identifier: MIT
 * Operations that are written out before they are differentiated: recurrent layers, counted loops and branches. The
 * written-out function computes what the operation does, its results keep their names, and its gradients equal finite
 * differences.
 */
#include <math.h>
#include <string.h>

#include "core/grad/grad.h"
#include "core/mil/function_copy.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"
#include "support/grad_check.h"
#include "support/op_cases.h"
#include "support/test.h"

/* Largest seen: 5.8e-9. */
static const double tolerance = 1e-6;

static mil_function *written_out(const mil_function *f) {
    propane_error err = {0};
    const char *names[16];
    mil_function *copy = NULL;
    EXPECT_OK(mil_function_copy(f, f->module, "written", &copy, &err));
    for (int i = 0; i < copy->param_count; i++) names[i] = copy->params[i]->name;
    EXPECT_OK(pass_unroll(copy, names, copy->param_count, &err));
    EXPECT_OK(mil_verify(f->module, &err));
    EXPECT(copy->result_count == f->result_count);
    for (int i = 0; i < f->result_count; i++) EXPECT_TEXT(copy->results[i]->name, f->results[i]->name);
    return copy;
}

static void compute_alike(const mil_function *a, const mil_function *b, const mil_tensor *inputs, const char *what) {
    propane_error err = {0};
    arena *memory = arena_create();
    mil_tensor *x = NULL, *y = NULL;
    EXPECT_OK(mil_eval_function(a, inputs, false, memory, &x, &err));
    EXPECT_OK(mil_eval_function(b, inputs, false, memory, &y, &err));
    for (int i = 0; i < a->result_count; i++)
        for (int64_t k = 0; k < mil_type_count(&a->results[i]->type); k++)
            EXPECT_MSG(fabs(x[i].data[k] - y[i].data[k]) <= 1e-6 * (1 + fabs(x[i].data[k])),
                       "%s: result %d[%lld]: %g, %g", what, i, (long long)k, x[i].data[k], y[i].data[k]);
    arena_free(memory);
}

static void check_layer(const op_case *c, void *context) {
    int *count = context;
    const bool recurrent = c->code == MIL_OP_lstm || c->code == MIL_OP_gru || c->code == MIL_OP_rnn;
    if (!recurrent || c->dtype != MIL_fp32) return;
    const mil_function *f = written_out(c->function);
    compute_alike(c->function, f, c->inputs, c->label);
    (void)grad_check_some(f, c->inputs, c->smooth, 7, tolerance, c->label);
    ++*count;
}

TEST(recurrent_layers) {
    int count = 0;
    op_cases_each(OP_CASES_ALL, 1, check_layer, &count);
    EXPECT_MSG(count >= 10, "%d cases", count);
}

/* Every operand but the integers has a gradient, in programs of fp32. */
static void check_quantized(const op_case *c, void *context) {
    int *count = context;
    if (c->code != MIL_OP_conv_quantized || c->dtype != MIL_fp32) return;
    const mil_function *f = written_out(c->function);
    compute_alike(c->function, f, c->inputs, c->label);
    (void)grad_check_some(f, c->inputs, c->smooth, 7, tolerance, c->label);
    ++*count;
}

TEST(quantized_convolutions) {
    int count = 0;
    propane_error err = {0};
    op_case *c =
        op_case_make(MIL_OP_conv_quantized, MIL_fp32,
                     "x=[1,4,5] weight=uint8[4,2,3]! bias=[4] quantization_type=linear quant_scale=[4]~positive "
                     "quant_bias=[4] groups=2",
                     3, &err); /* scales that are computed */
    if (!c) ck_abort_msg("%s", err.text);
    EXPECT(c->function->param_count == 4);
    check_quantized(c, &count);
    op_case_free(c);
    op_cases_each(OP_CASES_ALL, 1, check_quantized, &count);
    EXPECT_MSG(count >= 4, "%d cases", count);
}

/* ---- computed positions
 * ------------------------------------------------------------------------------------------------------- */

typedef struct places {
    int count[3]; /* resample, affine, crop_resize */
    double worst;
} places;

/* Reads at positions that are known only at run time. The written-out function computes in fp32 what a half-precision
 * program rounds, so only fp32 programs are compared. */
static void check_places(const op_case *c, void *context) {
    static const mil_opcode codes[] = {MIL_OP_resample, MIL_OP_affine, MIL_OP_crop_resize};
    places *seen = context;
    for (int i = 0; i < 3; i++) {
        if (c->code != codes[i] || c->dtype != MIL_fp32) continue;
        const mil_function *f = written_out(c->function);
        bool gone = true;
        for (const mil_op *op = f->first; op; op = op->next) gone &= op->info->code != codes[i];
        if (!gone) continue; /* the positions are known: see test_rules.c */
        compute_alike(c->function, f, c->inputs, c->label);
        seen->worst = fmax(seen->worst, grad_check_some(f, c->inputs, c->smooth, 7, tolerance, c->label));
        seen->count[i]++;
    }
}

TEST(computed_places_of_the_shared_cases) {
    places seen = {0};
    op_cases_each(OP_CASES_ALL, 1, check_places, &seen);
    printf("grad/unroll: %d resample, %d affine, %d crop_resize at computed places, largest difference %.1e\n",
           seen.count[0], seen.count[1], seen.count[2], seen.worst);
    for (int i = 0; i < 3; i++) EXPECT_MSG(seen.count[i] >= 1, "kind %d: %d cases", i, seen.count[i]);
}

/* Draws x, and positions between low and high. */
static double check_mode(mil_opcode code, const char *spec, double low, double high, uint64_t seed) {
    int below;
    double data[2][200], worst;
    rng r;
    mil_module *m = mil_module_create("places");
    const mil_function *f = grad_spec(m, "f", code, spec, &below), *written = written_out(f);
    mil_tensor inputs[2];
    EXPECT(f->param_count == 2);
    rng_init(&r, seed);
    for (int p = 0; p < 2; p++) {
        const int64_t count = mil_type_count(&f->params[p]->type);
        EXPECT(count <= 200);
        for (int64_t k = 0; k < count; k++) data[p][k] = p ? low + (high - low) * rng_unit(&r) : rng_normal(&r);
        inputs[p] = (mil_tensor){.type = f->params[p]->type, .data = data[p]};
    }
    for (const mil_op *op = written->first; op; op = op->next) EXPECT_MSG(op->info->code != code, "%s", spec);
    compute_alike(f, written, inputs, spec);
    worst = grad_check(written, inputs, seed, tolerance, spec);
    mil_module_free(m);
    return worst;
}

/* Positions inside the image and beyond its edges. The seeds keep them away from the discontinuities of nearest. */
TEST(computed_places_in_every_mode) {
    static const char *const samplings[] = {"bilinear", "nearest"},
                             *const pads[] = {"constant", "border", "reflection", "symmetric"},
                             *const modes[] = {"unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one"};
    static const double low[] = {-1.7, -1.6, -0.4}, high[] = {6.3, 1.6, 1.4};
    double worst = 0;
    char spec[400];
    for (int i = 0; i < 2 * 4 * 3 * 2; i++) {
        const int mode = i / 8 % 3;
        snprintf(spec, sizeof spec,
                 "sampling_mode='%s' padding_mode='%s' padding_value=0.5 coordinates_mode='%s' align_corners=%s",
                 samplings[i % 2], pads[i / 2 % 4], modes[mode], i / 24 ? "true" : "false");
        char whole[500];
        snprintf(whole, sizeof whole, "x[2,3,4,5] coordinates[2,3,2,2] %s", spec);
        worst = fmax(worst, check_mode(MIL_OP_resample, whole, low[mode], high[mode], 11 + (uint64_t)i));
        snprintf(whole, sizeof whole, "x[2,2,4,5] transform_matrix[%d,6] output_height=3 output_width=4 %s",
                 1 + i % 3 % 2, spec);
        worst = fmax(worst, check_mode(MIL_OP_affine, whole, -1.1, 1.2, 300 + (uint64_t)i));
    }
    printf("grad/unroll: resample and affine in every mode, largest difference %.1e\n", worst);
}

TEST(computed_boxes_in_every_mode) {
    static const char *const grids[] = {"DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "OFFSET_CORNERS",
                                        "UNALIGN_CORNERS"},
                             *const modes[] = {"CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST",
                                               "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST"};
    double worst = 0;
    char spec[400];
    for (int i = 0; i < 5 * 4 * 3; i++) {
        const bool roi = i / 20 == 1, normalized = i % 3 == 1;
        snprintf(spec, sizeof spec,
                 "x[2,2,5,6] %s target_height=%d target_width=%d normalized_coordinates=%s spatial_scale=%s "
                 "box_coordinate_mode='%s' sampling_mode='%s' pad_value=0.25",
                 roi      ? "roi[3,1,4,1,1]"
                 : i / 20 ? "boxes[2,4]"
                          : "boxes[3,4] box_indices={1,0,1}",
                 1 + i % 4, 3 - i % 3, normalized ? "true" : "false", i % 7 == 1 ? "0.75" : "1.0", modes[i % 4],
                 grids[i % 5]);
        worst = fmax(worst, check_mode(MIL_OP_crop_resize, spec, normalized ? 0.0 : 0.3, normalized ? 1.1 : 4.4,
                                       200 + (uint64_t)i));
    }
    printf("grad/unroll: crop_resize in every mode, largest difference %.1e\n", worst);
}

/* ---- loops ---------------------------------------------------------------------------------------------------------------------- */

#define HEAD "program(1.3)\n{\n    func main<ios17>("
#define COUNT(limit)                                                                                                   \
    "(int32 i, tensor<fp32, [2, 3]> s) {\n            bool more = less(x = i, y = int32(" limit                        \
    "));\n        } -> (more), (int32 j, tensor<fp32, [2, 3]> t) {\n            int32 k = add(x = j, y = int32(1));\n"

static const char *const loops[] = {
    /* A value from outside the loop, in each of four iterations. */
    HEAD "tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> w) {\n        int32 zero = const()[val = int32(0)];\n"
         "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) " COUNT(
             "4") "            tensor<fp32, [2, 3]> u = mul(x = t, y = w);\n"
                  "            tensor<fp32, [2, 3]> v = sin(x = u);\n        } -> (k, v);\n    } -> (y);\n}\n",
    /* The counter is read as a number; there is a loop in a loop; the result is read again. */
    HEAD
    "tensor<fp32, [2, 3]> x) {\n        int32 zero = const()[val = int32(0)];\n"
    "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) " COUNT(
        "3") "            fp32 f = cast(x = k, dtype = string(\"fp32\"));\n"
             "            tensor<fp32, [2, 3]> u = mul(x = t, y = f);\n"
             "            int32 m, tensor<fp32, [2, 3]> q = while_loop(loop_vars = (j, u)) (int32 a, tensor<fp32, [2, "
             "3]> b) {\n"
             "                bool again = less(x = a, y = int32(3));\n            } -> (again), (int32 c, "
             "tensor<fp32, [2, 3]> d) {\n"
             "                int32 e = add(x = c, y = int32(1));\n"
             "                tensor<fp32, [2, 3]> r = tanh(x = d);\n            } -> (e, r);\n        } -> (k, q);\n"
             "        tensor<fp32, [2, 3]> z = mul(x = y, y = x);\n    } -> (z, y);\n}\n",
    /* Each iteration reads another row. */
    HEAD
    "tensor<fp32, [2, 3]> x) {\n        int32 zero = const()[val = int32(0)];\n"
    "        tensor<int32, [1]> none = const()[val = tensor<int32, [1]>([0])];\n"
    "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) " COUNT(
        "2") "            tensor<int32, [1]> at = expand_dims(x = j, axes = tensor<int32, [1]>([0]));\n"
             "            tensor<int32, [1]> to = expand_dims(x = k, axes = tensor<int32, [1]>([0]));\n"
             "            tensor<int32, [2]> b = concat(values = (at, none), axis = int32(0), interleave = "
             "bool(false));\n"
             "            tensor<int32, [2]> e = concat(values = (to, none), axis = int32(0), interleave = "
             "bool(false));\n"
             "            tensor<fp32, [3]> row = slice_by_index(x = x, begin = b, end = e, end_mask = tensor<bool, "
             "[2]>([false, true]), squeeze_mask = tensor<bool, [2]>([true, false]));\n"
             "            tensor<fp32, [2, 3]> u = mul(x = t, y = row);\n        } -> (k, u);\n    } -> (y);\n}\n",
    /* A loop without iterations: the result is an input. */
    HEAD "tensor<fp32, [2, 3]> x) {\n        int32 zero = const()[val = int32(0)];\n"
         "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) " COUNT(
             "0") "            tensor<fp32, [2, 3]> u = sin(x = t);\n        } -> (k, u);\n"
                  "        tensor<fp32, [2, 3]> z = mul(x = y, y = x);\n    } -> (z, y);\n}\n",
};

static mil_module *parse(const char *program) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(program, strlen(program), "loop.mil", NULL, &m, &err));
    return m;
}

TEST(counted_loops) {
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        mil_module *m = parse(loops[i]);
        const mil_function *f = m->functions, *written = written_out(f);
        for (const mil_op *op = written->first; op; op = op->next) EXPECT(op->info->code != MIL_OP_while_loop);
        double data[2][6];
        mil_tensor inputs[2];
        for (int p = 0; p < f->param_count; p++) {
            for (int k = 0; k < 6; k++) data[p][k] = 0.3 + 0.11 * k - 0.2 * p;
            inputs[p] = (mil_tensor){.type = f->params[p]->type, .data = data[p]};
        }
        compute_alike(f, written, inputs, loops[i]);
        (void)grad_check(written, inputs, 3, tolerance, "a counted loop");
        mil_module_free(m);
    }
}

/* ---- branches --------------------------------------------------------------------------------------------------------------- */

#define BRANCHES(pred)                                                                                                 \
    "        tensor<fp32, [2, 3]> y, tensor<fp32, [2, 3]> same = cond(pred = " pred ") {\n"                            \
    "            tensor<fp32, [2, 3]> a = log(x = x, epsilon = fp32(0));\n"                                            \
    "            tensor<fp32, [2, 3]> b = mul(x = a, y = w);\n        } -> (b, x), {\n"                                \
    "            tensor<fp32, [2, 3]> c = sin(x = x);\n        } -> (c, w);\n"                                         \
    "        tensor<fp32, [2, 3]> z = mul(x = y, y = w);\n    } -> (z, same, y);\n}\n"

static const char *const branches[] = {
    HEAD
    "tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> w) {\n        fp32 mean = reduce_mean(x = x, keep_dims = false);\n"
    "        bool p = greater(x = mean, y = fp32(0.1));\n" BRANCHES("p"),
    HEAD
    "tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> w) {\n        bool p = const()[val = bool(false)];\n" BRANCHES("p"),
    /* A loop whose iterations branch on the counter. */
    HEAD "tensor<fp32, [2, 3]> x) {\n        int32 zero = const()[val = int32(0)];\n"
         "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) " COUNT(
             "3") "            bool odd = equal(x = j, y = int32(1));\n"
                  "            tensor<fp32, [2, 3]> u = cond(pred = odd) {\n"
                  "                tensor<fp32, [2, 3]> a = square(x = t);\n            } -> (a), {\n"
                  "                tensor<fp32, [2, 3]> c = sin(x = t);\n            } -> (c);\n        } -> (k, u);\n"
                  "    } -> (y);\n}\n",
};

static void check_branches(const char *program, double from) {
    mil_module *m = parse(program);
    const mil_function *f = m->functions, *written = written_out(f);
    for (const mil_op *op = written->first; op; op = op->next) EXPECT(op->block_count == 0);
    double data[2][6];
    mil_tensor inputs[2];
    for (int p = 0; p < f->param_count; p++) {
        for (int k = 0; k < 6; k++) data[p][k] = from + 0.11 * k + 0.2 * p;
        inputs[p] = (mil_tensor){.type = f->params[p]->type, .data = data[p]};
    }
    compute_alike(f, written, inputs, program);
    (void)grad_check(written, inputs, 3, tolerance, "a cond");
    mil_module_free(m);
}

/* From -0.55 on, the second branch is taken, and the last x of the first, a logarithm without epsilon, is exactly zero
 * there. */
TEST(conditions) {
    for (size_t i = 0; i < sizeof branches / sizeof branches[0]; i++) {
        check_branches(branches[i], -0.55);
        check_branches(branches[i], 0.3);
    }
}

TEST(branches_with_states_are_refused) {
    static const char program[] =
        "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [2, 3]> x, bool p, state<tensor<fp32, [2, 3]>> s) {\n"
        "        tensor<fp32, [2, 3]> y = cond(pred = p) {\n            tensor<fp32, [2, 3]> a = read_state(input = "
        "s);\n"
        "            tensor<fp32, [2, 3]> b = mul(x = a, y = x);\n        } -> (b), {\n"
        "            tensor<fp32, [2, 3]> c = sin(x = x);\n        } -> (c);\n    } -> (y);\n}\n";
    propane_error err = {0};
    const char *const x[] = {"x"};
    mil_module *m = parse(program);
    EXPECT_FAIL(pass_unroll(m->functions, x, 1, &err), PROPANE_ERR_UNSUPPORTED, "'s', which is a list or a state");
    mil_module_free(m);
}

/* The number of iterations, up to a limit, follows from the inputs. */
#define LIMITED(condition, body)                                                                                       \
    HEAD "tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> w, int32 n) {\n        int32 zero = const()[val = int32(0)];\n" \
         "        int32 m, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) (int32 i, tensor<fp32, [2, 3]> " \
         "s) {\n" condition "        } -> (more), (int32 j, tensor<fp32, [2, 3]> t) {\n"                               \
         "            int32 k = add(x = j, y = int32(1));\n" body "        } -> (k, v);\n"                             \
         "        fp32 rounds = cast(x = m, dtype = string(\"fp32\"));\n"                                              \
         "        tensor<fp32, [2, 3]> z = mul(x = y, y = rounds);\n    } -> (z);\n}\n"

static const char *const limited[] = {
    /* An iteration that ends when it is good enough, or after 6 steps. */
    LIMITED(
        "            fp32 size = reduce_sum(x = s, keep_dims = false);\n"
        "            bool small = less(x = size, y = fp32(20));\n            bool few = less(x = i, y = int32(6));\n"
        "            bool more = logical_and(x = small, y = few);\n",
        "            tensor<fp32, [2, 3]> u = exp(x = w);\n            tensor<fp32, [2, 3]> v = mul(x = t, y = u);\n"),
    /* An input sets the count, up to 5. In later iterations the body would be NaN, since 3 - t is negative. */
    LIMITED("            int32 end = minimum(x = n, y = int32(5));\n            bool more = greater(x = end, y = i);\n",
            "            tensor<fp32, [2, 3]> u = sub(x = fp32(3), y = t);\n            tensor<fp32, [2, 3]> l = "
            "sqrt(x = u);\n"
            "            tensor<fp32, [2, 3]> a = mul(x = l, y = w);\n            tensor<fp32, [2, 3]> v = add(x = t, "
            "y = a);\n"),
};

TEST(limited_loops) {
    for (size_t i = 0; i < sizeof limited / sizeof limited[0]; i++)
        for (int rounds = 0; rounds < 4; rounds++) {
            mil_module *m = parse(limited[i]);
            const mil_function *f = m->functions, *written = written_out(f);
            for (const mil_op *op = written->first; op; op = op->next) EXPECT(op->info->code != MIL_OP_while_loop);
            double data[2][6], count = rounds;
            mil_tensor inputs[3];
            for (int p = 0; p < 3; p++)
                inputs[p] = (mil_tensor){.type = f->params[p]->type, .data = p < 2 ? data[p] : &count};
            for (int k = 0; k < 6; k++) {
                data[0][k] = i ? 0.1 + 0.05 * k : 0.4 * rounds + 0.3 + 0.11 * k;
                data[1][k] = 0.3 + 0.07 * k;
            }
            compute_alike(f, written, inputs, limited[i]);
            (void)grad_check(written, inputs, 3, tolerance, "a loop with a limit");
            mil_module_free(m);
        }
}

TEST(what_a_run_decides_is_refused) {
    static const char open_end[] = HEAD
        "tensor<fp32, [2, 3]> x, int32 limit) {\n        int32 zero = const()[val = int32(0)];\n"
        "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) (int32 i, tensor<fp32, [2, 3]> s) "
        "{\n            bool more = less(x = i, y = limit);\n        } -> (more), (int32 j, tensor<fp32, [2, 3]> t) "
        "{\n            int32 k = add(x = j, y = int32(1));\n            tensor<fp32, [2, 3]> u = sin(x = t);\n"
        "        } -> (k, u);\n    } -> (y);\n}\n";
    static const char endless[] = HEAD
        "tensor<fp32, [2, 3]> x) {\n        int32 zero = const()[val = int32(0)];\n"
        "        int32 n, tensor<fp32, [2, 3]> y = while_loop(loop_vars = (zero, x)) " COUNT(
            "1000000000") "            tensor<fp32, [2, 3]> u = sin(x = t);\n        } -> (k, u);\n    } -> (y);\n}\n";
    propane_error err = {0};
    const char *const x[] = {"x"};
    mil_module *m = parse(open_end);
    EXPECT_FAIL(pass_unroll(m->functions, x, 1, &err), PROPANE_ERR_UNSUPPORTED,
                "while_loop 'n': no gradient of a loop whose condition depends on inputs and has no limit");
    mil_module_free(m);
    m = parse(endless);
    EXPECT_FAIL(pass_unroll(m->functions, x, 1, &err), PROPANE_ERR_UNSUPPORTED, "more than 2048 iterations");
    mil_module_free(m);
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------------- */

#define LIST "list<tensor<fp32, [3]>, 2>"
static const char *const lists[] = {
    /* Written, read, packed and scattered by number; an element that was never written is zero. */
    HEAD
    "tensor<fp32, [2, 3]> x, tensor<fp32, [3]> w) {\n"
    "        list<tensor<fp32, [3]>, 4> l0 = make_list(init_length = int32(4), dynamic_length = bool(false), "
    "elem_shape = "
    "(tensor<int32, [1]>([3])), dtype = string(\"fp32\"));\n"
    "        list<tensor<fp32, [3]>, 4> l1 = list_scatter(ls = l0, indices = tensor<int32, [2]>([2, 0]), value = x);\n"
    "        tensor<fp32, [3]> a = list_read(ls = l1, index = int32(2));\n"
    "        tensor<fp32, [3]> b = mul(x = a, y = w);\n"
    "        list<tensor<fp32, [3]>, 4> l2 = list_write(ls = l1, index = int32(2), value = b);\n"
    "        int32 n = list_length(ls = l2);\n        fp32 f = cast(x = n, dtype = string(\"fp32\"));\n"
    "        tensor<fp32, [4, 3]> c = list_gather(ls = l2, indices = tensor<int32, [4]>([1, 2, 0, 2]));\n"
    "        tensor<fp32, [4, 3]> d = sin(x = c);\n        tensor<fp32, [4, 3]> e = mul(x = d, y = f);\n"
    "        tensor<fp32, [3]> g = list_read(ls = l1, index = int32(2));\n    } -> (e, g);\n}\n",
    /* A loop that fills a growing list of scalars and reads its length. */
    HEAD
    "tensor<fp32, [2, 3]> x) {\n        int32 zero = const()[val = int32(0)];\n"
    "        list<fp32, 1> l0 = make_list(init_length = int32(1), dynamic_length = bool(true), elem_shape = "
    "(tensor<int32, [0]>([])), dtype = string(\"fp32\"));\n"
    "        fp32 s = reduce_sum(x = x, keep_dims = false);\n"
    "        int32 m, list<fp32, 1> l, fp32 last = while_loop(loop_vars = (zero, l0, s)) (int32 i, list<fp32, 1> l1, "
    "fp32 s1) {\n"
    "            bool more = less(x = i, y = int32(3));\n        } -> (more), (int32 j, list<fp32, 1> l2, fp32 s2) {\n"
    "            int32 k = add(x = j, y = int32(1));\n            fp32 u = sin(x = s2);\n"
    "            list<fp32, 1> l3 = list_write(ls = l2, index = k, value = u);\n"
    "            int32 n = list_length(ls = l3);\n            fp32 f = cast(x = n, dtype = string(\"fp32\"));\n"
    "            fp32 v = add(x = u, y = f);\n        } -> (k, l3, v);\n"
    "        tensor<fp32, [3]> y = list_gather(ls = l, indices = tensor<int32, [3]>([3, 0, 2]));\n"
    "        tensor<fp32, [3]> z = mul(x = y, y = last);\n    } -> (z);\n}\n",
    /* Written and read at computed indices, after and before known ones, one element and several at a time. */
    HEAD
    "tensor<fp32, [2, 3]> x, tensor<int32, [2]> two, int32 one) {\n"
    "        list<tensor<fp32, [3]>, 4> l0 = make_list(init_length = int32(4), dynamic_length = bool(false), "
    "elem_shape = "
    "(tensor<int32, [1]>([3])), dtype = string(\"fp32\"));\n"
    "        list<tensor<fp32, [3]>, 4> l1 = list_scatter(ls = l0, indices = tensor<int32, [2]>([3, 1]), value = x);\n"
    "        tensor<fp32, [3]> a = list_read(ls = l1, index = one);\n        tensor<fp32, [3]> b = sin(x = a);\n"
    "        list<tensor<fp32, [3]>, 4> l2 = list_write(ls = l1, index = one, value = b);\n"
    "        tensor<fp32, [3]> c = list_read(ls = l2, index = int32(3));\n"
    "        tensor<fp32, [3]> d = mul(x = c, y = b);\n"
    "        list<tensor<fp32, [3]>, 4> l3 = list_write(ls = l2, index = int32(2), value = d);\n"
    "        tensor<fp32, [2, 3]> e = list_gather(ls = l3, indices = two);\n"
    "        tensor<fp32, [2, 3]> f = mul(x = e, y = x);\n"
    "        list<tensor<fp32, [3]>, 4> l4 = list_scatter(ls = l3, indices = two, value = f);\n"
    "        tensor<fp32, [4, 3]> g = list_gather(ls = l4, indices = tensor<int32, [4]>([0, 1, 2, 3]));\n"
    "    } -> (e, g);\n}\n",
    /* A loop that writes a list of scalars at indices that an input holds. */
    HEAD "tensor<fp32, [3]> x, tensor<int32, [3]> order) {\n        int32 zero = const()[val = int32(0)];\n"
         "        list<fp32, 3> l0 = make_list(init_length = int32(3), dynamic_length = bool(false), elem_shape = "
         "(tensor<int32, [0]>([])), dtype = string(\"fp32\"));\n"
         "        int32 m, list<fp32, 3> l = while_loop(loop_vars = (zero, l0)) (int32 i, list<fp32, 3> l1) {\n"
         "            bool more = less(x = i, y = int32(3));\n        } -> (more), (int32 j, list<fp32, 3> l2) {\n"
         "            int32 k = add(x = j, y = int32(1));\n            fp32 s = gather(x = x, indices = j);\n"
         "            fp32 u = sin(x = s);\n            int32 at = gather(x = order, indices = j);\n"
         "            list<fp32, 3> l3 = list_write(ls = l2, index = at, value = u);\n        } -> (k, l3);\n"
         "        tensor<fp32, [3]> y = list_gather(ls = l, indices = tensor<int32, [3]>([2, 0, 1]));\n"
         "    } -> (y);\n}\n",
};

static void check_written_out(const char *program, const char *what) {
    mil_module *m = parse(program);
    const mil_function *f = m->functions, *written = written_out(f);
    double data[3][12];
    mil_tensor inputs[3];
    for (const mil_op *op = written->first; op; op = op->next)
        for (int i = 0; i < op->result_count; i++) EXPECT(op->results[i]->type.container == MIL_TENSOR);
    for (int p = 0; p < f->param_count; p++) {
        for (int k = 0; k < 12; k++) data[p][k] = 0.3 + 0.11 * k - 0.2 * p;
        if (f->params[p]->type.dtype == MIL_int32) memcpy(data[p], (double[]){1, 2, 0}, 3 * sizeof(double));
        inputs[p] = (mil_tensor){.type = f->params[p]->type, .data = data[p]};
    }
    compute_alike(f, written, inputs, what);
    (void)grad_check(written, inputs, 3, tolerance, what);
    mil_module_free(m);
}

TEST(lists) {
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) check_written_out(lists[i], "a list");
}

static void expect_refused(const char *program, const char *says) {
    propane_error err = {0};
    const char *const x[] = {"x"};
    mil_module *m = parse(program);
    EXPECT_FAIL(pass_unroll(m->functions, x, 1, &err), PROPANE_ERR_UNSUPPORTED, says);
    mil_module_free(m);
}

#define FILLED                                                                                                         \
    "        " LIST " l0 = make_list(init_length = int32(2), dynamic_length = bool(true), elem_shape = "               \
    "(tensor<int32, [1]>([3])), dtype = string(\"fp32\"));\n"

TEST(lists_that_a_run_decides_are_refused) {
    expect_refused(HEAD "tensor<fp32, [3]> x, int32 at) {\n" FILLED "        " LIST
                        " l1 = list_write(ls = l0, index = at, value = x);\n"
                        "        tensor<fp32, [3]> a = list_read(ls = l1, index = int32(0));\n    } -> (a);\n}\n",
                   "index of a list that grows is computed at run time");
    /* The value written at a computed position does not depend on x, but the value read from there does. */
    expect_refused(HEAD "tensor<fp32, [3]> x, tensor<fp32, [3]> c, int32 at) {\n" FILLED "        " LIST
                        " l1 = list_write(ls = l0, index = at, value = c);\n        " LIST
                        " l2 = list_write(ls = l1, index = int32(1), value = x);\n"
                        "        tensor<fp32, [3]> a = list_read(ls = l2, index = int32(0));\n    } -> (a);\n}\n",
                   "'l1', whose elements are known only at run time");
}

SUITE("grad/unroll", T(computed_places_of_the_shared_cases), T(computed_places_in_every_mode),
      T(computed_boxes_in_every_mode), T(lists), T(lists_that_a_run_decides_are_refused), T(recurrent_layers),
      T(quantized_convolutions), T(counted_loops), T(limited_loops), T(conditions), T(branches_with_states_are_refused),
      T(what_a_run_decides_is_refused))
