/* SPDX-License-Identifier: MIT
 * The sim driver under the conformance suite, and its properties as an engine. Tests refusals with rule and evidence,
 * the compile budget in its three readings, rows of 64 bytes, fp16 after every operation, sums in fp16, saturation,
 * tables and faults.
 */
#include <math.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ane/sim/sim.h"
#include "core/base/float16.h"
#include "drivers/conformance.h"

static propane_error err;

static propane_device *open_sim(const char *uri) {
    propane_device *d = NULL;
    EXPECT_OK(propane_device_open(uri, &d, &err));
    return d;
}

static propane_module *parse(const char *text) {
    propane_module *m = NULL;
    EXPECT_OK(propane_module_parse(text, strlen(text), "sim.mil", NULL, &m, &err));
    return m;
}

static void run_on(const char *uri, const char *text, const float *const *inputs, float *output, int count) {
    propane_completion done = {.size = sizeof done};
    conformance_run_on(uri, text, inputs, output, count, &done);
    EXPECT(done.simulated && done.device_ns > 10000 && done.energy_j > 0);
}

#define ONE_OP(type, result, call)                                                                                     \
    CONFORMANCE_HEAD "    func main<ios18>(" type " x) {\n        " result " y = " call "[name = string(\"y\")];\n"    \
                     "    } -> (y);\n}\n"

TEST(names_and_switches_are_checked) {
    propane_device *d = NULL;
    EXPECT_FAIL(propane_device_open("sim", &d, &err), PROPANE_ERR_INVALID, "needs a chip");
    EXPECT_FAIL(propane_device_open("sim:m9", &d, &err), PROPANE_ERR_NOT_FOUND, "there is no chip 'm9'");
    EXPECT_FAIL(propane_device_open("sim:m4?tabel=0", &d, &err), PROPANE_ERR_INVALID, "unknown option 'tabel'");
    EXPECT_FAIL(propane_device_open("sim:m4?table=2", &d, &err), PROPANE_ERR_INVALID, "a number from 0 to 1");
    EXPECT_FAIL(propane_device_open("sim:m4?table", &d, &err), PROPANE_ERR_INVALID, "a number from 0 to 1");
    EXPECT_FAIL(propane_device_open("sim:m4?rows=48", &d, &err), PROPANE_ERR_INVALID, "must be a power of two");
    d = open_sim("sim:M4 Max?table=0&budget=7");
    EXPECT(propane_device_describe(d)->simulated && propane_device_describe(d)->compile_limit == 7);
    propane_device_close(d);
}

static const char small[] = ONE_OP("tensor<fp16, [1, 4, 1, 32]>", "tensor<fp16, [1, 4, 1, 32]>", "relu(x = x)");

/* C1 in its three readings. */
TEST(the_compile_budget_ends) {
    static const struct {
        const char *uri;
        int freed_first, taken;
        const char *part;
    } readings[] = {
        {"sim:m4", 1, 119, "would be compile 120 of this process"},
        {"sim:m4?budget=3", 1, 3, "rule C1a"},
        {"sim:m4?budget=3&theory=1", 0, 3, "loaded at the same time"},
        {"sim:m4?budget=3&theory=1", 1, 10, NULL},
        {"sim:m4?budget=3&theory=2", 0, 10, NULL},
        {"sim:m4?budget=0", 0, 130, NULL},
    };
    for (size_t i = 0; i < sizeof readings / sizeof readings[0]; i++) {
        propane_device *d = open_sim(readings[i].uri);
        propane_module *m = parse(small);
        propane_program *programs[130] = {NULL}, *more = NULL;
        for (int k = 0; k < readings[i].taken; k++) {
            EXPECT_OK(propane_program_compile(d, m, NULL, &programs[k], &err));
            if (!readings[i].freed_first) continue;
            propane_program_free(programs[k]);
            programs[k] = NULL;
        }
        if (readings[i].part)
            EXPECT_FAIL(propane_program_compile(d, m, NULL, &more, &err), PROPANE_ERR_LIMIT, readings[i].part);
        for (int k = 0; k < 130; k++) propane_program_free(programs[k]);
        propane_module_free(m);
        propane_device_close(d);
    }
}

/* C18: the M1 does not accept fp32 inputs. */
TEST(a_rule_refuses_with_id_and_evidence) {
    static const char text[] = ONE_OP("tensor<fp32, [1, 4, 1, 32]>", "tensor<fp32, [1, 4, 1, 32]>", "relu(x = x)");
    propane_device *d = open_sim("sim:m1");
    propane_module *m = parse(text);
    propane_program *p = NULL;
    EXPECT_FAIL(propane_program_compile(d, m, NULL, &p, &err), PROPANE_ERR_UNSUPPORTED, "C18");
    propane_device_close(d);
    d = open_sim("sim:m1?refuse=0");
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
}

TEST(rows_begin_at_64_bytes) {
    static const char text[] = ONE_OP("tensor<fp16, [1, 3, 2, 5]>", "tensor<fp16, [1, 3, 2, 5]>", "add(x = x, y = x)");
    propane_device *d = open_sim("sim:m4?refuse=0");
    propane_module *m = parse(text);
    propane_program *p = NULL;
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    const propane_io *io = propane_program_input(p, 0);
    EXPECT(io->stride[3] == 2 && io->stride[2] == 64 && io->stride[1] == 128 && io->bytes == 384);
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
    float x[30], y[30];
    for (int i = 0; i < 30; i++) x[i] = (float)i;
    run_on("sim:m4?refuse=0", text, (const float *const[]){x}, y, 30);
    for (int i = 0; i < 30; i++) EXPECT(y[i] == 2 * x[i]);
}

/* 2048 ones and more: an fp16 sum stops at 2048, where 1 is half a unit in the last place (C42). */
TEST(sums_are_fp16_and_products_are_not) {
    static const char sum[] =
        ONE_OP("tensor<fp16, [1, 4096]>", "tensor<fp16, [1, 1]>", "reduce_sum(x = x, axes = [1], keep_dims = true)");
    static const char product[] = ONE_OP("tensor<fp16, [1, 4096]>", "tensor<fp16, [1, 1]>",
                                         "matmul(x = x, y = x, transpose_x = false, transpose_y = true)");
    static float ones[4096];
    float y;
    for (int i = 0; i < 4096; i++) ones[i] = 1;
    run_on("sim:m4?refuse=0", sum, (const float *const[]){ones}, &y, 1);
    EXPECT_MSG(y == 2048, "%g", (double)y);
    run_on("sim:m4?refuse=0&sums=0", sum, (const float *const[]){ones}, &y, 1);
    EXPECT_MSG(y == 4096, "%g", (double)y);
    run_on("sim:m4?refuse=0", product, (const float *const[]){ones}, &y, 1);
    EXPECT_MSG(y == 4096, "%g", (double)y);
}

TEST(results_saturate) {
    static const char square[] = ONE_OP("tensor<fp16, [1, 2]>", "tensor<fp16, [1, 2]>", "mul(x = x, y = x)");
    static const char product[] = ONE_OP("tensor<fp16, [1, 2]>", "tensor<fp16, [1, 1]>",
                                         "matmul(x = x, y = x, transpose_x = false, transpose_y = true)");
    static const float x[2] = {300, 3}, z[2] = {150, 150};
    float y[2];
    run_on("sim:m4?refuse=0", square, (const float *const[]){x}, y, 2);
    EXPECT(y[0] == 65504 && y[1] == 9);
    run_on("sim:m4?refuse=0&saturate=0", square, (const float *const[]){x}, y, 2);
    EXPECT(isinf(y[0]) && y[1] == 9);
    run_on("sim:m5?refuse=0", product, (const float *const[]){z}, y, 1);
    EXPECT_MSG(y[0] == fp16_to_f32(fp16_from_f32(32752)), "%g", (double)y[0]);
    run_on("sim:m4?refuse=0&arithmetic=0", product, (const float *const[]){z}, y, 1);
    EXPECT_MSG(y[0] == 44992 || y[0] == 45000, "%g", (double)y[0]);
    run_on("sim:m4?refuse=0", product, (const float *const[]){z}, y, 1);
    EXPECT_MSG(isinf(y[0]), "%g", (double)y[0]);
}

/* Runs every fp16 between -8 and 8 through one function and returns the worst error, in units of `unit` if that is not
 * 0. */
static double worst_error(const char *uri, const char *call, double (*truth)(double), bool positive) {
    static float x[2048], y[2048];
    char text[600];
    double worst = 0;
    snprintf(text, sizeof text,
             CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 2048]> x) {\n        tensor<fp16, [1, 2048]> y = "
                              "%s[name = string(\"y\")];\n    } -> (y);\n}\n",
             call);
    for (int i = 0; i < 2048; i++)
        x[i] = fp16_to_f32(fp16_from_f32(positive ? (float)(i + 1) / 256 : (float)(i - 1024) / 128));
    run_on(uri, text, (const float *const[]){x}, y, 2048);
    for (int i = 0; i < 2048; i++) worst = fmax(worst, fabs((double)y[i] - truth((double)x[i])));
    return worst;
}

static double true_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double true_silu(double x) { return x / (1 + exp(-x)); }
static double true_gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double one_over_root(double x) { return 1 / sqrt(x); }

/* The worst errors measured by a public study on M4 and M6 (751K, chapter 8): sigmoid 3.4e-3, silu 1.5e-2, gelu 6.2e-3,
 * tanh 1.6e-3. Observed here: 3.4e-3, 1.6e-2, 6.2e-3, 1.6e-3. For log and rsqrt, for which nothing was published:
 * 1.5e-3, and 4e-2 at 1/256. */
TEST(functions_come_from_tables) {
    static const struct {
        const char *call;
        double (*truth)(double);
        double low, high;
        bool positive;
    } cases[] = {
        {"sigmoid(x = x)", true_sigmoid, 3e-3, 3.8e-3, false},
        {"silu(x = x)", true_silu, 1.3e-2, 1.7e-2, false},
        {"gelu(x = x, mode = string(\"EXACT\"))", true_gelu, 5.5e-3, 6.9e-3, false},
        {"tanh(x = x)", tanh, 1.4e-3, 1.9e-3, false},
        {"log(x = x, epsilon = 0x0p+0)", log, 1e-4, 5e-3, true},
        {"rsqrt(x = x, epsilon = 0x0p+0)", one_over_root, 1e-4, 5e-2, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double table = worst_error("sim:m4?refuse=0", cases[i].call, cases[i].truth, cases[i].positive);
        const double exact = worst_error("sim:m4?refuse=0&table=0", cases[i].call, cases[i].truth, cases[i].positive);
        EXPECT_MSG(table > cases[i].low && table < cases[i].high, "%s: %g", cases[i].call, table);
        EXPECT_MSG(exact < 8e-3 && exact < table, "%s without a table: %g", cases[i].call, exact);
    }
}

#define SILU(more)                                                                                                     \
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 4]> x) {\n        tensor<fp16, [1, 4]> s = sigmoid(x = x)" \
                     "[name = string(\"s\")];\n        tensor<fp16, [1, 4]> t = mul(x = x, y = s)[name = "             \
                     "string(\"t\")];\n        tensor<fp16, [1, 4]> y = " more                                         \
                     "[name = string(\"y\")];\n    } -> (y);\n}\n"

/* x * sigmoid(x) uses silu's table, which is not 0 at 0, unless something else reads the sigmoid. */
TEST(a_sigmoid_and_its_product_are_one_table) {
    static const float x[4] = {0, 0.25f, -3, 7};
    float y[4];
    run_on("sim:m4?refuse=0", SILU("relu(x = t)"), (const float *const[]){x}, y, 4);
    EXPECT(y[0] == 0);
    run_on("sim:m4?refuse=0", SILU("abs(x = t)"), (const float *const[]){x}, y, 4);
    EXPECT_MSG(y[0] > 1e-3f && y[0] < 2e-3f, "silu(0) is %g", (double)y[0]);
    run_on("sim:m4?refuse=0", SILU("sub(x = t, y = s)"), (const float *const[]){x}, y, 4);
    EXPECT_MSG(y[0] == -0.5f, "%g", (double)y[0]);
    run_on("sim:m4?refuse=0&table=0", SILU("abs(x = t)"), (const float *const[]){x}, y, 4);
    EXPECT(y[0] == 0);
}

/* Sums, differences and products of fp16: halves are rounded away from zero on an M3 and later, and to even on the
 * cpu. */
TEST(elementwise_results_are_rounded_half_away) {
    static const char text[] =
        CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [2, 3]> x, tensor<fp16, [3]> w) {\n"
                         "        tensor<fp16, [2, 3]> y = %s(x = x, y = w)[name = string(\"y\")];\n    } -> (y);\n}\n";
    static const struct {
        const char *op;
        float x[6], w[3], away[6], even[6];
    } cases[] = {
        {"add",
         {1, 1, -1, 2048, 3, 0},
         {0x1p-11f, 1, -0x1p-11f},
         {0x1.004p0f, 2, -0x1.004p0f, 2048, 4, -0x1p-11f},
         {1, 2, -1, 2048, 4, -0x1p-11f}},
        {"sub",
         {1, 1, 1, 0x1p-24f, 2, 2},
         {-0x1p-11f, 3, 1},
         {0x1.004p0f, -2, 0, 0x1p-11f, -1, 1},
         {1, -2, 0, 0x1p-11f, -1, 1}},
        {"mul",
         {0x1.002p0f, 0x1p-24f, -0x1p-24f, 1, 2, 3},
         {0x1p0f, 0.5f, 0.5f},
         {0, 0x1p-24f, -0x1p-24f, 1, 1, 1.5f},
         {0, 0, 0, 1, 1, 1.5f}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char program[600];
        float away[6], even[6];
        snprintf(program, sizeof program, text, cases[i].op);
        const float *inputs[2] = {cases[i].x, cases[i].w};
        run_on("sim:m3?refuse=0", program, inputs, away, 6);
        run_on("sim:m3?refuse=0&arithmetic=0", program, inputs, even, 6);
        for (int k = 0; k < 6; k++) {
            if (i == 2 && k == 0) continue; /* 1 + 2^-11 is not an fp16: it is rounded to 1 */
            EXPECT_MSG(away[k] == cases[i].away[k] && even[k] == cases[i].even[k], "%s %d: %a and %a", cases[i].op, k,
                       (double)away[k], (double)even[k]);
        }
    }
}

/* C29. */
TEST(slices_of_the_width_break_on_the_m1) {
    static const char text[] = ONE_OP("tensor<fp16, [1, 1, 1, 4]>", "tensor<fp16, [1, 1, 1, 2]>",
                                      "slice_by_size(x = x, begin = [0, 0, 0, 2], size = [1, 1, 1, 2])");
    static const float x[4] = {1, 2, 3, -5000};
    float y[2];
    run_on("sim:m1?refuse=0", text, (const float *const[]){x}, y, 2);
    EXPECT(y[0] == 3 && isinf(y[1]) && y[1] < 0);
    run_on("sim:m4?refuse=0", text, (const float *const[]){x}, y, 2);
    EXPECT(y[0] == 3 && y[1] == -5000);
}

/* C12: a program whose names are not in alphabetical order, bound by position. */
TEST(positions_go_by_alphabet_where_asked) {
    static const char text[] = CONFORMANCE_HEAD
        "    func main<ios18>(tensor<fp16, [1, 32]> q, tensor<fp16, [1, 32]> k) {\n"
        "        tensor<fp16, [1, 32]> y = sub(x = q, y = k)[name = string(\"y\")];\n    } -> (y);\n}\n";
    float q[32], k[32], y[32];
    for (int i = 0; i < 32; i++) q[i] = 5, k[i] = 3;
    run_on("sim:m4?refuse=0", text, (const float *const[]){q, k}, y, 32);
    EXPECT(y[0] == 2);
    run_on("sim:m4?refuse=0&order=1", text, (const float *const[]){q, k}, y, 32);
    EXPECT(y[0] == -2);
}

/* C11. */
TEST(sizes_that_differ_are_0x1d_where_asked) {
    static const char text[] = CONFORMANCE_HEAD
        "    func main<ios18>(tensor<fp16, [1, 32]> a, tensor<fp16, [2, 32]> b) {\n"
        "        tensor<fp16, [2, 32]> y = add(x = a, y = b)[name = string(\"y\")];\n    } -> (y);\n}\n";
    propane_device *d = open_sim("sim:m4?refuse=0&sizes=1");
    propane_module *m = parse(text);
    propane_program *p = NULL;
    propane_buffer *a = NULL, *b = NULL, *y = NULL;
    propane_request *r = NULL;
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    EXPECT_OK(propane_buffer_create(d, 64, &a, &err));
    EXPECT_OK(propane_buffer_create(d, 128, &b, &err));
    EXPECT_OK(propane_buffer_create(d, 128, &y, &err));
    EXPECT_FAIL(propane_request_create(p, (propane_binding[]){{"a", a}, {"b", b}, {"y", y}}, 3, &r, &err),
                PROPANE_ERR_DEVICE, "0x1d: input 'a' has 64 bytes and 'b' 128 (rule C11");
    propane_buffer_free(a);
    propane_buffer_free(b);
    propane_buffer_free(y);
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
}

/* C4: a child of the process that opened the device. */
TEST(a_forked_child_does_not_compile) {
    propane_device *d = open_sim("sim:m4");
    propane_module *m = parse(small);
    propane_program *p = NULL;
    int status = 0;
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    propane_program_free(p);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool refused =
            propane_program_compile(d, m, NULL, &p, &err) == PROPANE_ERR_LIMIT && strstr(err.text, "rule C4");
        _exit(refused ? 0 : 1);
    }
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    propane_module_free(m);
    propane_device_close(d);
}

/* ---- products as the multiply-add array computes them ------------------------------------------------------------------- */

/* Multiplies two fp16 in integer units of 2^-16 and rounds to fp16: an independent implementation in doubles. */
static double array_product(double x, double w) {
    int ex, ew;
    (void)frexp(x, &ex);
    (void)frexp(w, &ew);
    ex = ex - 1 < -14 ? -14 : ex - 1;
    ew = ew - 1 < -14 ? -14 : ew - 1;
    return x == 0 || w == 0 || ex + ew < -16 ? 0 : round(x * w * 65536);
}

static float array_result(double units) {
    const double v = units / 65536;
    if (v == 0) return 0;
    if (fabs(v) >= 32768) return (float)copysign(INFINITY, v);
    int e;
    (void)frexp(v, &e);
    const double step = ldexp(1, e - 11 < -24 ? -24 : e - 11);
    return (float)(copysign(floor(fabs(v) / step + 0.5), v) * step);
}

#define DOT                                                                                                            \
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 4]> x, tensor<fp16, [4, 2]> y) {\n"                        \
                     "        bool f = const()[name = string(\"f\"), val = bool(false)];\n"                            \
                     "        tensor<fp16, [1, 2]> z = matmul(x = x, y = y, transpose_x = f, transpose_y = f)[name = " \
                     "string(\"z\")];\n    } -> (z);\n}\n"

/* The differences between this arithmetic and wide sums: dropped bits, rounding of halves, and sums that
 * stay infinite. */
TEST(products_are_rounded_and_sums_saturate) {
    static const struct {
        float x[4], y[4], exact, wide;
    } cases[] = {
        {{0x1.8p-9f}, {0x1.8p-8f}, 0, 0x1.2p-16f},            /* exponents -17: dropped */
        {{0x1p-8f}, {0x1p-8f}, 0x1p-16f, 0x1p-16f},           /* -16: kept */
        {{0x1.8p-8f}, {0x1p-8f}, 0x1p-15f, 0x1.8p-16f},       /* half a step is rounded away from zero */
        {{-0x1.8p-8f}, {0x1p-8f}, -0x1p-15f, -0x1.8p-16f},    /* for both signs */
        {{2048, 1}, {1, 1}, 2050, 2048},                      /* 2049 is rounded away from zero as well, not to even */
        {{256, -256}, {256, 256}, INFINITY, 0},               /* 65536 stays infinite */
        {{181, 0.25f}, {181, 1}, 32768, 32768},               /* 32761.25 is below the top; fp16 steps are 16 */
        {{0x1p-14f, 0x1p-15f}, {4, 4}, 0x1p-12f, 0x1.8p-12f}, /* a subnormal counts as -14: 2^-13 is kept */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float y[8] = {0}, out[2];
        for (int k = 0; k < 4; k++) y[2 * k] = cases[i].y[k];
        const float *inputs[2] = {cases[i].x, y};
        double sum = 0;
        for (int k = 0; k < 4; k++) sum += array_product(cases[i].x[k], cases[i].y[k]);
        const float expected = isinf(cases[i].exact) ? cases[i].exact : array_result(sum);
        run_on("sim:m4?refuse=0", DOT, inputs, out, 2);
        EXPECT_MSG(out[0] == expected && out[1] == 0, "case %zu: %a, expected %a", i, (double)out[0], (double)expected);
        if (i != 7) EXPECT_MSG(out[0] == cases[i].exact, "case %zu: %a", i, (double)out[0]);
        run_on("sim:m4?refuse=0&arithmetic=0", DOT, inputs, out, 2);
        EXPECT_MSG(out[0] == cases[i].wide || i == 5 || i == 6, "case %zu: %a with wide sums", i, (double)out[0]);
    }
}

#define THREE                                                                                                          \
    CONFORMANCE_HEAD                                                                                                   \
    "    func main<ios18>(tensor<fp16, [6, 40]> x, tensor<fp16, [8, 40]> w, tensor<fp16, [8]> b) {\n"                  \
    "        bool f = const()[name = string(\"f\"), val = bool(false)];\n"                                             \
    "        bool t = const()[name = string(\"t\"), val = bool(true)];\n"                                              \
    "        tensor<int32, [4]> xs = const()[name = string(\"xs\"), val = tensor<int32, [4]>([6, 40, 1, 1])];\n"       \
    "        tensor<int32, [4]> ws = const()[name = string(\"ws\"), val = tensor<int32, [4]>([8, 40, 1, 1])];\n"       \
    "        tensor<int32, [2]> ys = const()[name = string(\"ys\"), val = tensor<int32, [2]>([6, 8])];\n"              \
    "        tensor<fp16, [6, 8]> l = linear(x = x, weight = w, bias = b)[name = string(\"l\")];\n"                    \
    "        tensor<fp16, [6, 8]> m = matmul(x = x, y = w, transpose_x = f, transpose_y = t)[name = string(\"m\")];\n" \
    "        tensor<fp16, [6, 40, 1, 1]> x4 = reshape(x = x, shape = xs)[name = string(\"x4\")];\n"                    \
    "        tensor<fp16, [8, 40, 1, 1]> w4 = reshape(x = w, shape = ws)[name = string(\"w4\")];\n"                    \
    "        tensor<fp16, [6, 8, 1, 1]> c4 = conv(x = x4, weight = w4, bias = b)[name = string(\"c4\")];\n"            \
    "        tensor<fp16, [6, 8]> c = reshape(x = c4, shape = ys)[name = string(\"c\")];\n"                            \
    "        bool i = const()[name = string(\"i\"), val = bool(false)];\n"                                             \
    "        int32 a = const()[name = string(\"a\"), val = int32(0)];\n"                                               \
    "        tensor<fp16, [18, 8]> z = concat(values = (l, m, c), axis = a, interleave = i)[name = string(\"z\")];\n"  \
    "    } -> (z);\n}\n"

/* Random operands of many sizes through linear, matmul and conv, compared with the loop in doubles: equal bit for
 * bit. */
TEST(products_equal_their_definition) {
    float x[240], w[320], b[8], out[144];
    unsigned seed = 1;
    for (int i = 0; i < 240 + 320 + 8; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float v = ldexpf((float)((int)(seed >> 12 & 4095) - 2048) / 2048, (int)(seed >> 24) % 12 - 9);
        *(i < 240 ? &x[i] : i < 560 ? &w[i - 240] : &b[i - 560]) = fp16_to_f32(fp16_from_f32(v));
    }
    const float *inputs[3] = {x, w, b};
    run_on("sim:m4?refuse=0", THREE, inputs, out, 144);
    for (int r = 0; r < 6; r++)
        for (int o = 0; o < 8; o++) {
            double sum = 0, start = round((double)b[o] * 65536);
            for (int k = 0; k < 40; k++) sum += array_product((double)x[r * 40 + k], (double)w[o * 40 + k]);
            EXPECT_MSG(out[r * 8 + o] == array_result(sum + start), "linear %d %d", r, o);
            EXPECT_MSG(out[48 + r * 8 + o] == array_result(sum), "matmul %d %d", r, o);
            EXPECT_MSG(out[96 + r * 8 + o] == array_result(sum + start), "conv %d %d", r, o);
        }
}

/* ---- ... and beyond what 32 bits hold ------------------------------------------------------------------------------------- */

static float random_half(unsigned *seed, int exponents, int largest) {
    *seed = *seed * 1664525u + 1013904223u;
    const float v = (float)((int)(*seed >> 12 & 4095) - 2048) / 2048;
    return fp16_to_f32(fp16_from_f32(ldexpf(v, largest - (int)(*seed >> 24) % exponents)));
}

static float in_order(const double *terms, int n) {
    double sum = 0, worst = 0;
    for (int i = 0; i < n; i++) worst = fmax(worst, fabs(sum += terms[i]));
    return worst >= 2147483648.0 ? copysignf(INFINITY, (float)sum) : array_result(sum);
}

/* A sum that reaches 32768 at any point stays infinite. Observed: 132 of 700 results. */
TEST(sums_are_watched_where_they_may_be_too_large) {
    static const char text[] =
        CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [2, 5, 40]> x, tensor<fp16, [2, 40, 70]> y) {\n"
                         "        bool f = const()[name = string(\"f\"), val = bool(false)];\n"
                         "        tensor<fp16, [2, 5, 70]> z = matmul(x = x, y = y, transpose_x = f, transpose_y = "
                         "f)[name = string(\"z\")];\n"
                         "    } -> (z);\n}\n";
    static float x[400], y[5600], out[700];
    int infinite = 0;
    unsigned seed = 3;
    for (int i = 0; i < 400; i++) x[i] = random_half(&seed, 9, 8);
    for (int i = 0; i < 5600; i++) y[i] = random_half(&seed, 9, 8);
    run_on("sim:m4?refuse=0", text, (const float *const[]){x, y}, out, 700);
    for (int b = 0; b < 2; b++)
        for (int r = 0; r < 5; r++)
            for (int c = 0; c < 70; c++) {
                double terms[40];
                for (int k = 0; k < 40; k++)
                    terms[k] = array_product((double)x[(b * 5 + r) * 40 + k], (double)y[(b * 40 + k) * 70 + c]);
                const float got = out[(b * 5 + r) * 70 + c], expected = in_order(terms, 40);
                EXPECT_MSG(got == expected, "%d %d %d: %g, expected %g", b, r, c, (double)got, (double)expected);
                infinite += isinf(got) != 0;
            }
    EXPECT_MSG(infinite > 70 && infinite < 300, "%d of 700 infinite", infinite);
}

/* Groups, strides, padding, dilation and a bias; more outputs than one panel has columns. */
TEST(convolutions_read_their_windows) {
    static const char text[] = CONFORMANCE_HEAD
        "    func main<ios18>(tensor<fp16, [1, 6, 19, 16]> x, tensor<fp16, [8, 3, 3, 2]> w, tensor<fp16, [8]> b) {\n"
        "        tensor<int32, [2]> s = const()[name = string(\"s\"), val = tensor<int32, [2]>([2, 1])];\n"
        "        tensor<int32, [4]> p = const()[name = string(\"p\"), val = tensor<int32, [4]>([1, 2, 0, 1])];\n"
        "        tensor<int32, [2]> d = const()[name = string(\"d\"), val = tensor<int32, [2]>([1, 3])];\n"
        "        string t = const()[name = string(\"t\"), val = string(\"custom\")];\n"
        "        int32 g = const()[name = string(\"g\"), val = int32(2)];\n"
        "        tensor<fp16, [1, 8, 10, 14]> y = conv(x = x, weight = w, bias = b, strides = s, pad_type = t, pad = "
        "p, "
        "dilations = d, groups = g)[name = string(\"y\")];\n    } -> (y);\n}\n";
    static float x[6 * 19 * 16], w[8 * 18], bias[8], out[8 * 140];
    unsigned seed = 5;
    for (int i = 0; i < 6 * 19 * 16; i++) x[i] = random_half(&seed, 12, 2);
    for (int i = 0; i < 8 * 18; i++) w[i] = random_half(&seed, 12, 2);
    for (int i = 0; i < 8; i++) bias[i] = random_half(&seed, 12, 2);
    run_on("sim:m4?refuse=0", text, (const float *const[]){x, w, bias}, out, 8 * 140);
    for (int o = 0; o < 8; o++)
        for (int r = 0; r < 10; r++)
            for (int c = 0; c < 14; c++) {
                double sum = round((double)bias[o] * 65536);
                for (int i = 0; i < 18; i++) {
                    const int row = 2 * r + i / 2 % 3 - 1, column = c + 3 * (i % 2);
                    if (row < 0 || row > 18 || column > 15) continue;
                    sum +=
                        array_product((double)w[o * 18 + i], (double)x[((o / 4 * 3 + i / 6) * 19 + row) * 16 + column]);
                }
                EXPECT_MSG(out[(o * 10 + r) * 14 + c] == array_result(sum), "%d %d %d", o, r, c);
            }
}

int main(int argc, char **argv) {
    static const test_case more[] = {
        T(names_and_switches_are_checked),
        T(the_compile_budget_ends),
        T(a_rule_refuses_with_id_and_evidence),
        T(rows_begin_at_64_bytes),
        T(sums_are_fp16_and_products_are_not),
        T(results_saturate),
        T(functions_come_from_tables),
        T(a_sigmoid_and_its_product_are_one_table),
        T(elementwise_results_are_rounded_half_away),
        T(slices_of_the_width_break_on_the_m1),
        T(positions_go_by_alphabet_where_asked),
        T(sizes_that_differ_are_0x1d_where_asked),
        T(a_forked_child_does_not_compile),
        T(products_are_rounded_and_sums_saturate),
        T(products_equal_their_definition),
        T(sums_are_watched_where_they_may_be_too_large),
        T(convolutions_read_their_windows),
    };
    /* The suite's values are fp32, which the engine rounds; sums_are_fp16 and other tests cover that. */
    static const conformance_driver driver = {
        .title = "drivers/sim", .uri = "sim:m4?round=0", .more = more, .more_count = sizeof more / sizeof more[0]};
    return conformance_main(&driver, argc, argv);
}
