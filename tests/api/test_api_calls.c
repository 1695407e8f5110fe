/* SPDX-License-Identifier: MIT
 * Tests every call of the headers except lm.h with each argument wrong in turn (call_table.h).
 */
#include <pthread.h>
#include <stdlib.h>

#include "api/call_table.h"
#include "core/base/file.h"
#include "core/base/npy.h"
#include "support/test.h"

static const char layer[] = "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> y) {\n"
                            "        tensor<fp32, [2, 3]> s = add(x = x, y = y)[name = string(\"s\")];\n"
                            "        tensor<fp32, [2, 3]> r = relu(x = s)[name = string(\"r\")];\n    } -> (r);\n}\n";
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
static const char picture[] = "program(1.3)\n{\nfunc main<ios18>(tensor<fp32, [1, 3, 2, 2]> x) {\n"
                              "tensor<fp32, [1, 3, 2, 2]> y = relu(x = x)[name = string(\"y\")];\n} -> (y);\n}\n";
static const char half[] =
    "program(1.3)\n{\n    func main<ios18>(tensor<fp16, [1, 4, 1, 8]> x, tensor<fp16, [1, 4, 1, 8]> y) {\n"
    "        tensor<fp16, [1, 4, 1, 8]> z = add(x = x, y = y)[name = string(\"z\")];\n    } -> (z);\n}\n";
static const char sum[] =
    "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n"
    "        tensor<fp32, [1, 4]> w = const()[name = string(\"w\"), val = tensor<fp32, [1, 4]>([[0.5, -0.5, 0.25, "
    "0.1]])];\n        tensor<fp32, [1, 1]> y = linear(weight = w, x = x)[name = string(\"y\")];\n    } -> (y);\n}\n";
/* Has softplus and an infinite mask, so that there is a finding. */
static const char odd[] = "program(1.3)\n{\nfunc main<ios18>(tensor<fp16, [1, 3, 2, 2]> x) {\n"
                          "tensor<fp16, [1, 3, 2, 2]> y = softplus(x = x)[name = string(\"y\")];\n} -> (y);\n}\n";

enum { SAMPLES = 8 };

static struct {
    char *dir, layer_path[1200], sum_path[1200], options_path[1200], object_path[1200], made_path[1200],
        made_package[1200], made_folder[1200], given_steps[1300], run_path[1200];
    propane_module *module, *judge, *half, *odd, *keyed;
    const propane_value *value;
    propane_device *device;
    propane_program *program;
    const propane_io *io;
    propane_buffer *buffer[3];
    propane_event *event;
    propane_event_point point;
    propane_binding bindings[3];
    propane_request *request, *submitted[1];
    propane_session *session, *lender, *painter, *judged, *encoder;
    propane_report *report;
    propane_estimate *estimate;
    propane_object *object;
    propane_options *options, *complete, *device_options;
    propane_trainer *trainer, *done, *saver, *cancelled;
    /* The objects that arguments point to. */
    propane_products products;
    propane_product_times times;
    propane_allocator allocator;
    propane_feature feature;
    propane_shape shape;
    propane_op_info op;
    propane_op_parameter parameter;
    propane_argument argument;
    propane_compile_options compile;
    propane_compile_item items[2];
    propane_compile_report compiled;
    propane_profile_row profile;
    propane_native native;
    propane_completion completion;
    propane_session_options session_options;
    propane_nonfinite nonfinite;
    propane_array batch_in[2], batch_out[1];
    propane_check_options check;
    propane_finding finding;
    propane_verdict verdict;
    propane_look look;
    propane_estimate_options estimate_options;
    propane_estimate_row row;
    propane_estimate_op estimated;
    propane_object_info object_info;
    propane_show_options show;
    propane_page_options page;
    propane_option_info option;
    propane_data data;
    propane_tensor arrays[2], tensor;
    propane_trainer_callbacks callbacks;
    propane_step step;
    propane_evaluation evaluation;
    propane_trainer_info trainer_info;
    propane_trained_tensor trained;
    const char *names[1], *colours[1], *chips[PROPANE_MAX_CHIPS];
    int64_t dim[2];
    float floats[12], scratch[12], sample_x[SAMPLES][4], sample_y[SAMPLES];
    _Alignas(16) unsigned char memory[64];
    uint8_t bytes[12];
    char label[40];
    double real;
    int number, cpu;
    size_t size;
    /* Results of calls, freed after each call. */
    struct {
        propane_module *module;
        propane_builder *builder;
        propane_device *device;
        propane_program *program;
        propane_buffer *buffer;
        propane_event *event;
        propane_request *request;
        propane_session *session;
        propane_report *report;
        propane_estimate *estimate;
        propane_object *object;
        propane_options *options;
        propane_trainer *trainer;
        propane_ranks *ranks;
        void *nothing;
        char *text;
        propane_shape shape;
    } out;
    propane_module *spare_module;
    propane_builder *spare_builder;
    propane_value *spare_value;
} f;

static propane_error err;

static void quiet(void *context, const char *sentence) { (void)context, (void)sentence; }
static bool never(void *context) {
    (void)context;
    return false;
}

/* ---- objects that calls consume
 * ------------------------------------------------------------------------------------------------ */

static propane_module *parse(const char *program) {
    propane_module *m = NULL;
    EXPECT_OK(propane_module_parse(program, strlen(program), "given", NULL, &m, &err));
    return m;
}

static propane_module *given_module(void) { return parse(layer); }
static propane_module *fresh_module(void) { return f.spare_module = parse(layer); }

static propane_builder *given_builder(void) {
    propane_builder *b = NULL;
    EXPECT_OK(propane_builder_create("main", &b, &err));
    return b;
}

/* Returns one builder for all arguments of a call; it already has an output. */
static propane_builder *fresh_builder(void) {
    if (f.spare_builder) return f.spare_builder;
    f.spare_builder = given_builder();
    propane_value *x = propane_build_input(f.spare_builder, "in", PROPANE_FP32, 2, f.dim);
    f.spare_value = propane_build_op(f.spare_builder, "relu", "r", (propane_argument[]){{.name = "x", .value = x}}, 1);
    propane_build_output(f.spare_builder, f.spare_value);
    return f.spare_builder;
}

static propane_value *fresh_result(void) {
    (void)fresh_builder();
    return f.spare_value;
}

static const propane_argument *fresh_argument(void) {
    f.argument = (propane_argument){.name = "x", .value = fresh_result()};
    return &f.argument;
}

static propane_compile_item *fresh_items(void) {
    for (int i = 0; i < 2; i++) f.items[i] = (propane_compile_item){.module = f.module};
    return f.items;
}

static propane_request *const *fresh_request(void) {
    (void)!propane_wait(f.submitted[0], NULL, NULL);
    return f.submitted;
}

static void free_all(void) {
    propane_request_free(f.out.request);
    propane_program_free(f.out.program);
    propane_buffer_free(f.out.buffer);
    propane_event_free(f.out.event);
    propane_session_close(f.out.session);
    propane_trainer_free(f.out.trainer);
    propane_options_free(f.out.options);
    propane_device_close(f.out.device);
    propane_report_free(f.out.report);
    propane_estimate_free(f.out.estimate);
    propane_object_free(f.out.object);
    propane_builder_free(f.out.builder);
    propane_module_free(f.out.module);
    propane_free(f.out.text);
    propane_free((void *)(uintptr_t)f.out.shape.name);
    memset(&f.out, 0, sizeof f.out);
    for (int i = 0; i < 2; i++) propane_program_free(f.items[i].program);
    memset(f.items, 0, sizeof f.items);
    propane_module_free(f.spare_module);
    propane_builder_free(f.spare_builder);
    f.spare_module = NULL;
    f.spare_builder = NULL;
}

/* ---- state that no refused call may change
 * ------------------------------------------------------------------------------------- */

static void look_at_trainer(text *to) {
    propane_trainer_info info = {.size = sizeof info};
    float w[4];
    EXPECT(propane_trainer_describe(f.trainer, &info));
    EXPECT_OK(propane_trainer_get(f.trainer, 0, w, 4, &err));
    text_printf(to, "trainer: step %lld, %a %a\n", (long long)info.step, (double)w[0], (double)w[3]);
}

static void look_at_all(text *to) {
    char *printed = NULL;
    float values[6];
    EXPECT_OK(propane_module_print(f.module, PROPANE_MIL_SHORT, &printed, NULL, &err));
    text_printf(to, "%s", printed);
    propane_free(printed);
    EXPECT_OK(propane_buffer_read(f.buffer[0], f.io, PROPANE_FP32, values, 6, &err));
    for (int i = 0; i < 6; i++) text_printf(to, "%a ", (double)values[i]);
    EXPECT_OK(propane_session_get(f.session, "sum", PROPANE_FP32, values, 4, &err));
    for (int i = 0; i < 4; i++) text_printf(to, "%a ", (double)values[i]);
    EXPECT_OK(propane_options_get(f.options, "lr", &printed, &err));
    text_printf(to, "event %d, lr %s\n", (int)propane_event_value(f.event), printed);
    propane_free(printed);
    look_at_trainer(to);
}

/* ---- the fixture --------------------------------------------------------------------------------------------------------------- */

static void make_paths(void) {
    f.dir = test_temp_dir();
    snprintf(f.layer_path, sizeof f.layer_path, "%s/layer.mil", f.dir);
    snprintf(f.sum_path, sizeof f.sum_path, "%s/sum.mil", f.dir);
    snprintf(f.options_path, sizeof f.options_path, "%s/o.json", f.dir);
    snprintf(f.object_path, sizeof f.object_path, "%s/half.hwx", f.dir);
    snprintf(f.made_path, sizeof f.made_path, "%s/made.mil", f.dir);
    snprintf(f.made_package, sizeof f.made_package, "%s/made.mlpackage", f.dir);
    snprintf(f.made_folder, sizeof f.made_folder, "%s/made", f.dir);
    snprintf(f.run_path, sizeof f.run_path, "%s/run", f.dir);
    EXPECT_OK(file_write(f.layer_path, layer, sizeof layer - 1, &err));
    EXPECT_OK(file_write(f.sum_path, sum, sizeof sum - 1, &err));
    EXPECT_OK(file_write(f.options_path, "{\"lr\": 0.05}", 12, &err));
}

static void make_device(void) {
    const propane_event_point none = {0};
    (void)none;
    EXPECT_OK(propane_device_open("cpu", &f.device, &err));
    for (int i = 0; i < propane_driver_count(); i++)
        if (strcmp(propane_driver_name(i), "cpu") == 0) f.cpu = i;
    EXPECT_OK(propane_program_compile(f.device, f.module, NULL, &f.program, &err));
    EXPECT_OK(propane_program_profile(f.program, true, &err));
    f.io = propane_program_input(f.program, 0);
    for (int i = 0; i < 3; i++) {
        const propane_io *io = i < 2 ? propane_program_input(f.program, i) : propane_program_output(f.program, 0);
        EXPECT_OK(propane_buffer_create(f.device, io->bytes, &f.buffer[i], &err));
        f.bindings[i] = (propane_binding){io->name, f.buffer[i]};
    }
    EXPECT_OK(propane_event_create(f.device, &f.event, &err));
    propane_event_signal(f.event, 1);
    f.point = (propane_event_point){f.event, 1};
    EXPECT_OK(propane_request_create(f.program, f.bindings, 3, &f.request, &err));
    EXPECT_OK(propane_request_create(f.program, f.bindings, 3, &f.submitted[0], &err));
    EXPECT_OK(propane_submit(&f.request, 1, &err));
    EXPECT_OK(propane_wait(f.request, NULL, &err));
}

static propane_session *open_session(const char *program) {
    propane_session *s = NULL;
    EXPECT_OK(propane_session_open_module(parse(program), NULL, &s, &err));
    return s;
}

static void make_sessions(void) {
    char path[1250];
    const npy several = {.kind = 'f', .size = 4, .rank = 2, .dim = {3, 4}, .count = 12, .data = f.floats};
    f.session = open_session(adder);
    f.lender = open_session(layer);
    f.painter = open_session(picture);
    f.judged = open_session(judge);
    EXPECT_OK(propane_session_open("tests/mil/older/mapping.mlmodel", NULL, &f.encoder, &err));
    snprintf(path, sizeof path, "%s/steps.npy", f.dir);
    snprintf(f.given_steps, sizeof f.given_steps, "x=%s", path);
    EXPECT_OK(npy_write(path, &several, &err));
    EXPECT_OK(propane_session_set_file(f.session, f.given_steps, &err));
    EXPECT_OK(propane_session_run(f.session, NULL, &err));
    EXPECT_OK(propane_session_set(f.judged, "x", PROPANE_FP32, f.floats, 3, &err));
    EXPECT_OK(propane_session_run(f.judged, NULL, &err));
    f.batch_in[0] = (propane_array){"x", PROPANE_FP32, f.floats};
    f.batch_in[1] = (propane_array){"y", PROPANE_FP32, f.floats};
    f.batch_out[0] = (propane_array){"r", PROPANE_FP32, f.scratch};
}

static propane_options *make_options(const char *steps) {
    static const char how[] = "{\"loss\": \"mse\", \"trainable\": \"*\", \"lr\": 0.05, \"batch\": 4}";
    propane_options *o = NULL;
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_PROGRAM, &o, &err));
    EXPECT_OK(propane_options_parse(o, how, sizeof how - 1, "o.json", &err));
    EXPECT_OK(propane_options_set(o, "model", f.sum_path, &err));
    EXPECT_OK(propane_options_set(o, "steps", steps, &err));
    return o;
}

static void make_trainers(void) {
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 4; k++) f.sample_y[i] += f.sample_x[i][k] = (float)((i * 7 + k * 3) % 11 - 5) / 5;
    f.arrays[0] = (propane_tensor){"x", PROPANE_FP32, 2, {SAMPLES, 4}, f.sample_x};
    f.arrays[1] = (propane_tensor){"y", PROPANE_FP32, 2, {SAMPLES, 1}, f.sample_y};
    f.data = (propane_data){
        .size = sizeof f.data, .arrays = f.arrays, .array_count = 2, .validation = f.arrays, .validation_count = 2};
    f.tensor = (propane_tensor){"w", PROPANE_FP32, 2, {1, 4}, f.floats};
    f.options = make_options("1000");
    f.device_options = make_options("1");
    f.complete = make_options("1");
    EXPECT_OK(propane_options_set(f.complete, "data", f.layer_path, &err));
    EXPECT_OK(propane_options_set(f.options, "profile", "true", &err));
    EXPECT_OK(propane_trainer_create(f.options, &f.data, &f.trainer, &err));
    EXPECT_OK(propane_trainer_create(f.options, &f.data, &f.cancelled, &err));
    EXPECT_OK(propane_trainer_create(f.complete, &f.data, &f.done, &err));
    EXPECT_OK(propane_trainer_run(f.done, NULL, &err));
    propane_options *saved = make_options("1");
    EXPECT_OK(propane_options_set(saved, "run", f.run_path, &err));
    EXPECT_OK(propane_trainer_create(saved, &f.data, &f.saver, &err));
    propane_options_free(saved);
}

static void make_all(void) {
    const int64_t dim[2] = {2, 3};
    memcpy(f.dim, dim, sizeof dim);
    for (int i = 0; i < 12; i++) f.floats[i] = (float)i / 8;
    f.names[0] = "x";
    f.colours[0] = "red";
    make_paths();
    f.module = parse(layer);
    f.judge = parse(judge);
    EXPECT_OK(propane_module_read("tests/mil/older/mapping.mlmodel", &f.keyed, &err));
    f.half = parse(half);
    f.odd = parse(odd);
    f.value = propane_module_next_value(f.module, NULL, NULL);
    make_device();
    make_sessions();
    EXPECT_OK(propane_check_module(f.odd, NULL, &f.report, &err));
    EXPECT_OK(propane_estimate_module(f.module, NULL, &f.estimate, &err));
    EXPECT_OK(propane_object_compile(f.half, NULL, "m1", NULL, &f.object, &err));
    EXPECT_OK(propane_object_write(f.object, f.object_path, &err));
    make_trainers();
    memset(&f.out, 0, sizeof f.out);
}

static void free_fixture(void) {
    propane_trainer_free(f.trainer);
    propane_trainer_free(f.done);
    propane_trainer_free(f.saver);
    propane_trainer_free(f.cancelled);
    propane_options_free(f.options);
    propane_options_free(f.complete);
    propane_options_free(f.device_options);
    propane_object_free(f.object);
    propane_estimate_free(f.estimate);
    propane_report_free(f.report);
    propane_session_close(f.session);
    propane_session_close(f.lender);
    propane_session_close(f.painter);
    propane_session_close(f.judged);
    propane_session_close(f.encoder);
    propane_request_free(f.request);
    propane_request_free(f.submitted[0]);
    propane_event_free(f.event);
    for (int i = 0; i < 3; i++) propane_buffer_free(f.buffer[i]);
    propane_program_free(f.program);
    propane_device_close(f.device);
    propane_module_free(f.module);
    propane_module_free(f.judge);
    propane_module_free(f.keyed);
    propane_module_free(f.half);
    propane_module_free(f.odd);
    propane_free(f.dir);
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------ */

#include "api/call_rows.h"
#include "api/calls/check.def"
#include "api/calls/device.def"
#include "api/calls/module.def"
#include "api/calls/session.def"
#include "api/calls/show.def"
#include "api/calls/status.def"
#include "api/calls/train.def"

static const call_row rows[] = {
#define CALL_LIST
#include "api/call_rows.h"
#include "api/calls/check.def"
#include "api/calls/device.def"
#include "api/calls/module.def"
#include "api/calls/session.def"
#include "api/calls/show.def"
#include "api/calls/status.def"
#include "api/calls/train.def"
};

TEST(each_argument_wrong_in_turn) {
    static const char *const headers[] = {"status", "module", "device", "session", "check", "show", "train", NULL};
    const call_table table = {rows, (int)(sizeof rows / sizeof rows[0]), headers, free_all, look_at_all};
    make_all();
    calls_check(&table);
    free_fixture();
}

SUITE("api/calls", T(each_argument_wrong_in_turn))
