/* SPDX-License-Identifier: MIT
 * Tests sessions of programs whose shapes depend on values: results against plain loops, values that change from run
 * to run, values that depend on values, errors after which the session continues, and the failure of each memory
 * request.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "propane.h"
#include "support/failing.h"
#include "support/test.h"

/* Opens a session; a copy of the module depends on the same values. */
static propane_status open_text(const char *text_of, const propane_session_options *options, propane_session **out,
                                propane_error *err) {
    propane_module *m = NULL, *copy = NULL;
    *out = NULL;
    PROPANE_TRY(propane_module_parse(text_of, strlen(text_of), "given", NULL, &m, err));
    const propane_status status = propane_module_copy(m, &copy, err);
    propane_module_free(m);
    return status ? status : propane_session_open_module(copy, options, out, err);
}

/* Expects output `name` to have `count` elements with these values. */
static void expect_values(propane_session *s, const char *name, const float *want, int64_t count) {
    propane_error err = {0};
    float have[32];
    int at = 0;
    while (propane_session_output(s, at) && strcmp(propane_session_output(s, at)->name, name) != 0) at++;
    EXPECT_MSG(propane_session_output(s, at) != NULL, "there is no %s", name);
    EXPECT_MSG(propane_io_count(propane_session_output(s, at)) == count, "%s has %lld elements, not %lld", name,
               (long long)propane_io_count(propane_session_output(s, at)), (long long)count);
    EXPECT_OK(propane_session_get(s, name, PROPANE_FP32, have, count, &err));
    for (int64_t i = 0; i < count; i++)
        EXPECT_MSG(fabsf(have[i] - want[i]) <= 1e-6f * fabsf(want[i]), "%s[%lld] is %g, not %g", name, (long long)i,
                   (double)have[i], (double)want[i]);
}

/* The bounds are inputs, one of them int8; the slice's reader follows. */
static const char slices[] =
    "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [8]> x, tensor<int8, [1]> begin, tensor<int32, [1]> end) {\n"
    "tensor<int8, [1]> last = cast(x = end, dtype = string(\"int8\"));\n"
    "tensor<fp32, [?]> cut = slice_by_index(x = x, begin = begin, end = last);\n"
    "tensor<fp32, [?]> twice = mul(x = cut, y = fp32(2));\n"
    "tensor<fp32, [1]> sum = reduce_sum(x = twice, axes = tensor<int32, [1]>([0]), keep_dims = true);\n"
    "} -> (twice, sum);\n}\n";

TEST(slices_whose_bounds_are_inputs) {
    propane_error err = {0};
    propane_session *s = NULL;
    const float x[8] = {3, -1, 4, 1, -5, 9, 2, 6};
    static const int32_t bounds[][2] = {{0, 8}, {2, 5}, {2, 5}, {7, 8}, {1, 7}};
    EXPECT_OK(open_text(slices, NULL, &s, &err));
    EXPECT(propane_session_input_count(s) == 3 && propane_session_output_count(s) == 0);
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, x, 8, &err));
    for (size_t k = 0; k < sizeof bounds / sizeof bounds[0]; k++) {
        float twice[8], sum = 0;
        const int32_t count = bounds[k][1] - bounds[k][0];
        EXPECT_OK(propane_session_set(s, "begin", PROPANE_INT32, &bounds[k][0], 1, &err));
        EXPECT_OK(propane_session_set(s, "end", PROPANE_INT32, &bounds[k][1], 1, &err));
        EXPECT_OK(propane_session_run(s, NULL, &err));
        EXPECT(propane_session_output_count(s) == 2);
        for (int i = 0; i < count; i++) sum += twice[i] = 2 * x[bounds[k][0] + i];
        expect_values(s, "twice", twice, count);
        expect_values(s, "sum", &sum, 1);
    }
    /* x itself may change without a new plan */
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, (const float[8]){0, 1, 2, 3, 4, 5, 6, 7}, 8, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    expect_values(s, "twice", (const float[]){2, 4, 6, 8, 10, 12}, 6);
    /* a result without elements is an error, after which the session continues */
    EXPECT_OK(propane_session_set(s, "end", PROPANE_INT32, &(const int32_t){1}, 1, &err));
    EXPECT_FAIL(propane_session_run(s, NULL, &err), PROPANE_ERR_UNSUPPORTED, "'twice' would be empty");
    EXPECT(propane_session_run(s, NULL, &err) == PROPANE_ERR_UNSUPPORTED);
    EXPECT_OK(propane_session_set(s, "end", PROPANE_INT32, &(const int32_t){3}, 1, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    expect_values(s, "twice", (const float[]){2, 4}, 2);
    propane_session_close(s);
}

/* The count of numbers above zero decides what is gathered, and the k of topk depends on that. */
static const char found[] =
    "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [2, 3]> x) {\n"
    "tensor<bool, [2, 3]> above = greater(x = x, y = fp32(0));\n"
    "tensor<fp32, [2, 3]> mask = cast(x = above, dtype = string(\"fp32\"));\n"
    "tensor<int32, [?, 2]> at = non_zero(x = mask);\n"
    "tensor<fp32, [?]> picked = gather_nd(x = x, indices = at);\n"
    "tensor<int32, [1]> counts = shape(x = picked);\n"
    "int32 count = squeeze(x = counts, axes = tensor<int32, [1]>([0]));\n"
    "int32 less = sub(x = count, y = int32(1));\n"
    "tensor<fp32, [?]> best, tensor<int32, [?]> where = topk(x = picked, k = less, axis = int32(0));\n"
    "tensor<fp32, [?]> steps = range_1d(start = fp32(1), end = fp32(2), step = fp32(0.5));\n"
    "} -> (picked, best, where, steps);\n}\n";

TEST(values_that_follow_from_values) {
    propane_error err = {0};
    propane_session *s = NULL;
    static const float given[][6] = {{1, -2, 3, -4, 5, 6}, {-1, 2, -3, 4, -5, -6}, {6, 5, 4, 3, 2, 1}};
    EXPECT_OK(open_text(found, NULL, &s, &err));
    for (int k = 0; k < 3; k++) {
        float picked[6], best[6];
        int count = 0;
        for (int i = 0; i < 6; i++)
            if (given[k][i] > 0) best[count] = picked[count] = given[k][i], count++;
        for (int i = 0; i < count; i++)
            for (int j = i + 1; j < count; j++)
                if (best[j] > best[i]) {
                    const float swap = best[i];
                    best[i] = best[j], best[j] = swap;
                }
        EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, given[k], 6, &err));
        EXPECT_OK(propane_session_run(s, NULL, &err));
        expect_values(s, "picked", picked, count);
        expect_values(s, "best", best, count - 1);
        expect_values(s, "steps", (const float[]){1, 1.5f}, 2);
    }
    propane_session_close(s);
}

/* An fp16 program run as fp32: the values have the program's type. */
static const char counted[] = "program(1.3)\n{\nfunc main<ios18>(tensor<fp16, [1]> x, tensor<int32, [2]> dims) {\n"
                              "fp16 end = squeeze(x = x, axes = tensor<int32, [1]>([0]));\n"
                              "tensor<fp16, [?]> line = range_1d(start = fp16(0), end = end, step = fp16(1));\n"
                              "tensor<fp16, [??]> box = fill(shape = dims, value = fp16(7));\n"
                              "} -> (line, box);\n}\n";

TEST(ranges_and_fills) {
    propane_error err = {0};
    for (int wide = 0; wide < 2; wide++) {
        propane_session *s = NULL;
        const propane_session_options o = {.size = sizeof(propane_session_options),
                                           .precision = wide ? "fp32" : "typed"};
        EXPECT_OK(open_text(counted, &o, &s, &err));
        EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, &(const float){4}, 1, &err));
        EXPECT_OK(propane_session_set(s, "dims", PROPANE_INT32, (const int32_t[]){2, 3}, 2, &err));
        EXPECT_OK(propane_session_run(s, NULL, &err));
        expect_values(s, "line", (const float[]){0, 1, 2, 3}, 4);
        expect_values(s, "box", (const float[]){7, 7, 7, 7, 7, 7}, 6);
        EXPECT(propane_session_output(s, 1)->rank == 2 && propane_session_output(s, 1)->dim[1] == 3);
        propane_session_close(s);
    }
}

/* A mask that is true nowhere: the array that it scatters into is unchanged, and the session continues after a
 * result without elements. */
static const char masked[] =
    "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [4]> x, tensor<fp32, [4]> mask) {\n"
    "tensor<int32, [?, 1]> at = non_zero(x = mask);\n"
    "tensor<int32, [2]> counts = shape(x = at);\n"
    "tensor<int32, [1]> count = slice_by_size(x = counts, begin = [0], size = [1]);\n"
    "tensor<fp32, [?]> nines = fill(shape = count, value = fp32(9));\n"
    "tensor<fp32, [4]> y = scatter_nd(data = x, indices = at, updates = nines, mode = \"update\");\n"
    "tensor<fp32, [?]> more = mul(x = nines, y = fp32(2));\n"
    "tensor<fp32, [?]> both = concat(values = (more, x), axis = 0, interleave = false);\n"
    "fp32 sum = reduce_sum(x = more, axes = tensor<int32, [1]>([0]), keep_dims = false);\n"
    "} -> (RESULTS);\n}\n";

static propane_session *open_masked(const char *results) {
    propane_error err = {0};
    propane_session *s = NULL;
    char given[2000];
    const int head = (int)(strstr(masked, "RESULTS") - masked);
    snprintf(given, sizeof given, "%.*s%s%s", head, masked, results, masked + head + strlen("RESULTS"));
    EXPECT_OK(open_text(given, NULL, &s, &err));
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, (const float[]){1, 2, 3, 4}, 4, &err));
    return s;
}

TEST(tensors_without_elements) {
    propane_error err = {0};
    static const float masks[][4] = {{0, 0, 0, 0}, {0, 1, 0, 5}, {0, 0, 0, 0}, {1, 1, 1, 1}};
    propane_session *s = open_masked("y"), *twice = open_masked("more"), *sum = open_masked("sum"),
                    *both = open_masked("both");
    for (int k = 0; k < 4; k++) {
        float want[4];
        for (int i = 0; i < 4; i++) want[i] = masks[k][i] != 0 ? 9 : (float)(i + 1);
        EXPECT_OK(propane_session_set(s, "mask", PROPANE_FP32, masks[k], 4, &err));
        EXPECT_OK(propane_session_run(s, NULL, &err));
        expect_values(s, "y", want, 4);
        EXPECT_OK(propane_session_set(twice, "mask", PROPANE_FP32, masks[k], 4, &err));
        EXPECT_OK(propane_session_set(sum, "mask", PROPANE_FP32, masks[k], 4, &err));
        EXPECT_OK(propane_session_set(both, "mask", PROPANE_FP32, masks[k], 4, &err));
        EXPECT_OK(propane_session_run(both, NULL, &err));
        const int there = k % 2 == 0 ? 0 : k == 1 ? 2 : 4;
        const float joined[] = {18, 18, 18, 18, 1, 2, 3, 4};
        expect_values(both, "both", joined + 4 - there, there + 4);
        if (k % 2 == 0) {
            EXPECT_FAIL(propane_session_run(twice, NULL, &err), PROPANE_ERR_UNSUPPORTED, "'more' would be empty");
            EXPECT_FAIL(propane_session_run(sum, NULL, &err), PROPANE_ERR_UNSUPPORTED,
                        "reduce_sum 'sum': 'more' is empty");
        } else {
            EXPECT_OK(propane_session_run(sum, NULL, &err));
            expect_values(sum, "sum", &(const float){k == 1 ? 36 : 72}, 1);
        }
    }
    propane_session_close(s);
    propane_session_close(twice);
    propane_session_close(sum);
    propane_session_close(both);
}

TEST(a_program_of_open_shapes_is_not_compiled) {
    propane_error err = {0};
    propane_module *m = NULL;
    propane_device *d = NULL;
    propane_program *p = NULL;
    EXPECT_OK(propane_module_parse(slices, sizeof slices - 1, "given", NULL, &m, &err));
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_FAIL(propane_program_compile(d, m, NULL, &p, &err), PROPANE_ERR_UNSUPPORTED, "open a session");
    propane_device_close(d);
    propane_estimate *e = NULL;
    char *words = NULL;
    EXPECT_OK(propane_estimate_module(m, NULL, &e, &err));
    EXPECT_OK(propane_estimate_print(e, PROPANE_TEXT, false, &words, &err));
    EXPECT_MSG(strstr(words, "operations whose shapes depend on values"), "%s", words);
    propane_free(words);
    propane_estimate_free(e);
    propane_module_free(m);
}

static propane_status attempt_late(void *context, text *result, propane_error *err) {
    propane_session *s = NULL;
    float out[3];
    (void)context;
    PROPANE_TRY(open_text(found, NULL, &s, err));
    propane_status status = propane_session_set(s, "x", PROPANE_FP32, (const float[]){1, 0, 2, 3, 0, 0}, 6, err);
    if (!status) status = propane_session_run(s, NULL, err);
    if (!status) status = propane_session_set(s, "x", PROPANE_FP32, (const float[]){1, 0, 2, 0, 0, 5}, 6, err);
    if (!status) status = propane_session_run(s, NULL, err);
    if (!status) status = propane_session_get(s, "picked", PROPANE_FP32, out, 3, err);
    if (!status) text_append_n(result, out, sizeof out);
    propane_session_close(s);
    return !status && result->failed ? propane_fail(err, PROPANE_ERR_MEMORY, "no memory") : status;
}

TEST(without_memory) { EXPECT(test_each_failing_allocation("api late", attempt_late, NULL) > 50); }

SUITE("api/late", T(slices_whose_bounds_are_inputs), T(values_that_follow_from_values), T(ranges_and_fills),
      T(tensors_without_elements), T(a_program_of_open_shapes_is_not_compiled), T(without_memory))
