/* SPDX-License-Identifier: MIT
 * Tests modules through propane.h: building, printing, reading again, differentiating, checking and estimating, and
 * the failure of each memory request.
 */
#include <math.h>
#include <stdlib.h>

#include "propane.h"
#include "support/failing.h"
#include "support/test.h"

/* y = relu(x w + b), x [2, 3], w [3, 4]. */
static propane_status build_layer(propane_dtype dtype, propane_module **out, propane_error *err) {
    static const float weight[12] = {1, 2, 3, 4, -1, -2, -3, -4, 0.5f, 0.25f, 0.125f, 1};
    static const uint16_t halves[12] = {0x3c00, 0x4000, 0x4200, 0x4400, 0xbc00, 0xc000,
                                        0xc200, 0xc400, 0x3800, 0x3400, 0x3000, 0x3c00};
    propane_builder *b = NULL;
    PROPANE_TRY(propane_builder_create("main", &b, err));
    propane_value *x = propane_build_input(b, "x", dtype, 2, (const int64_t[]){2, 3});
    propane_value *w = propane_build_constant(b, "w", dtype, 2, (const int64_t[]){3, 4},
                                              dtype == PROPANE_FP32 ? (const void *)weight : halves);
    propane_value *p =
        propane_build_op(b, "matmul", "p",
                         (propane_argument[]){{.name = "x", .value = x},
                                              {.name = "y", .value = w},
                                              {.name = "transpose_x", .value = propane_build_bool(b, false)},
                                              {.name = "transpose_y", .value = propane_build_bool(b, false)}},
                         4);
    propane_value *s = propane_build_op(
        b, "add", "s",
        (propane_argument[]){{.name = "x", .value = p}, {.name = "y", .value = propane_build_real(b, dtype, 0.5)}}, 2);
    propane_build_output(b, propane_build_op(b, "relu", "y", (propane_argument[]){{.name = "x", .value = s}}, 1));
    propane_status status = propane_builder_finish(b, out, err);
    propane_builder_free(b);
    return status;
}

static const float given[6] = {1, 2, -1, 0.5f, -0.25f, 3};

/* Runs with one input x and one output; `out` is [count]. */
static propane_status run_once(const propane_module *m, const char *const *names, const float *const *values,
                               const char *wanted, float *out, propane_error *err) {
    propane_device *device = NULL;
    propane_program *p = NULL;
    propane_request *request = NULL;
    propane_binding bindings[8];
    int count = 0;
    PROPANE_TRY(propane_device_open("cpu", &device, err));
    propane_status status = propane_program_compile(device, m, NULL, &p, err);
    for (int i = 0; !status && i < propane_program_input_count(p) + propane_program_output_count(p); i++) {
        const int inputs = propane_program_input_count(p);
        const propane_io *io = i < inputs ? propane_program_input(p, i) : propane_program_output(p, i - inputs);
        bindings[i].name = io->name;
        bindings[i].buffer = NULL;
        status = propane_buffer_create(device, io->bytes, &bindings[i].buffer, err);
        count++;
        for (int k = 0; !status && names[k]; k++)
            if (i < inputs && strcmp(names[k], io->name) == 0)
                status =
                    propane_buffer_write(bindings[i].buffer, io, PROPANE_FP32, values[k], propane_io_count(io), err);
    }
    if (!status) status = propane_request_create(p, bindings, count, &request, err);
    if (!status) status = propane_submit(&request, 1, err);
    if (!status) status = propane_wait(request, NULL, err);
    for (int i = 0; !status && i < count; i++)
        if (strcmp(bindings[i].name, wanted) == 0) {
            const propane_io *io = propane_program_find(p, wanted);
            status = propane_buffer_read(bindings[i].buffer, io, PROPANE_FP32, out, propane_io_count(io), err);
        }
    propane_request_free(request);
    for (int i = 0; i < count; i++) propane_buffer_free(bindings[i].buffer);
    propane_program_free(p);
    propane_device_close(device);
    return status;
}

static propane_status run_layer(const propane_module *m, float out[8], propane_error *err) {
    return run_once(m, (const char *const[]){"x", NULL}, (const float *const[]){given}, "y", out, err);
}

TEST(what_is_built_runs_prints_and_reads_back) {
    propane_error err = {0};
    propane_module *m = NULL, *again = NULL;
    char *program = NULL;
    size_t length = 0;
    float out[8], other[8];
    EXPECT_OK(build_layer(PROPANE_FP32, &m, &err));
    EXPECT_OK(run_layer(m, out, &err));
    /* row 0: (1, 2, -1): 1 - 2 - 0.5 + 0.5 = -1, ...; row 1: (0.5, -0.25, 3) */
    const float want[8] = {0, 0, 0, 0, 2.75f, 2.75f, 3.125f, 6.5f};
    for (int i = 0; i < 8; i++)
        EXPECT_MSG(fabsf(out[i] - want[i]) < 1e-6f, "%d: %g, not %g", i, (double)out[i], (double)want[i]);
    EXPECT_OK(propane_module_print(m, PROPANE_MIL_CANONICAL, &program, &length, &err));
    EXPECT(length == strlen(program) && strstr(program, "program(1.0)"));
    EXPECT_OK(propane_module_parse(program, length, "again", NULL, &again, &err));
    EXPECT_OK(run_layer(again, other, &err));
    EXPECT(memcmp(out, other, sizeof out) == 0);
    propane_free(program);
    propane_module_free(again);
    propane_module_free(m);
}

TEST(modules_are_written_in_every_form) {
    static const char *const names[] = {"a.mil", "b.mlpackage", "folder"};
    propane_error err = {0};
    propane_module *m = NULL;
    char *dir = test_temp_dir();
    float out[8], other[8];
    EXPECT_OK(build_layer(PROPANE_FP32, &m, &err));
    EXPECT_OK(run_layer(m, out, &err));
    for (int i = 0; i < 3; i++) {
        char path[1200];
        propane_module *again = NULL;
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        EXPECT_OK(propane_module_write(m, path, PROPANE_MIL_SHORT, &err));
        if (i == 2) snprintf(path, sizeof path, "%s/%s/model.mil", dir, names[i]);
        EXPECT_OK(propane_module_read(path, &again, &err));
        EXPECT_OK(run_layer(again, other, &err));
        EXPECT_MSG(memcmp(out, other, sizeof out) == 0, "%s", names[i]);
        propane_module_free(again);
    }
    propane_module_free(m);
    propane_free(dir);
}

TEST(the_builder_keeps_its_first_error) {
    propane_error err = {0};
    propane_builder *b = NULL;
    propane_module *m = NULL;
    EXPECT_OK(propane_builder_create("main", &b, &err));
    propane_value *x = propane_build_input(b, "x", PROPANE_FP32, 1, (const int64_t[]){4});
    EXPECT(!propane_build_op(b, "sofmax", NULL, (propane_argument[]){{.name = "x", .value = x}}, 1));
    EXPECT(!propane_build_op(b, "relu", NULL, (propane_argument[]){{.name = "x", .value = x}}, 1));
    EXPECT_FAIL(propane_builder_finish(b, &m, &err), PROPANE_ERR_NOT_FOUND, "there is no operation 'sofmax'");
    EXPECT(!m);
    propane_builder_free(b);
    EXPECT_OK(propane_builder_create("main", &b, &err));
    x = propane_build_input(b, "x", PROPANE_FP32, 1, (const int64_t[]){4});
    propane_build_output(b, propane_build_op(b, "relu", NULL, (propane_argument[]){{.name = "y", .value = x}}, 1));
    EXPECT_FAIL(propane_builder_finish(b, &m, &err), PROPANE_ERR_INVALID, "it has no argument 'y'");
    propane_builder_free(b);
    EXPECT_OK(propane_builder_create("main", &b, &err));
    EXPECT(!propane_build_op(b, "cond", NULL, NULL, 0));
    EXPECT_FAIL(propane_builder_finish(b, &m, &err), PROPANE_ERR_UNSUPPORTED, "blocks");
    propane_builder_free(b);
    propane_builder_free(NULL);
}

static const char stateful[] =
    "program(1.3)\n{\nfunc main<ios18>(state<tensor<fp16, [4]>> sum, tensor<fp16, [4]> x) {\n"
    "tensor<fp16, [4]> before = read_state(input = sum)[name = string(\"before\")];\n"
    "tensor<fp16, [4]> after = add(x = before, y = x)[name = string(\"after\")];\n"
    "write_state(data = after, input = sum)[name = string(\"w\")];\n} -> (after);\n}\n";

TEST(functions_inputs_outputs_and_states_are_reported) {
    propane_error err = {0};
    propane_module *m = NULL;
    propane_feature f = {.size = sizeof f};
    EXPECT_OK(propane_module_parse(stateful, strlen(stateful), "stateful", NULL, &m, &err));
    EXPECT(propane_module_function_count(m) == 1);
    EXPECT_TEXT(propane_module_function(m, 0), "main");
    EXPECT(!propane_module_function(m, 1) && !propane_module_function(m, -1));
    EXPECT(propane_module_feature_count(m, NULL, PROPANE_INPUT) == 1);
    EXPECT(propane_module_feature_count(m, "main", PROPANE_STATE) == 1);
    EXPECT(propane_module_feature_count(m, NULL, PROPANE_OUTPUT) == 1);
    EXPECT(propane_module_feature_count(m, "other", PROPANE_INPUT) < 0);
    EXPECT_OK(propane_module_feature(m, NULL, PROPANE_STATE, 0, &f, &err));
    EXPECT_TEXT(f.name, "sum");
    EXPECT_TEXT(f.type, "fp16");
    EXPECT(f.dtype == PROPANE_FP16 && f.rank == 1 && f.dim[0] == 4 && f.least[0] == 4 && f.most[0] == 4);
    EXPECT(f.kind == PROPANE_ARRAY && !f.colour && !f.description);
    EXPECT_FAIL(propane_module_feature(m, NULL, PROPANE_INPUT, 1, &f, &err), PROPANE_ERR_NOT_FOUND, "has 1 inputs");
    f.size = 0;
    EXPECT_FAIL(propane_module_feature(m, NULL, PROPANE_INPUT, 0, &f, &err), PROPANE_ERR_INVALID, "sizeof");
    EXPECT(propane_module_label_count(m, NULL) == 0);
    EXPECT_OK(propane_module_open_states(m, NULL, &err));
    EXPECT(propane_module_feature_count(m, NULL, PROPANE_INPUT) == 2);
    EXPECT(propane_module_feature_count(m, NULL, PROPANE_OUTPUT) == 2);
    EXPECT_OK(propane_module_widen(m, NULL, &err));
    f.size = sizeof f;
    EXPECT_OK(propane_module_feature(m, NULL, PROPANE_OUTPUT, 0, &f, &err));
    EXPECT(f.dtype == PROPANE_FP32);
    propane_module_free(m);
}

/* A program built with an older header has fewer members: none after them is changed. */
TEST(structures_may_grow) {
    struct older {
        size_t size;
        const char *name;
        uint64_t guard;
    } old = {.size = offsetof(struct older, guard), .guard = 77};
    EXPECT(propane_op_get(0, (propane_op_info *)(void *)&old));
    EXPECT(old.name && old.guard == 77);
    propane_op_info all = {.size = sizeof all};
    int count = 0;
    while (propane_op_get(count, &all)) {
        propane_op_parameter p = {.size = sizeof p};
        EXPECT(all.name && all.since && all.gradient && all.cpu);
        for (int i = 0; i < all.parameter_count; i++)
            EXPECT(propane_op_get_parameter(count, i, &p) && p.name && p.need);
        EXPECT(!propane_op_get_parameter(count, all.parameter_count, &p));
        count++;
    }
    EXPECT(count == propane_op_count() && count > 100);
}

/* Compares with central differences of the function itself. */
TEST(the_gradient_is_a_module) {
    static const char source[] = "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [2, 3]> x, tensor<fp32, [3, 2]> w) {\n"
                                 "tensor<fp32, [2, 2]> p = matmul(transpose_x = false, transpose_y = false, x = x, y = "
                                 "w)[name = string(\"p\")];\n"
                                 "tensor<fp32, [2, 2]> y = tanh(x = p)[name = string(\"y\")];\n} -> (y);\n}\n";
    static const float weight[6] = {0.5f, -0.25f, 0.125f, 1, -0.75f, 0.3f}, ones[4] = {1, 1, 1, 1};
    propane_error err = {0};
    propane_module *m = NULL, *g = NULL;
    float d[6], y[4];
    double worst = 0;
    EXPECT_OK(propane_module_parse(source, strlen(source), "f", NULL, &m, &err));
    EXPECT_OK(propane_module_gradient(m, NULL, "joint", (const char *const[]){"w"}, 1, &g, &err));
    EXPECT(propane_module_function_count(g) == 1 && propane_module_function_count(m) == 1);
    EXPECT_TEXT(propane_module_function(g, 0), "joint");
    EXPECT_OK(run_once(g, (const char *const[]){"x", "w", "d_y", NULL}, (const float *const[]){given, weight, ones},
                       "d_w", d, &err));
    for (int i = 0; i < 6; i++) {
        const double h = 1e-3;
        double sum[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            float moved[6];
            memcpy(moved, weight, sizeof moved);
            moved[i] += (float)(k ? -h : h);
            EXPECT_OK(
                run_once(m, (const char *const[]){"x", "w", NULL}, (const float *const[]){given, moved}, "y", y, &err));
            for (int j = 0; j < 4; j++) sum[k] += (double)y[j];
        }
        const double off = fabs((double)d[i] - (sum[0] - sum[1]) / (2 * h));
        if (off > worst) worst = off;
    }
    EXPECT_MSG(worst < 1e-3, "off by %g", worst); /* observed: 1e-4, from the rounding of the differences */
    propane_module_free(g);
    EXPECT_FAIL(propane_module_gradient(m, NULL, NULL, (const char *const[]){"v"}, 1, &g, &err), PROPANE_ERR_NOT_FOUND,
                "'v'");
    EXPECT(!g);
    propane_module_free(m);
    EXPECT_FAIL(propane_module_gradient(NULL, NULL, NULL, NULL, 0, &g, &err), PROPANE_ERR_INVALID, "NULL");
}

TEST(a_check_has_rows_verdicts_and_the_command_s_json) {
    propane_error err = {0};
    propane_report *r = NULL;
    propane_finding f = {.size = sizeof f};
    propane_verdict v = {.size = sizeof v};
    char *json = NULL, *plain = NULL;
    int refused = 0;
    const propane_check_options options = {.size = sizeof options, .target = "m1,m4", .os = "26.3"};
    propane_module *m = NULL;
    EXPECT_OK(build_layer(PROPANE_FP32, &m, &err));
    EXPECT_OK(propane_check_module(m, &options, &r, &err));
    EXPECT(propane_report_count(r) > 0 && propane_report_chips(r) == 2);
    for (int i = 0; propane_report_get(r, i, &f); i++) {
        EXPECT(f.rule && f.message && f.sentence && f.evidence && f.source && f.fix);
        refused += f.severity == PROPANE_REFUSED;
    }
    EXPECT(propane_report_verdict(r, 1, &v) && strcmp(v.chip, "m4") == 0);
    EXPECT((propane_report_worst(r) == PROPANE_REFUSED) == (refused > 0));
    EXPECT_OK(propane_report_print(r, PROPANE_JSON, &json, &err));
    EXPECT_OK(propane_report_print(r, PROPANE_TEXT, &plain, &err));
    EXPECT(strstr(json, "\"findings\"") && strstr(json, f.rule) && strstr(plain, f.fix));
    propane_free(json);
    propane_free(plain);
    propane_report_free(r);
    const propane_check_options coreml = {.size = sizeof coreml, .target = "m1", .path = "coreml"};
    EXPECT_OK(propane_check_module(m, &coreml, &r, &err));
    EXPECT_TEXT(propane_report_path(r), "coreml");
    EXPECT(propane_report_worst(r) != PROPANE_REFUSED);
    propane_verdict through = {.size = sizeof through};
    EXPECT(propane_report_verdict(r, 0, &through) && through.refusals == 0 && through.segments >= 1);
    EXPECT(through.switches <= through.segments && through.switches_at);
    propane_report_free(r);
    EXPECT_FAIL(propane_check_module(m, &(propane_check_options){.size = sizeof options, .path = "linux"}, &r, &err),
                PROPANE_ERR_INVALID, "path must be direct or coreml");
    EXPECT_FAIL(propane_check_module(m, &(propane_check_options){.size = sizeof options, .target = "m99"}, &r, &err),
                PROPANE_ERR_NOT_FOUND, "m99");
    EXPECT_FAIL(propane_check_module(m, &(propane_check_options){.size = sizeof options, .os = "new"}, &r, &err),
                PROPANE_ERR_INVALID, "'new'");
    EXPECT_FAIL(propane_check_module(m, &(propane_check_options){0}, &r, &err), PROPANE_ERR_INVALID, "sizeof");
    EXPECT_FAIL(propane_check_file("/nowhere", NULL, &r, &err), PROPANE_ERR_NOT_FOUND, "/nowhere");
    EXPECT(!r);
    EXPECT_OK(propane_rules_print(PROPANE_TEXT, &plain, &err));
    EXPECT(strstr(plain, "C13"));
    propane_free(plain);
    propane_module_free(m);
}

TEST(an_estimate_has_rows_and_operations) {
    propane_error err = {0};
    propane_estimate *e = NULL;
    propane_module *m = NULL;
    propane_estimate_row row = {.size = sizeof row};
    propane_estimate_op op = {.size = sizeof op};
    char *json = NULL;
    EXPECT_OK(build_layer(PROPANE_FP16, &m, &err));
    const propane_estimate_options options = {.size = sizeof options, .target = "m1,m4"};
    EXPECT_OK(propane_estimate_module(m, &options, &e, &err));
    EXPECT(propane_estimate_count(e) == 2);
    EXPECT(propane_estimate_get(e, 1, &row) && !propane_estimate_get(e, 2, &row));
    EXPECT_TEXT(row.chip, "m4");
    EXPECT(row.ms > 0 && row.low_ms <= row.ms && row.ms <= row.high_ms && row.energy_mj > 0);
    double flops = 0;
    for (int i = 0; i < row.op_count; i++) {
        EXPECT(propane_estimate_get_op(e, 1, i, &op) && op.op && op.bound);
        flops += op.flops;
    }
    EXPECT(flops == row.flops && flops >= 48); /* 2 * 2 * 3 * 4 in the matrix product */
    EXPECT_OK(propane_estimate_print(e, PROPANE_JSON, false, &json, &err));
    EXPECT(strstr(json, "\"chip\": \"m4\"") && strstr(json, "\"kind\": \"estimated\""));
    propane_free(json);
    propane_estimate_free(e);
    EXPECT_FAIL(propane_estimate_module(m, &(propane_estimate_options){.size = sizeof options, .path = "x"}, &e, &err),
                PROPANE_ERR_INVALID, "direct");
    propane_module_free(m);
}

TEST(shapes_are_read_from_text) {
    propane_error err = {0};
    propane_shape s;
    EXPECT_OK(propane_shape_parse("x=1,3,224,224", &s, &err));
    EXPECT(s.rank == 4 && s.dim[3] == 224 && strcmp(s.name, "x") == 0);
    propane_free((void *)(uintptr_t)s.name);
    static const char *const wrong[] = {"x", "x=", "=1", "x=0", "x=1,", "x=1,a", "x=1,1,1,1,1,1,1,1,1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT_FAIL(propane_shape_parse(wrong[i], &s, &err), PROPANE_ERR_INVALID, wrong[i]);
}

/* ---- failing requests for memory -------------------------------------------------------------------------------------------- */

static propane_status attempt_module(void *context, text *result, propane_error *err) {
    propane_module *m = NULL, *g = NULL;
    propane_report *r = NULL;
    propane_estimate *e = NULL;
    char *json = NULL, *program = NULL;
    const propane_check_options options = {.size = sizeof options, .target = "m4"};
    (void)context;
    propane_status status = build_layer(PROPANE_FP32, &m, err);
    if (!status) status = propane_module_gradient(m, NULL, "g", NULL, 0, &g, err);
    if (!status) status = propane_module_print(g, PROPANE_MIL_SHORT, &program, NULL, err);
    if (!status) text_append(result, program);
    if (!status) status = propane_check_module(m, &options, &r, err);
    if (!status) status = propane_report_print(r, PROPANE_JSON, &json, err);
    if (!status) text_append(result, json);
    propane_free(json);
    json = NULL;
    if (!status) status = propane_estimate_module(m, NULL, &e, err);
    if (!status) status = propane_estimate_print(e, PROPANE_TEXT, true, &json, err);
    if (!status) text_append(result, json);
    propane_free(json);
    propane_free(program);
    propane_estimate_free(e);
    propane_report_free(r);
    propane_module_free(g);
    propane_module_free(m);
    return !status && result->failed ? propane_fail(err, PROPANE_ERR_MEMORY, "no memory") : status;
}

TEST(without_memory) { EXPECT(test_each_failing_allocation("api module", attempt_module, NULL) > 50); }

SUITE("api/module", T(what_is_built_runs_prints_and_reads_back), T(modules_are_written_in_every_form),
      T(the_builder_keeps_its_first_error), T(functions_inputs_outputs_and_states_are_reported), T(structures_may_grow),
      T(the_gradient_is_a_module), T(a_check_has_rows_verdicts_and_the_command_s_json),
      T(an_estimate_has_rows_and_operations), T(shapes_are_read_from_text), T(without_memory))
