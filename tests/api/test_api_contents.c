/* SPDX-License-Identifier: MIT
 * Tests wrong contents of lists and structures, objects that do not belong together, and a trainer in two threads.
 * Each is refused with a sentence, and nothing changes. The arguments themselves are tested in test_api_calls.c.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "core/base/file.h"
#include "propane.h"
#include "support/test.h"

static const char layer[] = "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> y) {\n"
                            "        tensor<fp32, [2, 3]> s = add(x = x, y = y)[name = string(\"s\")];\n"
                            "        tensor<fp32, [2, 3]> r = relu(x = s)[name = string(\"r\")];\n    } -> (r);\n}\n";
static const char sum_mil[] =
    "program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n"
    "        tensor<fp32, [1, 4]> w = const()[name = string(\"w\"), val = tensor<fp32, [1, 4]>([[0.5, -0.5, 0.25, "
    "0.1]])];\n        tensor<fp32, [1, 1]> y = linear(weight = w, x = x)[name = string(\"y\")];\n    } -> (y);\n}\n";
static float floats[32];
static propane_error err;

static propane_module *parse(const char *program) {
    propane_module *m = NULL;
    EXPECT_OK(propane_module_parse(program, strlen(program), "given", NULL, &m, &err));
    return m;
}

/* ---- lists and structures ------------------------------------------------------------------------------------------------------ */

static void refuse_session(propane_session_options o, const char *part) {
    propane_session *s = NULL;
    o.size = sizeof o;
    EXPECT_FAIL(propane_session_open_module(parse(layer), &o, &s, &err), PROPANE_ERR_INVALID, part);
    EXPECT(!s);
}

TEST(options_of_sessions) {
    const char *const names[] = {"s", NULL};
    const propane_shape unnamed = {.rank = 1, .dim = {2}}, deep = {.name = "x", .rank = 9};
    propane_module *m = NULL;
    refuse_session((propane_session_options){.file_count = 1}, "files must not be NULL if file_count is 1");
    refuse_session((propane_session_options){.files = names + 1, .file_count = 1}, "files[0] must not be NULL");
    refuse_session((propane_session_options){.keep = true, .keep_names = names, .keep_count = 2},
                   "keep_names[1] must not be NULL");
    refuse_session((propane_session_options){.keep = true, .keep_count = -1}, "keep_count is -1");
    refuse_session((propane_session_options){.shape_count = 3}, "shapes must not be NULL if shape_count is 3");
    refuse_session((propane_session_options){.precision = "int4"}, "'int4'");
    refuse_session((propane_session_options){.threads = -1}, "threads is -1");
    EXPECT_FAIL(propane_module_read_shaped("Makefile", &unnamed, 1, &m, &err), PROPANE_ERR_INVALID, "no name");
    EXPECT_FAIL(propane_module_read_shaped("Makefile", &deep, 1, &m, &err), PROPANE_ERR_INVALID, "no legal rank");
}

TEST(arrays_of_a_batch) {
    propane_session *s = NULL;
    propane_array in[2] = {{"x", PROPANE_FP32, floats}, {"y", PROPANE_FP32, NULL}}, out = {"r", PROPANE_FP32, floats};
    EXPECT_OK(propane_session_open_module(parse(layer), NULL, &s, &err));
    EXPECT_FAIL(propane_session_run_batch(s, in, 2, &out, 1, 1, &err), PROPANE_ERR_INVALID, "inputs[1] has no values");
    in[1].values = floats, in[1].name = NULL;
    EXPECT_FAIL(propane_session_run_batch(s, in, 2, &out, 1, 1, &err), PROPANE_ERR_INVALID, "inputs[1] has no name");
    in[1].name = "y", in[1].dtype = (propane_dtype)99;
    EXPECT_FAIL(propane_session_run_batch(s, in, 2, &out, 1, 1, &err), PROPANE_ERR_INVALID, "dtype is 99");
    in[1].dtype = PROPANE_FP32, out.name = "z";
    EXPECT_FAIL(propane_session_run_batch(s, in, 2, &out, 1, 1, &err), PROPANE_ERR_NOT_FOUND, "'z'");
    out.name = "r";
    EXPECT_OK(propane_session_run_batch(s, in, 2, &out, 1, 1, &err));
    propane_session_close(s);
}

TEST(options_of_programs) {
    propane_module *m = parse(layer), *g = NULL;
    propane_device *d = NULL;
    propane_program *p = NULL;
    propane_compile_options o = {.size = sizeof o, .precision = (propane_precision)99};
    propane_compile_item items[2] = {{.module = m}, {.module = NULL}};
    propane_page_options page = {.size = sizeof page, .value_count = 2};
    propane_page_value no_name = {.size = sizeof no_name}, no_size = {.name = "s"};
    const char *const wrt[] = {"x", NULL};
    char *html = NULL;
    EXPECT_OK(propane_device_open("cpu", &d, &err));
    EXPECT_FAIL(propane_program_compile(d, m, &o, &p, &err), PROPANE_ERR_INVALID, "precision is 99");
    o.precision = PROPANE_PRECISION_AS_TYPED, o.threads = -1;
    EXPECT_FAIL(propane_program_compile(d, m, &o, &p, &err), PROPANE_ERR_INVALID, "threads is -1");
    EXPECT_FAIL(propane_program_compile_all(d, items, 2, NULL, NULL, &err), PROPANE_ERR_INVALID,
                "items[1] has no module");
    EXPECT(!p && !items[0].program && !items[1].program);
    EXPECT_FAIL(propane_module_gradient(m, NULL, NULL, wrt, 2, &g, &err), PROPANE_ERR_INVALID, "wrt[1] is NULL");
    EXPECT_FAIL(propane_module_page(m, &page, &html, NULL, &err), PROPANE_ERR_INVALID, "values must not be NULL");
    page.colour = "rainbow";
    EXPECT_FAIL(propane_module_page(m, &page, &html, NULL, &err), PROPANE_ERR_INVALID, "values must not be NULL");
    page.values = &no_name;
    EXPECT_FAIL(propane_module_page(m, &page, &html, NULL, &err), PROPANE_ERR_INVALID, "'rainbow'");
    page.colour = NULL, page.values = &no_size, page.value_count = 1;
    EXPECT_FAIL(propane_module_page(m, &page, &html, NULL, &err), PROPANE_ERR_INVALID, "size");
    page.values = &no_name;
    EXPECT_FAIL(propane_module_page(m, &page, &html, NULL, &err), PROPANE_ERR_INVALID, "values[0] has no name");
    EXPECT(!g && !html);
    propane_device_close(d);
    propane_module_free(m);
}

/* The builder keeps the first error; later calls do nothing. */
static void refuse_build(const char *part, void (*step)(propane_builder *b)) {
    propane_builder *b = NULL;
    propane_module *m = NULL;
    EXPECT_OK(propane_builder_create(NULL, &b, &err));
    step(b);
    propane_build_output(b, propane_build_input(b, "later", PROPANE_FP32, 0, NULL));
    EXPECT_FAIL(propane_builder_finish(b, &m, &err), PROPANE_ERR_INVALID, part);
    EXPECT(!m);
    propane_builder_free(b);
}

static void build_nothing(propane_builder *b) { propane_build_output(b, NULL); }
static void build_unnamed(propane_builder *b) { (void)propane_build_input(b, NULL, PROPANE_FP32, 0, NULL); }
static void build_dim(propane_builder *b) { (void)propane_build_input(b, "x", PROPANE_FP32, 1, NULL); }
static void build_data(propane_builder *b) { (void)propane_build_constant(b, "c", PROPANE_FP32, 0, NULL, NULL); }
static void build_op(propane_builder *b) { (void)propane_build_op(b, NULL, NULL, NULL, 0); }
static void build_list(propane_builder *b) { (void)propane_build_op(b, "relu", NULL, NULL, 1); }
static void build_count(propane_builder *b) { (void)propane_build_op(b, "relu", NULL, NULL, -1); }
static void build_argument(propane_builder *b) {
    (void)propane_build_op(b, "relu", NULL, &(propane_argument){.value = NULL}, 1);
}
static void build_values(propane_builder *b) {
    (void)propane_build_op(b, "concat", NULL, &(propane_argument){.name = "values", .count = 2}, 1);
}
static void build_foreign(propane_builder *b) {
    propane_builder *other = NULL;
    EXPECT_OK(propane_builder_create(NULL, &other, &err));
    propane_value *x = propane_build_input(other, "x", PROPANE_FP32, 0, NULL);
    (void)propane_build_op(b, "relu", NULL, &(propane_argument){.name = "x", .value = x}, 1);
    propane_builder_free(other);
}

TEST(steps_of_builders) {
    refuse_build("value must not be NULL", build_nothing);
    refuse_build("name must not be NULL", build_unnamed);
    refuse_build("'x' has an invalid type", build_dim);
    refuse_build("data must not be NULL", build_data);
    refuse_build("op must not be NULL", build_op);
    refuse_build("arguments must not be NULL if count is 1", build_list);
    refuse_build("count is -1", build_count);
    refuse_build("arguments[0] has no name", build_argument);
    refuse_build("arguments[0] has no values", build_values);
    refuse_build("another function", build_foreign);
}

/* Inputs and states are counted separately, in any order; opened states are inputs. */
static void expect_features(const propane_module *m, propane_role role, const char *names) {
    const int count = (int)strlen(names);
    propane_feature f = {.size = sizeof f};
    EXPECT(propane_module_feature_count(m, NULL, role) == count);
    for (int i = 0; i < count; i++) {
        EXPECT_OK(propane_module_feature(m, NULL, role, i, &f, &err));
        EXPECT_MSG(f.name[0] == names[i] && !f.name[1], "%d is '%s', not '%c'", i, f.name, names[i]);
    }
    EXPECT_FAIL(propane_module_feature(m, NULL, role, count, &f, &err), PROPANE_ERR_NOT_FOUND, "is out of range");
    EXPECT_FAIL(propane_module_feature(m, NULL, role, -1, &f, &err), PROPANE_ERR_NOT_FOUND, "is out of range");
}

TEST(inputs_among_states) {
    static const char kinds[] = "sxxsssxsxx"; /* s is a state */
    char program[4000], states[11] = "", inputs[11] = "", all[11] = "";
    int used = snprintf(program, sizeof program, "program(1.3)\n{\nfunc main<ios18>(");
    for (int i = 0; kinds[i]; i++) {
        const bool state = kinds[i] == 's';
        const char name[2] = {(char)('a' + i), 0};
        used += snprintf(program + used, sizeof program - (size_t)used, "%s%stensor<fp16, [4]>%s %s", i ? ", " : "",
                         state ? "state<" : "", state ? ">" : "", name);
        strcat(state ? states : inputs, name);
        strcat(all, name);
    }
    snprintf(program + used, sizeof program - (size_t)used,
             ") {\ntensor<fp16, [4]> y = relu(x = b)[name = string(\"y\")];\n} -> (y);\n}\n");
    propane_module *m = parse(program), *copy = NULL;
    EXPECT_OK(propane_module_copy(m, &copy, &err));
    expect_features(copy, PROPANE_INPUT, inputs);
    expect_features(copy, PROPANE_STATE, states);
    expect_features(copy, PROPANE_OUTPUT, "y");
    EXPECT_OK(propane_module_open_states(copy, NULL, &err));
    expect_features(copy, PROPANE_INPUT, all);
    expect_features(copy, PROPANE_STATE, "");
    expect_features(m, PROPANE_STATE, states);
    propane_module_free(copy);
    propane_module_free(m);
}

/* ---- foreign objects
 * --------------------------------------------------------------------------------------------------------- */

typedef struct rig {
    propane_device *device;
    propane_module *module;
    propane_program *program;
    propane_buffer *buffer[3];
    propane_request *request;
} rig;

static void rig_open(rig *r, const char *uri) {
    propane_binding bindings[3];
    EXPECT_OK(propane_device_open(uri, &r->device, &err));
    r->module = parse(layer);
    EXPECT_OK(propane_program_compile(r->device, r->module, NULL, &r->program, &err));
    for (int i = 0; i < 3; i++) {
        const propane_io *io = i < 2 ? propane_program_input(r->program, i) : propane_program_output(r->program, 0);
        EXPECT_OK(propane_buffer_create(r->device, io->bytes, &r->buffer[i], &err));
        bindings[i] = (propane_binding){io->name, r->buffer[i]};
    }
    EXPECT_OK(propane_request_create(r->program, bindings, 3, &r->request, &err));
}

static void rig_close(rig *r) {
    propane_request_free(r->request);
    for (int i = 0; i < 3; i++) propane_buffer_free(r->buffer[i]);
    propane_program_free(r->program);
    propane_module_free(r->module);
    propane_device_close(r->device);
}

TEST(requests_of_two_devices) {
    rig a, b;
    rig_open(&a, "cpu");
    rig_open(&b, "cpu");
    propane_request *const both[] = {a.request, b.request}, *const twice[] = {a.request, a.request};
    propane_request *const none[] = {a.request, NULL};
    propane_request *extra = NULL;
    propane_program *again = NULL;
    const propane_binding missing[3] = {{"x", a.buffer[0]}, {"y", NULL}, {"r", a.buffer[2]}};
    const propane_binding unnamed[3] = {{"x", a.buffer[0]}, {NULL, a.buffer[1]}, {"r", a.buffer[2]}};
    const propane_event_point point = {0};
    const propane_compile_options donated = {.size = sizeof donated, .donor = b.program};
    EXPECT_FAIL(propane_submit(both, 2, &err), PROPANE_ERR_INVALID, "another device");
    EXPECT_FAIL(propane_submit(twice, 2, &err), PROPANE_ERR_INVALID, "in flight");
    EXPECT_FAIL(propane_submit(none, 2, &err), PROPANE_ERR_INVALID, "requests[1] is NULL");
    EXPECT_FAIL(propane_wait(a.request, NULL, &err), PROPANE_ERR_INVALID, "never submitted");
    EXPECT_FAIL(propane_request_create(a.program, missing, 3, &extra, &err), PROPANE_ERR_INVALID,
                "its buffer is missing");
    EXPECT_FAIL(propane_request_create(a.program, unnamed, 3, &extra, &err), PROPANE_ERR_INVALID, "name is missing");
    EXPECT_FAIL(propane_request_events(a.request, &point, 1, NULL, 0, &err), PROPANE_ERR_INVALID, "no event");
    EXPECT_FAIL(propane_program_compile(a.device, a.module, &donated, &again, &err), PROPANE_ERR_UNSUPPORTED,
                "cannot use a compiled program");
    EXPECT(!extra && !again);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    EXPECT_OK(propane_wait(a.request, NULL, &err));
    rig_close(&a);
    rig_close(&b);
}

TEST(values_and_layouts_of_others) {
    rig a;
    rig_open(&a, "cpu");
    propane_module *other = parse(layer);
    propane_io io = *propane_program_input(a.program, 0);
    const propane_value *v = propane_module_next_value(other, NULL, NULL);
    EXPECT(v && propane_module_next_value(other, NULL, v) && !propane_module_next_value(a.module, NULL, v));
    io.name = NULL, io.dim[0] = 3;
    EXPECT_FAIL(propane_buffer_write(a.buffer[0], &io, PROPANE_FP32, floats, 9, &err), PROPANE_ERR_INVALID,
                "the buffer");
    EXPECT_FAIL(propane_buffer_read(a.buffer[0], &io, PROPANE_FP32, floats, 8, &err), PROPANE_ERR_INVALID, "8");
    io.dim[0] = -3;
    EXPECT_FAIL(propane_buffer_read(a.buffer[0], &io, PROPANE_FP32, floats, 9, &err), PROPANE_ERR_INVALID, "-3");
    io.dim[0] = 2, io.rank = 99;
    EXPECT_FAIL(propane_buffer_read(a.buffer[0], &io, PROPANE_FP32, floats, 6, &err), PROPANE_ERR_INVALID, "99");
    propane_module_free(other);
    rig_close(&a);
}

/* ---- trainers ------------------------------------------------------------------------------------------------------------------ */

enum { SAMPLES = 8 };

static propane_options *sum_options(const char *dir) {
    static const char how[] = "{\"loss\": \"mse\", \"trainable\": \"*\", \"lr\": 0.05, \"batch\": 4, \"steps\": 2}";
    char path[1200];
    propane_options *o = NULL;
    snprintf(path, sizeof path, "%s/sum.mil", dir);
    EXPECT_OK(file_write(path, sum_mil, sizeof sum_mil - 1, &err));
    EXPECT_OK(propane_options_create(PROPANE_TRAIN_PROGRAM, &o, &err));
    EXPECT_OK(propane_options_parse(o, how, sizeof how - 1, NULL, &err));
    EXPECT_OK(propane_options_set(o, "model", path, &err));
    return o;
}

static void refuse_data(const propane_options *o, propane_data data, const char *part) {
    propane_trainer *t = NULL;
    data.size = sizeof data;
    EXPECT_FAIL(propane_trainer_create(o, &data, &t, &err), PROPANE_ERR_INVALID, part);
    EXPECT(!t);
}

TEST(data_of_trainers) {
    char *dir = test_temp_dir();
    propane_options *o = sum_options(dir);
    propane_tensor arrays[] = {{"x", PROPANE_FP32, 2, {SAMPLES, 4}, floats},
                               {"y", PROPANE_FP32, 2, {SAMPLES, 1}, floats}};
    refuse_data(o, (propane_data){.array_count = 2}, "arrays must not be NULL if array_count is 2");
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = -1}, "array_count is -1");
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = 2, .validation_count = 1}, "validation must not");
    refuse_data(o, (propane_data){.id_count = 4}, "ids must not be NULL if id_count is 4");
    arrays[1].name = NULL;
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = 2}, "an array of samples must have a name");
    arrays[1].name = "y", arrays[1].rank = 9;
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = 2}, "1 to 8 dimensions");
    arrays[1].rank = 2, arrays[1].values = NULL;
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = 2}, "values");
    arrays[1].values = floats, arrays[1].dim[1] = INT64_MAX;
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = 2}, "y");
    arrays[1].dim[1] = -1;
    refuse_data(o, (propane_data){.arrays = arrays, .array_count = 2}, "y");
    propane_options_free(o);
    propane_free(dir);
}

static struct {
    propane_trainer *trainer;
    atomic_bool in_step, tried;
} pair;

static void wait_for(atomic_bool *flag) {
    while (!atomic_load(flag)) usleep(1000);
}

/* Keeps the first step from ending before the other thread has tried everything. */
static void hold_step(void *context, const propane_step *step) {
    (void)context;
    if (step->step != 1) return;
    atomic_store(&pair.in_step, true);
    wait_for(&pair.tried);
}

static void *run_trainer(void *context) {
    const propane_trainer_callbacks callbacks = {.size = sizeof callbacks, .on_step = hold_step};
    propane_error mine = {0};
    *(propane_status *)context = propane_trainer_run(pair.trainer, &callbacks, &mine);
    return NULL;
}

static void try_everything(propane_trainer *t, const char *path) {
    static const char part[] = "in use by another call";
    const propane_tensor w = {"w", PROPANE_FP32, 2, {1, 4}, floats};
    propane_step step = {.size = sizeof step};
    EXPECT_FAIL(propane_trainer_run(t, NULL, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_trainer_advance(t, 1, NULL, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_trainer_step(t, &step, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_trainer_evaluate(t, NULL, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_trainer_save(t, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_trainer_write(t, path, &err), PROPANE_ERR_INVALID, part);
    EXPECT_FAIL(propane_trainer_set(t, &w, 1, &err), PROPANE_ERR_INVALID, part);
}

TEST(a_trainer_in_two_threads) {
    char *dir = test_temp_dir(), path[1200];
    propane_options *o = sum_options(dir);
    const propane_tensor arrays[] = {{"x", PROPANE_FP32, 2, {SAMPLES, 4}, floats},
                                     {"y", PROPANE_FP32, 2, {SAMPLES, 1}, floats}};
    const propane_data data = {.size = sizeof data, .arrays = arrays, .array_count = 2};
    propane_trainer_info info = {.size = sizeof info};
    propane_status status = PROPANE_ERR_IO;
    pthread_t thread;
    snprintf(path, sizeof path, "%s/w.mlpackage", dir);
    EXPECT_OK(propane_trainer_create(o, &data, &pair.trainer, &err));
    EXPECT(!pthread_create(&thread, NULL, run_trainer, &status));
    wait_for(&pair.in_step);
    try_everything(pair.trainer, path);
    atomic_store(&pair.tried, true);
    EXPECT(!pthread_join(thread, NULL) && status == PROPANE_OK);
    EXPECT(propane_trainer_describe(pair.trainer, &info) && info.step == 2 && !file_exists(path));
    propane_trainer_free(pair.trainer);
    propane_options_free(o);
    propane_free(dir);
}

SUITE("api/contents", T(options_of_sessions), T(arrays_of_a_batch), T(options_of_programs), T(steps_of_builders),
      T(inputs_among_states), T(requests_of_two_devices), T(values_and_layouts_of_others), T(data_of_trainers),
      T(a_trainer_in_two_threads))
