/* SPDX-License-Identifier: MIT
 * Rewrites for the engine: each on the program that breaks its rule and on the one that barely satisfies it
 * (tests/chip/cases), if there is a rule. The rewritten program computes what the original specified, at inputs for
 * which the rule applies, and the rule no longer finds anything. A program that satisfies the rule is unchanged.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "drivers/conformance.h"

enum { MOST = 4096 };
static propane_error err;

#define ENGINE_PROGRAM(params, body, result)                                                                           \
    CONFORMANCE_HEAD "    func main<ios18>(" params ") {\n" body "    } -> (" result ");\n}\n"

static const char silu[] = ENGINE_PROGRAM("tensor<fp16, [2, 8]> x",
                                          "        tensor<fp16, [2, 8]> s = sigmoid(x = x);\n"
                                          "        tensor<fp16, [2, 8]> y = mul(x = s, y = x);\n",
                                          "y");
static const char silu_twice[] = ENGINE_PROGRAM("tensor<fp16, [2, 8]> x",
                                                "        tensor<fp16, [2, 8]> s = sigmoid(x = x);\n"
                                                "        tensor<fp16, [2, 8]> t = mul(x = s, y = x);\n"
                                                "        tensor<fp16, [2, 8]> y = add(x = s, y = t);\n",
                                                "y");
static const char linear[] = ENGINE_PROGRAM(
    "tensor<fp16, [2, 3, 4]> x",
    "        tensor<fp16, [2, 4]> w = const()[name = string(\"w\"), val = tensor<fp16, [2, 4]>([[1, 2, 3, 4], [-1, "
    "0.5, 0, "
    "2]])];\n        tensor<fp16, [2]> b = const()[name = string(\"b\"), val = tensor<fp16, [2]>([10, -20])];\n"
    "        tensor<fp16, [2, 3, 2]> y = linear(x = x, weight = w, bias = b);\n",
    "y");
static const char transpose[] =
    ENGINE_PROGRAM("tensor<fp16, [2, 3, 1, 4, 5]> x",
                   "        tensor<fp16, [4, 5, 1, 2, 3]> y = transpose(x = x, perm = [3, 4, 2, 0, 1]);\n", "y");
static const char scattered[] =
    ENGINE_PROGRAM("tensor<fp16, [2, 3, 2, 4, 5]> x",
                   "        tensor<fp16, [5, 2, 2, 4, 3]> y = transpose(x = x, perm = [4, 2, 0, 3, 1]);\n", "y");
static const char product[] = ENGINE_PROGRAM(
    "tensor<fp16, [2, 3, 2, 4, 5]> x, tensor<fp16, [2, 3, 2, 4, 5]> z",
    "        tensor<fp16, [2, 3, 2, 4, 4]> y = matmul(x = x, y = z, transpose_x = false, transpose_y = true);\n", "y");
static const char attention[] = ENGINE_PROGRAM("tensor<fp16, [1, 2, 3, 4]> x, tensor<fp16, [1, 2, 3, 4]> z",
                                               "        tensor<fp16, [1, 1, 3, 3]> m = const()[name = string(\"m\"), "
                                               "val = tensor<fp16, [1, 1, 3, 3]>([[[[0, -inf, "
                                               "-inf], [0, 0, -inf], [0, 0, 0]]]])];\n        tensor<fp16, [1, 2, 3, "
                                               "4]> y = scaled_dot_product_attention(query = x, "
                                               "key = z, value = z, attn_mask = m);\n",
                                               "y");

static const char rms[] =
    ENGINE_PROGRAM("tensor<fp16, [2, 1024]> x",
                   "        tensor<fp16, [2, 1024]> q = square(x = x);\n"
                   "        tensor<fp16, [2, 1]> m = reduce_mean(x = q, axes = [-1], keep_dims = true);\n"
                   "        tensor<fp16, [2, 1]> a = add(x = m, y = fp16(0x1p-10));\n"
                   "        tensor<fp16, [2, 1]> r = rsqrt(x = a);\n"
                   "        tensor<fp16, [2, 1024]> y = mul(x = r, y = x);\n",
                   "y");
static const char rms_by_root[] =
    ENGINE_PROGRAM("tensor<fp16, [2, 1024]> x",
                   "        tensor<fp16, [2, 1024]> q = mul(x = x, y = x);\n"
                   "        tensor<fp16, [2, 1]> m = reduce_mean(x = q, axes = [1], keep_dims = true);\n"
                   "        tensor<fp16, [2, 1]> r = sqrt(x = m);\n"
                   "        tensor<fp16, [2, 1024]> y = real_div(x = x, y = r);\n",
                   "y");
static const char rms_of_another[] =
    ENGINE_PROGRAM("tensor<fp16, [2, 1024]> x, tensor<fp16, [2, 1024]> z",
                   "        tensor<fp16, [2, 1024]> q = mul(x = z, y = z);\n"
                   "        tensor<fp16, [2, 1]> m = reduce_mean(x = q, axes = [1], keep_dims = true);\n"
                   "        tensor<fp16, [2, 1]> r = rsqrt(x = m);\n"
                   "        tensor<fp16, [2, 1024]> y = mul(x = x, y = r);\n",
                   "y");
#define HARDSWISH(body)                                                                                                \
    ENGINE_PROGRAM(                                                                                                    \
        "tensor<fp16, [3, 4]> x",                                                                                      \
        "        tensor<fp16, [4, 2]> w = const()[name = string(\"w\"), val = tensor<fp16, [4, 2]>([[1, "              \
        "-1], [2, 0.5], [3, 0], [4, 2]])];\n"                                                                          \
        "        tensor<fp16, [2]> b = const()[name = string(\"b\"), val = tensor<fp16, [2]>([0.5, -2])];\n"           \
        "        tensor<fp16, [3, 2]> m = matmul(x = x, y = w);\n"                                                     \
        "        tensor<fp16, [3, 2]> p = add(x = m, y = b);\n" body,                                                  \
        "y")
static const char hardswish_of_torch[] =
    HARDSWISH("        tensor<fp16, [3, 2]> t = thresholded_relu(x = p, alpha = fp16(-3));\n"
              "        tensor<fp16, [3, 2]> h = sigmoid_hard(x = t, alpha = fp16(0x1.554p-3), beta = fp16(0.5));\n"
              "        tensor<fp16, [3, 2]> y = mul(x = t, y = h);\n");
static const char hardswish_by_hand[] = HARDSWISH("        tensor<fp16, [3, 2]> t = add(x = p, y = fp16(3));\n"
                                                  "        tensor<fp16, [3, 2]> c = relu6(x = t);\n"
                                                  "        tensor<fp16, [3, 2]> h = mul(x = c, y = fp16(0x1.554p-3));\n"
                                                  "        tensor<fp16, [3, 2]> y = mul(x = h, y = p);\n");

static const struct engine_case {
    const char *id, *text; /* if text is NULL, tests/chip/cases/ID.bad.mil and ID.good.mil */
    const char *said;      /* in the report; NULL if nothing is rewritten */
    float first, step, second;
    double worst; /* of the larger of 1 and the value; at most half of it was observed */
} engine_cases[] = {
    {"N1", NULL, "softplus", 18, -0.15f, 0, 2e-3},
    {"N2", NULL, "logsumexp", 8, -0.11f, 0, 2e-3},
    {"N4", NULL, "log of a softmax", 30, -9, 0, 2e-3},
    {"N6", NULL, "mask", 3, -0.1f, 1, 2e-3},
    {"N7", NULL, "hardswish", 2, -0.2f, 0, 2e-3},
    {"C28e", NULL, "transpose", 1, 1, 0, 0},
    {"C28b", NULL, "product of five axes", -1, 0.01f, 0.5, 2e-3},
    {"silu", silu, "silu", -4, 0.5f, 0, 2e-3},
    {"silu of two readers", silu_twice, NULL, -4, 0.5f, 0, 0},
    {"linear", linear, "1 x 1 convolution", -3, 0.25f, 0, 2e-3},
    {"transpose", transpose, "transpose", 0, 1, 0, 0},
    {"scattered", scattered, NULL, 0, 1, 0, 0},
    {"product", product, "product of five axes", -1, 0.01f, 0.5, 2e-3},
    {"rms", rms, "RMSNorm", -12, 0.1f, 0, 2e-3},
    {"rms of large numbers", rms, "RMSNorm", 60000, -500, 0, 2e-3},
    {"rms of zeros", rms, "RMSNorm", 0, 0, 0, 0},
    {"rms by its root", rms_by_root, "RMSNorm", -12, 0.1f, 0, 2e-3},
    {"rms of another", rms_of_another, NULL, -12, 0.1f, 2, 0},
    {"hardswish of torch", hardswish_of_torch, "hardswish", -2, 0.4f, 0, 2e-3},
    {"hardswish by hand", hardswish_by_hand, "hardswish", -2, 0.4f, 0, 2e-3},
    {"attention", attention, "attention's mask", -1, 0.1f, 0.5, 2e-3},
};

static char *read_case(const struct engine_case *c, const char *kind) {
    char path[80], *data = NULL;
    size_t length;
    snprintf(path, sizeof path, "tests/chip/cases/%s.%s.mil", c->id, kind);
    EXPECT_OK(file_read(path, 1 << 20, &data, &length, &err));
    return data;
}

/* Returns the rewritten text and its report. */
static char *rewritten(const char *from, int *count, char **report) {
    propane_module *m = NULL;
    char *out = NULL;
    EXPECT_OK(propane_module_parse(from, strlen(from), "case.mil", NULL, &m, &err));
    EXPECT_OK(propane_module_for_engine(m, count, report, &err));
    EXPECT_OK(propane_module_print(m, PROPANE_MIL_SHORT, &out, NULL, &err));
    propane_module_free(m);
    return out;
}

/* Returns true if check finds the rule in the program. */
static bool has_finding(const char *text, const char *rule) {
    propane_module *m = NULL;
    propane_report *r = NULL;
    propane_finding f = {.size = sizeof f};
    const propane_check_options o = {.size = sizeof o, .path = "coreml"};
    bool found = false;
    EXPECT_OK(propane_module_parse(text, strlen(text), "case.mil", NULL, &m, &err));
    EXPECT_OK(propane_check_module(m, &o, &r, &err));
    for (int i = 0; propane_report_get(r, i, &f); i++) found |= strcmp(f.rule, rule) == 0;
    propane_report_free(r);
    propane_module_free(m);
    return found;
}

static int elements(const char *text) {
    propane_module *m = NULL;
    propane_device *d = NULL;
    propane_program *p = NULL;
    EXPECT_OK(propane_module_parse(text, strlen(text), "case.mil", NULL, &m, &err));
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    EXPECT_TEXT(propane_program_output(p, 0)->name, "y");
    const int count = (int)propane_io_count(propane_program_output(p, 0));
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
    EXPECT(count <= MOST);
    return count;
}

static void expect_same_numbers(const struct engine_case *c, const char *before, const char *after) {
    static float x[MOST], z[MOST], was[MOST], is[MOST];
    const int count = elements(before);
    EXPECT(elements(after) == count);
    for (int i = 0; i < MOST; i++) {
        x[i] = c->first + c->step * (float)(i % 240);
        z[i] = i % 3 ? c->second : -c->second;
    }
    conformance_run_on("cpu", before, (const float *const[]){x, z}, was, count, NULL);
    conformance_run_on("cpu", after, (const float *const[]){x, z}, is, count, NULL);
    for (int i = 0; i < count; i++) {
        const double far = fabs((double)was[i] - (double)is[i]) / fmax(1, fabs((double)was[i]));
        EXPECT_MSG(isfinite(is[i]), "%s: number %d is %g", c->id, i, (double)is[i]);
        EXPECT_MSG(!isfinite(was[i]) || far <= c->worst, "%s: number %d is %g, and was %g", c->id, i, (double)is[i],
                   (double)was[i]);
    }
}

static void expect_rewritten(const struct engine_case *c) {
    char *from = c->text ? NULL : read_case(c, "bad"), *report = NULL;
    const char *before = c->text ? c->text : from;
    int count = 0;
    char *after = rewritten(before, &count, &report);
    EXPECT_MSG(c->said ? count == 1 && strstr(report, c->said) : count == 0 && !*report, "%s: %d, %s", c->id, count,
               report);
    expect_same_numbers(c, before, after);
    if (!c->text) EXPECT_MSG(!has_finding(after, c->id), "%s is still found", c->id);
    mem_free(from);
    propane_free(after);
    propane_free(report);
}

TEST(rewritten_programs_compute_the_same) {
    for (size_t i = 0; i < sizeof engine_cases / sizeof engine_cases[0]; i++) expect_rewritten(&engine_cases[i]);
}

TEST(what_keeps_the_rule_stays) {
    for (size_t i = 0; i < sizeof engine_cases / sizeof engine_cases[0]; i++) {
        const struct engine_case *c = &engine_cases[i];
        if (c->text) continue;
        int count = 0;
        char *good = read_case(c, "good"), *report = NULL, *after = rewritten(good, &count, &report);
        EXPECT_MSG(!strstr(report, c->said), "%s: %s", c->id, report);
        mem_free(good);
        propane_free(after);
        propane_free(report);
    }
}

SUITE("drivers/for_engine", T(rewritten_programs_compute_the_same), T(what_keeps_the_rule_stays))
