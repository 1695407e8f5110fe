/* SPDX-License-Identifier: MIT
 * Tests sessions through propane.h: packages with states and classifiers, which need a session; set and missing
 * inputs, batches, the profile; and the failure of each memory request.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/memory.h"
#include "propane.h"
#include "support/failing.h"
#include "support/test.h"

static const char adder[] =
    "program(1.3)\n{\nfunc main<ios18>(state<tensor<fp16, [4]>> sum, tensor<fp16, [4]> x) {\n"
    "tensor<fp16, [4]> before = read_state(input = sum)[name = string(\"before\")];\n"
    "tensor<fp16, [4]> after = add(x = before, y = x)[name = string(\"after\")];\n"
    "write_state(data = after, input = sum)[name = string(\"w\")];\n"
    "fp16 two = const()[name = string(\"two\"), val = fp16(2)];\n"
    "tensor<fp16, [4]> twice = mul(x = after, y = two)[name = string(\"twice\")];\n} -> (twice);\n}\n";

static const char judge[] =
    "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [3]> x) {\n"
    "tensor<fp32, [3]> p = softmax(x = x, axis = int32(0))[name = string(\"p\")];\n"
    "tensor<string, [3]> names = const()[name = string(\"names\"), val = tensor<string, [3]>([\"ant\", \"bee\", "
    "\"cat\"])];\n"
    "string label, dict<string, fp64> all = classify(probabilities = p, classes = names)[name = string(\"c\")];\n"
    "} -> (label, all);\n}\n";

static propane_status open_text(const char *text_of, const propane_session_options *options, propane_session **out,
                                propane_error *err) {
    propane_module *m = NULL;
    *out = NULL;
    PROPANE_TRY(propane_module_parse(text_of, strlen(text_of), "given", NULL, &m, err));
    return propane_session_open_module(m, options, out, err);
}

TEST(states_go_on_from_run_to_run) {
    propane_error err = {0};
    propane_session *s = NULL;
    const float x[4] = {1, 2, 3, 4};
    float out[4], sum[4];
    EXPECT_OK(open_text(adder, NULL, &s, &err));
    EXPECT(propane_session_input_count(s) == 1 && propane_session_output_count(s) == 1);
    EXPECT(propane_session_state_count(s) == 1 && !propane_session_state(s, 1) && !propane_session_input(s, -1));
    EXPECT_TEXT(propane_session_input(s, 0)->name, "x");
    EXPECT_TEXT(propane_session_output(s, 0)->name, "twice");
    EXPECT_TEXT(propane_session_state(s, 0)->name, "sum");
    EXPECT_FAIL(propane_session_run(s, NULL, &err), PROPANE_ERR_INVALID,
                "no value was given for x [4]: set them first");
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, x, 4, &err));
    for (int run = 1; run <= 3; run++) {
        propane_completion done = {.size = sizeof done, .status = PROPANE_ERR_IO};
        EXPECT_OK(propane_session_run(s, &done, &err));
        EXPECT_OK(propane_session_get(s, "twice", PROPANE_FP32, out, 4, &err));
        EXPECT_OK(propane_session_get(s, "sum", PROPANE_FP32, sum, 4, &err));
        EXPECT(done.status == PROPANE_OK && done.device_ns > 0);
        for (int i = 0; i < 4; i++)
            EXPECT_MSG(sum[i] == (float)run * x[i] && out[i] == 2 * sum[i], "run %d: %g %g", run, (double)sum[i],
                       (double)out[i]);
    }
    EXPECT_OK(propane_session_reset(s, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "sum", PROPANE_FP32, sum, 4, &err));
    EXPECT(sum[3] == 4);
    EXPECT_OK(propane_session_set(s, "sum", PROPANE_FP32, (const float[]){10, 10, 10, 10}, 4, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "sum", PROPANE_FP32, sum, 4, &err));
    EXPECT(sum[0] == 11);
    EXPECT_FAIL(propane_session_set(s, "y", PROPANE_FP32, x, 4, &err), PROPANE_ERR_NOT_FOUND, "available: x, sum");
    EXPECT_FAIL(propane_session_get(s, "x", PROPANE_FP32, out, 4, &err), PROPANE_ERR_NOT_FOUND,
                "available: twice, sum");
    EXPECT_FAIL(propane_session_set(s, "x", PROPANE_FP32, x, 3, &err), PROPANE_ERR_INVALID, "x");
    EXPECT_FAIL(propane_session_label(s, 0, NULL, 0, NULL, &err), PROPANE_ERR_UNSUPPORTED, "no classifier");
    propane_session_close(s);
    propane_session_close(NULL);
}

static const char pair[] =
    "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [4]> x, tensor<fp32, [4]> y, tensor<fp32, [4]> z) {\n"
    "tensor<fp32, [4]> s = add(x = x, y = y)[name = string(\"s\")];\n"
    "tensor<fp32, [4]> o = add(x = s, y = z)[name = string(\"o\")];\n} -> (o);\n}\n";

/* Returns the output for the inputs that are set. If `missing` is not NULL, expects the run to fail with that text
 * and returns -1. */
static float sum_of(propane_session *s, const char *missing) {
    propane_error err = {0};
    float o[4] = {0};
    if (missing) {
        EXPECT_FAIL(propane_session_run(s, NULL, &err), PROPANE_ERR_INVALID, missing);
        return -1;
    }
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "o", PROPANE_FP32, o, 4, &err));
    return o[3];
}

TEST(a_cleared_input_is_asked_for_again) {
    propane_error err = {0};
    propane_session *s = NULL;
    char *dir = test_temp_dir(), path[300];
    propane_module *m = NULL;
    const float one[4] = {1, 1, 1, 1}, two[4] = {2, 2, 2, 2};
    snprintf(path, sizeof path, "%s/pair.mlpackage", dir);
    EXPECT_OK(propane_module_parse(pair, strlen(pair), "given", NULL, &m, &err));
    EXPECT_OK(propane_module_write(m, path, PROPANE_MIL_SHORT, &err));
    propane_module_free(m);
    EXPECT_OK(propane_session_open(path, NULL, &s, &err));
    sum_of(s, "no value was given for x [4], y [4], z [4]: set them first");
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, one, 4, &err));
    EXPECT_OK(propane_session_set(s, "y", PROPANE_FP32, two, 4, &err));
    EXPECT_OK(propane_session_set(s, "z", PROPANE_FP32, two, 4, &err));
    EXPECT(sum_of(s, NULL) == 5 && sum_of(s, NULL) == 5); /* inputs stay set */
    EXPECT_OK(propane_session_clear(s, "y", &err));
    sum_of(s, "no value was given for y [4]: set them first");
    EXPECT_OK(propane_session_set(s, "y", PROPANE_FP32, one, 4, &err));
    EXPECT(sum_of(s, NULL) == 4);
    EXPECT_OK(propane_session_clear(s, NULL, &err));
    sum_of(s, "no value was given for x [4], y [4], z [4]");
    EXPECT_FAIL(propane_session_clear(s, "q", &err), PROPANE_ERR_NOT_FOUND, "available: x, y, z");
    /* Lent memory belongs to the caller alone again. */
    _Alignas(16) float mine[4] = {7, 7, 7, 7};
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, one, 4, &err));
    EXPECT_OK(propane_session_set(s, "z", PROPANE_FP32, one, 4, &err));
    EXPECT_OK(propane_session_lend(s, "y", mine, sizeof mine, &err));
    EXPECT(sum_of(s, NULL) == 9);
    EXPECT_OK(propane_session_clear(s, "y", &err));
    sum_of(s, "no value was given for y [4]");
    EXPECT_OK(propane_session_set(s, "y", PROPANE_FP32, one, 4, &err));
    EXPECT(sum_of(s, NULL) == 3 && mine[3] == 7);
    /* A batch's inputs apply only to the batch. */
    float batch[8] = {0, 0, 0, 10, 0, 0, 0, 20}, got[8];
    const propane_array in = {"y", PROPANE_FP32, batch}, out = {"o", PROPANE_FP32, got};
    EXPECT_OK(propane_session_run_batch(s, &in, 1, &out, 1, 2, &err));
    EXPECT(got[3] == 12 && got[7] == 22);
    EXPECT_FAIL(propane_session_run_batch(s, NULL, 0, &out, 1, 2, &err), PROPANE_ERR_INVALID,
                "no value was given for y");
    propane_session_close(s);
    mem_free(dir);
}

static const char overflow[] =
    "program(1.3)\n{\nfunc main<ios18>(state<tensor<fp16, [2]>> sum, tensor<fp16, [2]> x) {\n"
    "tensor<fp16, [2]> before = read_state(input = sum);\n"
    "tensor<fp16, [2]> after = add(x = before, y = x);\n"
    "write_state(data = after, input = sum);\n"
    "tensor<fp16, [2]> large = mul(x = after, y = fp16(600));\n"
    "tensor<fp16, [2]> none = sub(x = large, y = large);\n} -> (large);\n}\n";

/* The state was finite before the run; a non-finite value that the state itself holds is attributed to no
 * operation. */
TEST(numbers_that_are_none_are_counted_and_explained) {
    propane_error err = {0};
    const propane_session_options keep = {.size = sizeof keep, .keep = true};
    for (int kept = 0; kept < 2; kept++) {
        propane_session *s = NULL;
        propane_nonfinite found = {.size = sizeof found, .nan = 7};
        EXPECT_OK(open_text(overflow, kept ? &keep : NULL, &s, &err));
        EXPECT_FAIL(propane_session_run_counted(s, &found, &err), PROPANE_ERR_INVALID, "no value was given for x");
        EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, (const float[]){100, 1}, 2, &err));
        EXPECT(propane_session_keeps(s, "none") == kept && !propane_session_keeps(s, "large"));
        EXPECT(!propane_session_keeps(s, "sum_out") && !propane_session_keeps(s, "nobody"));
        EXPECT_OK(propane_session_run_counted(s, &found, &err));
        EXPECT(found.numbers == 4 && !found.nan && !found.infinite && !found.made && !found.from && !*found.text);
        EXPECT_OK(propane_session_run_counted(s, &found, &err));
        EXPECT(!found.nan && found.infinite == 1 && found.made == kept);
        if (kept) {
            EXPECT_TEXT(found.from, "operation");
            EXPECT_TEXT(found.name, "large");
            EXPECT_TEXT(found.op, "mul");
            EXPECT_TEXT(found.text, "mul 'large' produces the first of them from finite numbers (1 infinity of 2)");
        } else {
            EXPECT(!found.from && !*found.name && !found.op);
            EXPECT_TEXT(found.text, "1 infinity of 4");
        }
        EXPECT_OK(propane_session_set(s, "sum", PROPANE_FP32, (const float[]){NAN, 0}, 2, &err));
        EXPECT_OK(propane_session_run_counted(s, &found, &err));
        EXPECT(found.nan == 2 && !found.made);
        if (kept) EXPECT_TEXT(found.text, "input 'sum' holds 1 NaN, and no operation produces any");
        found.size = 3;
        EXPECT_FAIL(propane_session_run_counted(s, &found, &err), PROPANE_ERR_INVALID, "size field is 3");
        EXPECT_OK(propane_session_run_counted(s, NULL, &err));
        propane_session_close(s);
    }
}

TEST(lent_memory_is_read_and_written_where_it_lies) {
    propane_error err = {0};
    propane_session *s = NULL;
    _Alignas(16) float x[4] = {1, 4, 2, 3};
    _Alignas(16) float p[4] = {0};
    float out[3];
    EXPECT_OK(open_text(judge, NULL, &s, &err));
    EXPECT_TEXT(propane_session_probabilities(s), "all");
    EXPECT_OK(propane_session_lend(s, "x", x, sizeof x, &err));
    EXPECT_OK(propane_session_lend(s, "all", p, sizeof p, &err));
    for (int run = 0; run < 3; run++, x[run - 1] += 5) {
        EXPECT_OK(propane_session_run(s, NULL, &err));
        EXPECT_OK(propane_session_get(s, "all", PROPANE_FP32, out, 3, &err));
        EXPECT(memcmp(out, p, sizeof out) == 0 && fabsf(p[0] + p[1] + p[2] - 1) < 1e-6F);
    }
    EXPECT_MSG(p[1] > p[0] && p[0] > p[2], "%g %g %g", (double)p[0], (double)p[1], (double)p[2]);
    EXPECT_OK(propane_session_lend(s, "all", NULL, 0, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_lend(s, "x", NULL, 0, &err));
    EXPECT_FAIL(propane_session_run(s, NULL, &err), PROPANE_ERR_INVALID, "no value was given for x");
    EXPECT_FAIL(propane_session_lend(s, "x", (char *)x + 4, 12, &err), PROPANE_ERR_INVALID, "aligned to 16");
    EXPECT_FAIL(propane_session_lend(s, "x", x, 8, &err), PROPANE_ERR_INVALID, "12 are needed");
    EXPECT_FAIL(propane_session_lend(s, "q", x, 12, &err), PROPANE_ERR_NOT_FOUND, "available: x");
    propane_session_close(s);
    EXPECT_OK(open_text(adder, NULL, &s, &err));
    EXPECT_FAIL(propane_session_lend(s, "sum", x, sizeof x, &err), PROPANE_ERR_UNSUPPORTED, "is a state");
    EXPECT(!propane_session_probabilities(s));
    propane_session_close(s);
}

TEST(a_copy_of_a_module_stands_alone) {
    propane_error err = {0};
    propane_module *m = NULL, *copy = NULL;
    propane_session *s = NULL;
    char label[20];
    EXPECT_OK(propane_module_parse(judge, strlen(judge), "given", NULL, &m, &err));
    EXPECT_OK(propane_module_copy(m, &copy, &err));
    EXPECT_TEXT(propane_module_default_function(copy), "main");
    propane_module_free(m);
    EXPECT_OK(propane_session_open_module(copy, NULL, &s, &err));
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, (const float[]){1, 3, 2}, 3, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_label(s, 0, label, sizeof label, NULL, &err));
    EXPECT_TEXT(label, "bee");
    propane_session_close(s);
    EXPECT_FAIL(propane_module_copy(NULL, &copy, &err), PROPANE_ERR_INVALID, "must not be NULL");
}

TEST(sessions_share_their_states) {
    propane_error err = {0};
    propane_session *a = NULL, *b = NULL, *c = NULL;
    const float x[4] = {1, 2, 3, 4}, y[4] = {10, 10, 10, 10};
    float sum[4];
    EXPECT_OK(open_text(adder, NULL, &a, &err));
    propane_session_options options = {.size = sizeof options, .shares = a};
    EXPECT_OK(open_text(adder, &options, &b, &err));
    EXPECT(propane_session_device(a) == propane_session_device(b));
    EXPECT_OK(propane_session_set(a, "x", PROPANE_FP32, x, 4, &err));
    EXPECT_OK(propane_session_set(b, "x", PROPANE_FP32, y, 4, &err));
    EXPECT_OK(propane_session_run(a, NULL, &err));
    EXPECT_OK(propane_session_run(b, NULL, &err));
    EXPECT_OK(propane_session_run(a, NULL, &err));
    EXPECT_OK(propane_session_get(b, "sum", PROPANE_FP32, sum, 4, &err));
    for (int i = 0; i < 4; i++) EXPECT_MSG(sum[i] == 2 * x[i] + 10, "%g", (double)sum[i]);
    EXPECT_OK(propane_session_get(b, "twice", PROPANE_FP32, sum, 4, &err));
    EXPECT(sum[0] == 2 * (1 + 10)); /* the result of b's run */
    options.precision = "fp32";     /* its states have another type */
    EXPECT_FAIL(open_text(adder, &options, &c, &err), PROPANE_ERR_INVALID, "'sum'");
    EXPECT(!c);
    propane_session_close(b);
    EXPECT_OK(propane_session_run(a, NULL, &err));
    propane_session_close(a);
}

TEST(a_program_alone_names_the_session) {
    propane_error err = {0};
    propane_module *m = NULL;
    propane_device *d = NULL;
    propane_program *p = NULL;
    EXPECT_OK(propane_module_parse(adder, strlen(adder), "given", NULL, &m, &err));
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_FAIL(propane_program_compile(d, m, NULL, &p, &err), PROPANE_ERR_UNSUPPORTED, "propane_session_open");
    EXPECT_OK(propane_module_open_states(m, NULL, &err));
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    propane_program_free(p);
    propane_device_close(d);
    propane_module_free(m);
}

TEST(a_classifier_tells_its_label) {
    propane_error err = {0};
    propane_session *s = NULL;
    char label[20];
    double probability = 0, sum = 0;
    EXPECT_OK(open_text(judge, NULL, &s, &err));
    EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, (const float[]){1, 3, 2}, 3, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    static const char *const order[] = {"bee", "cat", "ant"};
    for (int k = 0; k < 3; k++) {
        EXPECT_OK(propane_session_label(s, k, label, sizeof label, &probability, &err));
        EXPECT_TEXT(label, order[k]);
        sum += probability;
    }
    EXPECT(fabs(sum - 1) < 1e-6);
    EXPECT(propane_module_label_count(propane_session_module(s), NULL) == 3);
    EXPECT_FAIL(propane_session_label(s, 3, label, sizeof label, NULL, &err), PROPANE_ERR_INVALID, "3 classes");
    propane_session_close(s);
}

TEST(a_batch_is_its_runs_one_by_one) {
    propane_error err = {0};
    propane_session *s = NULL;
    float x[12], out[12];
    for (int i = 0; i < 12; i++) x[i] = (float)(i % 5);
    EXPECT_OK(open_text(adder, NULL, &s, &err));
    const propane_array in = {"x", PROPANE_FP32, x}, to = {"twice", PROPANE_FP32, out};
    EXPECT_OK(propane_session_run_batch(s, &in, 1, &to, 1, 3, &err));
    for (int run = 0; run < 3; run++)
        for (int i = 0; i < 4; i++) {
            float want = 0;
            for (int k = 0; k <= run; k++) want += 2 * x[4 * k + i];
            EXPECT(out[4 * run + i] == want);
        }
    EXPECT_FAIL(propane_session_run_batch(s, &(propane_array){"z", PROPANE_FP32, x}, 1, NULL, 0, 1, &err),
                PROPANE_ERR_NOT_FOUND, "'z'");
    propane_session_close(s);
}

TEST(options_choose_precision_device_and_outputs) {
    propane_error err = {0};
    propane_session *s = NULL;
    const propane_session_options wide = {.size = sizeof wide, .precision = "fp32", .keep = true};
    EXPECT_OK(open_text(adder, &wide, &s, &err));
    EXPECT(propane_session_output(s, 0)->dtype == PROPANE_FP32 && propane_session_output_count(s) > 1);
    EXPECT_OK(propane_session_randomize(s, 7, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT(propane_session_program(s) && propane_session_device(s));
    propane_session_close(s);
    EXPECT_FAIL(open_text(adder, &(propane_session_options){.size = sizeof wide, .precision = "f8"}, &s, &err),
                PROPANE_ERR_INVALID, "'f8'");
    EXPECT_FAIL(open_text(adder, &(propane_session_options){.size = sizeof wide, .device = "abacus"}, &s, &err),
                PROPANE_ERR_NOT_FOUND, "abacus");
    EXPECT_FAIL(open_text(adder, &(propane_session_options){.precision = "fp32"}, &s, &err), PROPANE_ERR_INVALID,
                "sizeof(propane_session_options)");
    EXPECT(!s);
    EXPECT_FAIL(propane_session_open("/nowhere.mlpackage", NULL, &s, &err), PROPANE_ERR_NOT_FOUND, "/nowhere");
}

TEST(a_picture_goes_where_the_model_wants_it) {
    static const char source[] =
        "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [1, 3, 2, 2]> x) {\n"
        "tensor<fp32, [1, 3, 2, 2]> y = identity(x = x)[name = string(\"y\")];\n} -> (y);\n}\n";
    static const uint8_t rgb[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    propane_error err = {0};
    propane_session *s = NULL;
    float y[12];
    EXPECT_OK(open_text(source, NULL, &s, &err));
    EXPECT_OK(propane_session_set_image(s, "x", rgb, 2, 2, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "y", PROPANE_FP32, y, 12, &err));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 4; i++) EXPECT(y[4 * c + i] == (float)rgb[3 * i + c]);
    EXPECT_FAIL(propane_session_set_image(s, "x", rgb, 1, 4, &err), PROPANE_ERR_INVALID, "4 x 1 pixels");
    propane_session_close(s);
}

TEST(a_profile_counts_the_steps) {
    propane_error err = {0};
    propane_session *s = NULL;
    propane_profile_row row = {.size = sizeof row};
    int64_t ns = 0;
    EXPECT_OK(open_text(judge, NULL, &s, &err));
    EXPECT_OK(propane_session_randomize(s, 1, &err));
    propane_program *p = propane_session_program(s);
    EXPECT_OK(propane_program_profile(p, true, &err));
    for (int i = 0; i < 5; i++) EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT(propane_program_profile_count(p) > 0);
    for (int i = 0; propane_program_profile_get(p, i, &row); i++) {
        EXPECT(row.runs == 5 && row.kind && row.name);
        ns += row.ns;
    }
    EXPECT(ns > 0);
    EXPECT_OK(propane_program_profile(p, false, &err));
    propane_native native = {.size = sizeof native};
    propane_buffer *b = NULL;
    EXPECT_OK(propane_buffer_create(propane_session_device(s), 64, &b, &err));
    EXPECT(!propane_buffer_native(b, &native) && !native.iosurface && native.fd == -1);
    propane_buffer_free(b);
    propane_session_close(s);
    EXPECT_OK(open_text(judge, &(propane_session_options){.size = sizeof(propane_session_options), .device = "null"},
                        &s, &err));
    EXPECT_FAIL(propane_program_profile(propane_session_program(s), true, &err), PROPANE_ERR_UNSUPPORTED, "'null'");
    propane_session_close(s);
}

/* ---- the process ------------------------------------------------------------------------------------------------------------- */

static int asked, given_back;

static void *count_allocate(void *context, size_t bytes) {
    asked++;
    return malloc(bytes);
}

static void *count_resize(void *context, void *memory, size_t bytes) {
    asked += memory == NULL;
    return realloc(memory, bytes);
}

static void count_release(void *context, void *memory) {
    given_back++;
    free(memory);
}

TEST(memory_comes_from_the_hook) {
    propane_error err = {0};
    propane_session *s = NULL;
    const propane_allocator own = {sizeof own, NULL, count_allocate, count_resize, count_release};
    EXPECT_FAIL(propane_set_allocator(&(propane_allocator){.size = sizeof own}, &err), PROPANE_ERR_INVALID,
                "all required");
    EXPECT_OK(propane_set_allocator(&own, &err));
    EXPECT_OK(open_text(judge, NULL, &s, &err));
    EXPECT(asked > 20);
    EXPECT_FAIL(propane_set_allocator(NULL, &err), PROPANE_ERR_INVALID, "while the library holds");
    propane_session_close(s);
    EXPECT_MSG(asked - given_back < 20, "%d blocks", asked - given_back); /* tables of the process stay allocated */
}

TEST(versions_and_threads) {
    propane_error err = {0};
    EXPECT(propane_version_number() ==
           10000 * PROPANE_VERSION_MAJOR + 100 * PROPANE_VERSION_MINOR + PROPANE_VERSION_PATCH);
    EXPECT_OK(propane_set_threads(2, &err));
    EXPECT(propane_threads() == 2);
    EXPECT_FAIL(propane_set_threads(-1, &err), PROPANE_ERR_INVALID, "threads");
    propane_products p = {sizeof p}, unsized = {0};
    EXPECT_OK(propane_set_blas("off", &err));
    EXPECT_OK(propane_products_get(&p, &err));
    EXPECT(p.library == NULL && !p.measured && p.own_calls == 0 && p.library_calls == 0);
    EXPECT_FAIL(propane_products_get(&unsized, &err), PROPANE_ERR_INVALID, "size");
    EXPECT_OK(propane_set_blas("/nowhere/blas.so", &err));
    EXPECT_FAIL(propane_products_get(&p, &err), PROPANE_ERR_UNSUPPORTED, "/nowhere/blas.so");
    EXPECT_OK(propane_set_blas(NULL, &err));
}

static propane_status attempt_session(void *context, text *result, propane_error *err) {
    propane_session *s = NULL;
    float out[4];
    (void)context;
    PROPANE_TRY(open_text(adder, NULL, &s, err));
    propane_status status = propane_session_set(s, "x", PROPANE_FP32, (const float[]){1, 2, 3, 4}, 4, err);
    if (!status) status = propane_session_run(s, NULL, err);
    if (!status) status = propane_session_get(s, "twice", PROPANE_FP32, out, 4, err);
    if (!status) text_append_n(result, out, sizeof out);
    propane_session_close(s);
    return !status && result->failed ? propane_fail(err, PROPANE_ERR_MEMORY, "no memory") : status;
}

static bool asked_once(void *context) {
    int *left = context;
    return --*left == 0;
}

/* A run that the host ends leaves states unchanged, and the next run succeeds. */
TEST(a_host_ends_a_run) {
    static const char *const devices[] = {"cpu", "sim:m4"};
    for (int d = 0; d < 2; d++) {
        propane_error err = {0};
        propane_session *s = NULL;
        propane_session_options o = {.size = sizeof o, .device = devices[d]};
        const float x[4] = {1, 2, 3, 4};
        float sum[4];
        int left = 1, count = 0;
        propane_status status = PROPANE_OK;
        EXPECT_OK(open_text(adder, &o, &s, &err));
        EXPECT_OK(propane_session_set(s, "x", PROPANE_FP32, x, 4, &err));
        for (int64_t end = clock_ns() + 60000000; clock_ns() < end;) continue; /* the callback is called every 50 ms */
        propane_set_interrupt(asked_once, &left);
        /* The first run fails, unless the device's thread completes it before this thread checks. */
        while (!status && count < 2000) status = propane_session_run(s, NULL, &err), count += !status;
        EXPECT_MSG(status == PROPANE_ERR_CANCELLED && strstr(err.text, "the run was stopped at"), "%d: %s", count,
                   err.text);
        EXPECT_OK(propane_session_run(s, NULL, &err));
        propane_set_interrupt(NULL, NULL);
        EXPECT_OK(propane_session_get(s, "sum", PROPANE_FP32, sum, 4, &err));
        EXPECT_MSG(sum[0] == (float)(count + 1), "%g after %d runs", (double)sum[0], count + 1);
        propane_session_close(s);
    }
}

/* An input that the model leaves open gets the shape of its file; a shape that is named takes precedence. */
TEST(files_choose_open_shapes) {
    static const char open[] = "program(1.3)\n{\nfunc main<ios17>(tensor<fp32, [1, ?]> x, tensor<fp32, [2]> k) {\n"
                               "tensor<fp32, [1, ?]> y = square(x = x)[name = string(\"y\")];\n"
                               "tensor<fp32, [2]> z = square(x = k)[name = string(\"z\")];\n} -> (y, z);\n}\n";
    static const char head[] = "\x93NUMPY\x01\0\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }";
    propane_error err = {0};
    propane_session *s = NULL;
    float x[3] = {1, 2, 3}, y[3];
    char model[300], array[300], given[320];
    char *dir = test_temp_dir();
    snprintf(model, sizeof model, "%s/open.mil", dir);
    snprintf(array, sizeof array, "%s/x.npy", dir);
    mem_free(dir);
    snprintf(given, sizeof given, "x=%s", array);
    FILE *f = fopen(model, "wb");
    EXPECT(f && fputs(open, f) >= 0 && fclose(f) == 0);
    f = fopen(array, "wb");
    EXPECT(f && fwrite(head, 1, sizeof head - 1, f) == sizeof head - 1);
    EXPECT(fprintf(f, "%*s", 10 + 0x46 - (int)sizeof head + 1, "\n") > 0 && fwrite(x, 4, 3, f) == 3 && fclose(f) == 0);
    const char *files[] = {given};
    propane_session_options o = {.size = sizeof o, .files = files, .file_count = 1};
    EXPECT_OK(propane_session_open(model, &o, &s, &err));
    EXPECT_OK(propane_session_set(s, "k", PROPANE_FP32, x, 2, &err));
    EXPECT_OK(propane_session_run(s, NULL, &err));
    EXPECT_OK(propane_session_get(s, "y", PROPANE_FP32, y, 3, &err));
    EXPECT_MSG(y[0] == 1 && y[1] == 4 && y[2] == 9, "%g %g %g", (double)y[0], (double)y[1], (double)y[2]);
    propane_session_close(s);
    propane_shape named = {.name = "x", .rank = 2, .dim = {1, 4}};
    o.shapes = &named, o.shape_count = 1;
    EXPECT_FAIL(propane_session_open(model, &o, &s, &err), PROPANE_ERR_INVALID, "the array is [1, 3]");
    EXPECT(!s);
    snprintf(given, sizeof given, "k=%s", array); /* of an input that is not open, and with the wrong rank */
    EXPECT_FAIL(propane_session_open(model, &o, &s, &err), PROPANE_ERR_INVALID,
                "input 'k' is [2], but the array is [1, 3]");
    snprintf(given, sizeof given, "q=%s", array);
    EXPECT_FAIL(propane_session_open(model, &o, &s, &err), PROPANE_ERR_NOT_FOUND, "available: x, k");
    o.file_count = -1;
    EXPECT_FAIL(propane_session_open(model, &o, &s, &err), PROPANE_ERR_INVALID, "file_count is -1");
    o.file_count = 1, o.shape_count = -1;
    EXPECT_FAIL(propane_session_open(model, &o, &s, &err), PROPANE_ERR_INVALID, "shape_count is -1");
    EXPECT_FAIL(propane_session_open(NULL, &o, &s, &err), PROPANE_ERR_INVALID, "path must not be NULL");
}

TEST(without_memory) { EXPECT(test_each_failing_allocation("api session", attempt_session, NULL) > 50); }

SUITE("api/session", T(states_go_on_from_run_to_run), T(numbers_that_are_none_are_counted_and_explained),
      T(sessions_share_their_states), T(lent_memory_is_read_and_written_where_it_lies),
      T(a_cleared_input_is_asked_for_again), T(a_copy_of_a_module_stands_alone), T(a_program_alone_names_the_session),
      T(a_classifier_tells_its_label), T(a_batch_is_its_runs_one_by_one),
      T(options_choose_precision_device_and_outputs), T(a_picture_goes_where_the_model_wants_it),
      T(a_profile_counts_the_steps), T(files_choose_open_shapes), T(a_host_ends_a_run), T(memory_comes_from_the_hook),
      T(versions_and_threads), T(without_memory))
