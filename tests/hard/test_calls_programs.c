/* SPDX-License-Identifier: MIT
 * Calls on programs, devices and sessions with each of their requests for memory failing (calls.h).
 */
#include "hard/calls.h"

#include <stdlib.h>

#include "support/test.h"

static propane_status read_module(propane_module **out, propane_error *err) {
    return propane_module_read("m.mil", out, err);
}

static propane_status modules(void *context, text *result, propane_error *err) {
    propane_module *m = NULL, *copy = NULL;
    propane_feature feature = {.size = sizeof feature};
    char *printed = NULL;
    propane_status status = read_module(&m, err);
    STEP(propane_module_copy(m, &copy, err));
    STEP(propane_module_print(copy, PROPANE_MIL_CANONICAL, &printed, NULL, err));
    calls_take(result, printed);
    TELL("%d %s %s", propane_module_function_count(m), propane_module_function(m, 0),
         propane_module_default_function(m));
    TELL("%d", propane_module_feature_count(m, NULL, PROPANE_INPUT));
    STEP(propane_module_feature(m, NULL, PROPANE_OUTPUT, 0, &feature, err));
    TELL("%s %d", feature.name, feature.rank);
    TELL("%d", (int)propane_module_label_count(m, NULL));
    if (!status) TELL("%d", propane_module_metadata(m, "author") == NULL);
    const propane_value *v = status ? NULL : propane_module_next_value(m, NULL, NULL);
    for (; v; v = propane_module_next_value(m, NULL, v))
        TELL("%s %s %lld", propane_value_name(v), propane_value_op(v), (long long)propane_value_count(v));
    propane_module_free(copy);
    propane_module_free(m);
    return calls_end(status, result, err);
}

static propane_status changed_modules(void *context, text *result, propane_error *err) {
    static const char half[] =
        "program(1.3)\n{\n    func main<ios18>(state<tensor<fp16, [2]>> s, tensor<fp16, [2]> x) {\n"
        "        tensor<fp16, [2]> r = read_state(input = s)[name = string(\"r\")];\n"
        "        tensor<fp16, [2]> a = add(x = r, y = x)[name = string(\"a\")];\n"
        "        tensor<fp16, [2]> y = softplus(x = a)[name = string(\"y\")];\n"
        "        tensor<fp16, [2]> u = coreml_update_state(state = s, value = y)[name = string(\"u\")];\n"
        "    } -> (y);\n}\n";
    propane_module *m = NULL, *half_module = NULL, *g = NULL;
    char *printed = NULL, *second = NULL, *third = NULL;
    propane_status status = read_module(&m, err);
    STEP(propane_module_gradient(m, NULL, "back", NULL, 0, &g, err));
    STEP(propane_module_print(g, PROPANE_MIL_SHORT, &printed, NULL, err));
    STEP(propane_module_parse(half, sizeof half - 1, "half.mil", NULL, &half_module, err));
    STEP(propane_module_open_states(half_module, NULL, err));
    STEP(propane_module_widen(half_module, NULL, err));
    STEP(propane_module_for_engine(half_module, NULL, &third, err));
    STEP(propane_module_until(half_module, NULL, "y", err));
    STEP(propane_module_print(half_module, PROPANE_MIL_SHORT, &second, NULL, err));
    calls_take(result, printed);
    calls_take(result, second);
    calls_take(result, third);
    propane_module_free(g);
    propane_module_free(half_module);
    propane_module_free(m);
    return calls_end(status, result, err);
}

static propane_status written_modules(void *context, text *result, propane_error *err) {
    propane_module *m = NULL, *again = NULL;
    propane_shape shape = {0};
    char label[20];
    propane_status status = read_module(&m, err);
    STEP(propane_module_write(m, "out/m.mlpackage", PROPANE_MIL_SHORT, err));
    STEP(propane_module_write(m, "out/m.mil", PROPANE_MIL_SHORT, err));
    STEP(propane_module_write(m, "out/m", PROPANE_MIL_CANONICAL, err));
    STEP(propane_shape_parse("x=1,3", &shape, err));
    STEP(propane_module_read_shaped("out/m.mlpackage", &shape, 1, &again, err));
    TELL("%d", (int)propane_module_label(again, NULL, 0, label, sizeof label));
    propane_free((void *)(uintptr_t)shape.name);
    propane_module_free(again);
    propane_module_free(m);
    /* packages have random identifiers, so their bytes differ */
    if (!status && system("rm -rf out/m.mlpackage")) status = PROPANE_ERR_IO;
    return calls_end(status, result, err);
}

static propane_status built(void *context, text *result, propane_error *err) {
    static const float w[] = {1, 2, 3, 4, 5, 6};
    propane_builder *b = NULL;
    propane_module *m = NULL;
    char *printed = NULL;
    propane_status status = propane_builder_create("main", &b, err);
    if (!status) {
        propane_value *x = propane_build_input(b, "x", PROPANE_FP32, 2, (const int64_t[]){2, 3});
        propane_value *c = propane_build_constant(b, "c", PROPANE_FP32, 2, (const int64_t[]){2, 3}, w);
        propane_value *s = propane_build_op(b, "add", "s", (propane_argument[]){{"x", x}, {"y", c}}, 2);
        propane_value *half = propane_build_op(
            b, "mul", "half", (propane_argument[]){{"x", s}, {"y", propane_build_real(b, PROPANE_FP32, 0.5)}}, 2);
        propane_value *axes = propane_build_ints(b, (const int64_t[]){1}, 1);
        propane_value *sum = propane_build_op(
            b, "reduce_sum", "sum",
            (propane_argument[]){{"x", half}, {"axes", axes}, {"keep_dims", propane_build_bool(b, true)}}, 3);
        propane_value *g = propane_build_op(
            b, "gelu", "g", (propane_argument[]){{"x", sum}, {"mode", propane_build_text(b, "EXACT")}}, 2);
        propane_value *parts = propane_build_op(
            b, "split", "parts",
            (propane_argument[]){{"x", g}, {"num_splits", propane_build_int(b, 2)}, {"axis", propane_build_int(b, 0)}},
            3);
        propane_build_output(b, propane_build_result(b, parts, 1));
        status = propane_builder_finish(b, &m, err);
    }
    STEP(propane_module_print(m, PROPANE_MIL_SHORT, &printed, NULL, err));
    calls_take(result, printed);
    propane_module_free(m);
    propane_builder_free(b);
    return calls_end(status, result, err);
}

static propane_status shown(void *context, text *result, propane_error *err) {
    const propane_show_options json = {.size = sizeof json, .form = PROPANE_JSON};
    char *a = NULL, *b = NULL;
    const char *kind = propane_file_kind("m.mil");
    propane_status status = propane_file_show("m.mil", NULL, &a, NULL, err);
    STEP(propane_file_show("m.mil", &json, &b, NULL, err));
    TELL("%s", kind ? kind : "no kind");
    if (!status)
        calls_take(result, a), calls_take(result, b);
    else
        propane_free(a), propane_free(b);
    return calls_end(status, result, err);
}

static propane_status registers(void *context, text *result, propane_error *err) {
    static const char half[] =
        "program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 4, 1, 8]> x, tensor<fp16, [1, 4, 1, 8]> y) {\n"
        "        tensor<fp16, [1, 4, 1, 8]> z = add(x = x, y = y)[name = string(\"z\")];\n    } -> (z);\n}\n";
    propane_module *m = NULL;
    propane_object *o = NULL, *again = NULL;
    propane_object_info info = {.size = sizeof info};
    char *report = NULL, *differ = NULL;
    int differences = -1;
    propane_status status = propane_module_parse(half, sizeof half - 1, "half.mil", NULL, &m, err);
    STEP(propane_object_compile(m, NULL, NULL, &report, &o, err));
    calls_take(result, report);
    STEP(propane_object_write(o, "out/m.hwx", err));
    STEP(propane_object_open("out/m.hwx", &again, err));
    STEP(propane_object_compare(o, again, &differences, &differ, err));
    calls_take(result, differ);
    TELL("%d %d %d", differences, !status && propane_object_describe(o, &info), info.tasks);
    propane_object_free(again);
    propane_object_free(o);
    propane_module_free(m);
    return calls_end(status, result, err);
}

static propane_status checked(void *context, text *result, propane_error *err) {
    const propane_check_options o = {.size = sizeof o, .target = "m1,m4"};
    propane_module *m = NULL;
    propane_report *r = NULL, *f = NULL;
    propane_finding finding = {.size = sizeof finding};
    propane_verdict verdict = {.size = sizeof verdict};
    const propane_look look = {.size = sizeof look, .width = 60};
    char *printed[4] = {0};
    propane_status status = read_module(&m, err);
    STEP(propane_check_options_test(&o, err));
    STEP(propane_check_module(m, &o, &r, err));
    STEP(propane_check_file("m.mil", &o, &f, err));
    STEP(propane_report_print(r, PROPANE_JSON, &printed[0], err));
    STEP(propane_report_print(f, PROPANE_SARIF, &printed[1], err));
    STEP(propane_report_print_look(r, &look, &printed[2], err));
    STEP(propane_rules_print(PROPANE_MARKDOWN, &printed[3], err));
    for (int i = 0; i < 4; i++) calls_take(result, printed[i]);
    if (!status) {
        for (int i = 0; propane_report_get(r, i, &finding); i++) TELL("%s %s", finding.rule, finding.message);
        for (int i = 0; i < propane_report_chips(r); i++)
            TELL("%d %s %d", propane_report_verdict(r, i, &verdict), verdict.chip, verdict.refusals);
        TELL("%d %d %s", propane_report_count(r), (int)propane_report_worst(r), propane_report_path(r));
    }
    propane_report_free(f);
    propane_report_free(r);
    propane_module_free(m);
    return calls_end(status, result, err);
}

static propane_status estimated(void *context, text *result, propane_error *err) {
    propane_module *m = NULL;
    propane_estimate *e = NULL;
    propane_estimate_row row = {.size = sizeof row};
    propane_estimate_op op = {.size = sizeof op};
    propane_page_value value = {.size = sizeof value, .name = "y", .us = 3};
    const propane_page_options page = {.size = sizeof page, .colour = "time", .values = &value, .value_count = 1};
    const char *names[PROPANE_MAX_CHIPS];
    char *printed[3] = {0};
    int count = 0;
    propane_status status = read_module(&m, err);
    STEP(propane_estimate_module(m, NULL, &e, err));
    STEP(propane_estimate_print(e, PROPANE_JSON, true, &printed[0], err));
    STEP(propane_estimate_print(e, PROPANE_TEXT, true, &printed[1], err));
    STEP(propane_module_page(m, &page, &printed[2], NULL, err));
    STEP(propane_chips("m1,m4", names, PROPANE_MAX_CHIPS, &count, err));
    for (int i = 0; i < 3; i++) calls_take(result, printed[i]);
    if (!status) {
        TELL("%d %d %d", propane_estimate_count(e), propane_estimate_get(e, 0, &row),
             propane_estimate_get_op(e, 0, 0, &op));
        TELL("%s %g %s %g %d", row.chip, row.ms, op.op, op.ms, count);
    }
    propane_estimate_free(e);
    propane_module_free(m);
    return calls_end(status, result, err);
}

static propane_status planned(void *context, text *result, propane_error *err) {
    const propane_plan_options o = {.size = sizeof o, .plan = "six", .precision = "fp16", .context = 16};
    const propane_training_estimate_options e = {.size = sizeof e, .context = 16};
    propane_plan *p = NULL;
    char *printed = NULL, *estimate = NULL, *where = NULL;
    propane_status status = propane_plan_create("r", &o, &p, err);
    STEP(propane_plan_print(p, &printed, NULL, err));
    STEP(propane_estimate_training("r", &e, PROPANE_JSON, &estimate, err));
    STEP(propane_where("r", NULL, PROPANE_JSON, &where, err));
    STEP(propane_plan_supported(p, "m4", NULL, err));
    TELL("%d %s %d", propane_plan_takes("r"), propane_weight_modes(),
         propane_module_function_count(propane_plan_module(p)));
    calls_take(result, printed);
    calls_take(result, estimate);
    calls_take(result, where);
    propane_plan_free(p);
    return calls_end(status, result, err);
}

/* Makes one request from start to end on device `uri`. */
static propane_status requested(const char *uri, text *result, propane_error *err) {
    static const float values[] = {1, 2, 3};
    propane_device *d = NULL;
    propane_module *m = NULL;
    propane_program *p = NULL;
    propane_buffer *x = NULL, *y = NULL;
    propane_request *r = NULL;
    propane_event *e = NULL;
    propane_completion done = {.size = sizeof done};
    float out[2] = {0};
    propane_status status = propane_device_open(uri, &d, err);
    STEP(read_module(&m, err));
    STEP(propane_program_supported(d, m, NULL, err));
    STEP(propane_program_compile(d, m, NULL, &p, err));
    STEP(propane_buffer_create(d, 4096, &x, err));
    STEP(propane_buffer_create(d, 4096, &y, err));
    STEP(propane_event_create(d, &e, err));
    if (!status) {
        const propane_binding bindings[] = {{"x", x}, {"y", y}};
        const propane_event_point signal = {e, 1};
        status = propane_request_create(p, bindings, 2, &r, err);
        STEP(propane_request_events(r, NULL, 0, &signal, 1, err));
        STEP(propane_buffer_write(x, propane_program_input(p, 0), PROPANE_FP32, values, 3, err));
    }
    STEP(propane_submit(&r, 1, err));
    STEP(propane_wait(r, &done, err));
    STEP(propane_event_wait(e, 1, 1000, err));
    STEP(propane_buffer_read(y, propane_program_find(p, "y"), PROPANE_FP32, out, 2, err));
    TELL("%g %g", (double)out[0], (double)out[1]);
    if (!status) propane_event_signal(e, 2);
    TELL("%d %d %d", propane_program_input_count(p), propane_program_output_count(p), (int)propane_event_value(e));
    TELL("%d %d", (int)propane_io_count(propane_program_output(p, 0)), (int)propane_buffer_bytes(x));
    propane_request_free(r);
    propane_event_free(e);
    propane_buffer_free(x);
    propane_buffer_free(y);
    propane_program_free(p);
    propane_module_free(m);
    propane_device_close(d);
    return calls_end(status, result, err);
}

static propane_status on_cpu(void *context, text *result, propane_error *err) { return requested("cpu", result, err); }
static propane_status on_sim(void *context, text *result, propane_error *err) {
    return requested("sim:m4", result, err);
}

static propane_status programs(void *context, text *result, propane_error *err) {
    propane_device *d = NULL;
    propane_module *m = NULL;
    propane_buffer *b = NULL, *wrapped = NULL;
    propane_compile_report report = {.size = sizeof report};
    propane_profile_row row = {.size = sizeof row};
    propane_native native = {.size = sizeof native};
    static _Alignas(64) float memory[64];
    void *at = NULL;
    int count = 0;
    propane_status status = propane_device_open("cpu", &d, err);
    STEP(read_module(&m, err));
    propane_compile_item items[2] = {{m}, {m}};
    STEP(propane_program_compile_all(d, items, 2, NULL, &report, err));
    STEP(propane_program_profile(items[0].program, true, err));
    STEP(propane_buffer_wrap(d, memory, sizeof memory, &wrapped, err));
    STEP(propane_buffer_create(d, 64, &b, err));
    STEP(propane_buffer_lock(b, true, &at, err));
    if (!status) {
        propane_buffer_unlock(b);
        TELL("%d %d", propane_program_profile_count(items[0].program),
             propane_program_profile_get(items[0].program, 0, &row));
        TELL("%s %s", row.kind, row.name);
        TELL("%d %d", propane_program_fusion(items[0].program, 0, &count) != NULL, propane_buffer_native(b, &native));
        TELL("%s %d", propane_device_describe(d)->uri, propane_uri_names("sim:m4", "sim"));
    }
    propane_buffer_free(wrapped);
    propane_buffer_free(b);
    for (int i = 0; i < 2; i++) propane_program_free(items[i].program);
    propane_module_free(m);
    propane_device_close(d);
    return calls_end(status, result, err);
}

static propane_status sessions(void *context, text *result, propane_error *err) {
    static const float values[] = {1, 2, 3}, two[] = {1, 2, 3, 4, 5, 6};
    float got[2] = {0}, all[4] = {0};
    const propane_session_options keep = {.size = sizeof keep, .keep = true, .precision = "fp32"};
    propane_session *s = NULL, *kept = NULL;
    propane_module *m = NULL;
    propane_status status = propane_session_open("m.mil", NULL, &s, err);
    STEP(propane_session_randomize(s, 3, err));
    STEP(propane_session_ready(s, NULL, err));
    STEP(propane_session_set(s, "x", PROPANE_FP32, values, 3, err));
    STEP(propane_session_run(s, NULL, err));
    STEP(propane_session_get(s, "y", PROPANE_FP32, got, 2, err));
    const propane_array in = {"x", PROPANE_FP32, (void *)(uintptr_t)two}, out = {"y", PROPANE_FP32, all};
    STEP(propane_session_run_batch(s, &in, 1, &out, 1, 2, err));
    STEP(propane_session_write(s, "out/values", err));
    STEP(propane_session_reset(s, err));
    STEP(propane_session_clear(s, NULL, err));
    STEP(read_module(&m, err));
    if (!status) {
        status = propane_session_open_module(m, &keep, &kept, err);
        STEP(propane_session_randomize(kept, 3, err));
        propane_nonfinite found = {.size = sizeof found};
        STEP(propane_session_run_counted(kept, &found, err));
        TELL("%d %d %s", propane_session_output_count(kept), propane_session_keeps(kept, "y"), found.text);
    }
    if (!status) {
        TELL("%g %g %g %g", (double)got[0], (double)got[1], (double)all[0], (double)all[3]);
        TELL("%d %d", propane_session_input_count(s), propane_session_state_count(s));
        TELL("%s %s %d", propane_session_input(s, 0)->name, propane_session_output(s, 0)->name,
             !propane_session_state(s, 0));
        TELL("%d %d", propane_session_label_name(s) == NULL, propane_session_probabilities(s) == NULL);
        TELL("%d %d", propane_session_program(s) != NULL, propane_session_device(s) != NULL);
        TELL("%d %d", propane_session_module(s) != NULL, (int)propane_session_steps(s));
    }
    propane_session_close(kept);
    propane_session_close(s);
    return calls_end(status, result, err);
}

static propane_status lent(void *context, text *result, propane_error *err) {
    static _Alignas(64) float memory[64];
    propane_session *s = NULL;
    float y[2] = {0};
    memory[0] = 1, memory[1] = 2, memory[2] = 3;
    propane_status status = propane_session_open("m.mil", NULL, &s, err);
    STEP(propane_session_lend(s, "x", memory, sizeof memory, err));
    STEP(propane_session_run(s, NULL, err));
    STEP(propane_session_get(s, "y", PROPANE_FP32, y, 2, err));
    STEP(propane_session_set_file(s, "x=steps.npy", err));
    TELL("%d steps", (int)propane_session_steps(s));
    for (int i = 0; i < 2; i++) {
        STEP(propane_session_step(s, i, err));
        STEP(propane_session_run(s, NULL, err));
        STEP(propane_session_keep(s, i, err));
    }
    STEP(propane_session_write(s, "out/steps", err));
    TELL("%g", (double)y[1]);
    propane_session_close(s);
    return calls_end(status, result, err);
}

static propane_status encoded(void *context, text *result, propane_error *err) {
    static const char *const colour = "blue";
    propane_session *s = NULL;
    float code = 0;
    char key[20] = "";
    propane_status status = propane_session_open("mapping.mlmodel", NULL, &s, err);
    STEP(propane_session_set_keys(s, "colour", &colour, NULL, 1, err));
    STEP(propane_session_run(s, NULL, err));
    STEP(propane_session_get(s, "code", PROPANE_FP32, &code, 1, err));
    if (!status) (void)propane_module_key(propane_session_module(s), NULL, "colour", 0, key, sizeof key);
    TELL("%g %s", (double)code, key);
    propane_session_close(s);
    return calls_end(status, result, err);
}

static propane_status classified(void *context, text *result, propane_error *err) {
    static const uint8_t rgb[3 * 64 * 64];
    const propane_session_options resize = {.size = sizeof resize, .resize = true};
    propane_session *s = NULL;
    char label[40] = "";
    double probability = 0;
    propane_status status = propane_session_open("classifier.mlmodel", &resize, &s, err);
    STEP(propane_session_set_image(s, propane_session_input(s, 0)->name, rgb, 64, 64, err));
    STEP(propane_session_run(s, NULL, err));
    STEP(propane_session_label(s, 0, label, sizeof label, &probability, err));
    TELL("%s %.6g %d", label, probability, (int)propane_module_label_count(propane_session_module(s), NULL));
    propane_session_close(s);
    return calls_end(status, result, err);
}

/* Writes x of two runs in NumPy's format. */
static void write_steps(void) {
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 3), }";
    static const float values[6] = {1, 2, 3, -4, 5, 6};
    FILE *f = fopen("steps.npy", "wb");
    EXPECT(f != NULL);
    fprintf(f, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, head);
    EXPECT(fwrite(values, sizeof values, 1, f) == 1 && fclose(f) == 0);
}

TEST(calls_on_programs) {
    static const calls_row rows[] = {{"modules", modules},
                                     {"changed_modules", changed_modules},
                                     {"written_modules", written_modules},
                                     {"builder", built},
                                     {"show", shown},
                                     {"registers", registers},
                                     {"check", checked},
                                     {"estimate", estimated}};
    calls_enter(false);
    calls_try(rows, sizeof rows / sizeof rows[0]);
}

TEST(calls_on_devices) {
    static const calls_row rows[] = {{"request_cpu", on_cpu}, {"request_sim", on_sim}, {"programs", programs},
                                     {"sessions", sessions},  {"lent", lent},          {"classifier", classified},
                                     {"encoded", encoded}};
    calls_enter(false);
    write_steps();
    calls_try(rows, sizeof rows / sizeof rows[0]);
}

TEST(calls_on_plans) {
    static const calls_row rows[] = {{"plan", planned}};
    calls_enter(true);
    calls_try(rows, sizeof rows / sizeof rows[0]);
}

SUITE("hard/calls_programs", T(calls_on_programs), T(calls_on_devices), T(calls_on_plans))
