/* SPDX-License-Identifier: MIT
 * Requirements for every driver. If a test needs requests in flight, events hold them back, so no test depends on a
 * device's speed. tests/device/test_queue.c tests how the queue handles failures, because no driver fails on request.
 */
#include "drivers/conformance.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/float16.h"
#include "core/base/memory.h"

static const conformance_driver *here;
static propane_error err;

static const char *excuse_for(const char *test) {
    for (int i = 0; i < here->excuse_count; i++)
        if (strcmp(here->excuses[i].test, test) == 0) return here->excuses[i].reason;
    return NULL;
}

#define CONFORM(name)                                                                                                  \
    static void body_##name(void);                                                                                     \
    static void test_##name(void) {                                                                                    \
        const char *reason = excuse_for(#name);                                                                        \
        if (reason) SKIP("%s", reason);                                                                                \
        body_##name();                                                                                                 \
    }                                                                                                                  \
    static void body_##name(void)

/* ---- programs and helpers ----------------------------------------------------------------------------------------------- */

static const char add_program[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [2, 3]> x, tensor<fp32, [2, 3]> y) {\n"
                     "        tensor<fp32, [2, 3]> total = add(x = x, y = y)[name = string(\"total\")];\n"
                     "    } -> (total);\n}\n";

static const char scale_program[] = CONFORMANCE_HEAD /* z = total + total; its input is add_program's output */
    "    func main<ios18>(tensor<fp32, [2, 3]> total) {\n"
    "        tensor<fp32, [2, 3]> z = add(x = total, y = total)[name = string(\"z\")];\n"
    "    } -> (z);\n}\n";

static const char product_program[] = /* with the names of add_program */
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [3, 2]> x, tensor<fp32, [2, 3]> y) {\n"
                     "        tensor<fp32, [3, 3]> total = matmul(x = x, y = y)[name = string(\"total\")];\n"
                     "    } -> (total);\n}\n";

static const char matmul_program[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [3, 4]> a, tensor<fp32, [4, 2]> b) {\n"
                     "        tensor<fp32, [3, 2]> c = matmul(x = a, y = b)[name = string(\"c\")];\n"
                     "    } -> (c);\n}\n";

static const char half_program[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [5]> x, tensor<fp16, [5]> y) {\n"
                     "        tensor<fp16, [5]> product = mul(x = x, y = y)[name = string(\"product\")];\n"
                     "    } -> (product);\n}\n";

static const char two_functions[] =
    CONFORMANCE_HEAD "    func first<ios18>(tensor<fp32, [2, 3]> x) {\n"
                     "        tensor<fp32, [2, 3]> once = identity(x = x)[name = string(\"once\")];\n"
                     "    } -> (once);\n"
                     "    func second<ios18>(tensor<fp32, [2, 3]> x) {\n"
                     "        tensor<fp32, [2, 3]> twice = add(x = x, y = x)[name = string(\"twice\")];\n"
                     "    } -> (twice);\n}\n";

static const char returns_parameter[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [2, 3]> x) {\n"
                     "        tensor<fp32, [2, 3]> y = add(x = x, y = x)[name = string(\"y\")];\n"
                     "    } -> (y, x);\n}\n";

static const char wide_integers[] =
    CONFORMANCE_HEAD "    func main<ios18>(tensor<int64, [2]> numbers) {\n"
                     "        tensor<int64, [2]> same = identity(x = numbers)[name = string(\"same\")];\n"
                     "    } -> (same);\n}\n";

static propane_module *parse(const char *text) {
    propane_module *module = NULL;
    EXPECT_OK(propane_module_parse(text, strlen(text), "conformance.mil", NULL, &module, &err));
    return module;
}

static propane_device *open_uri(const char *uri) {
    propane_device *d = NULL;
    EXPECT_OK(propane_device_open(uri, &d, &err));
    return d;
}

propane_device *conformance_open(void) { return open_uri(here->uri); }

propane_program *conformance_compile(propane_device *device, const char *text) {
    propane_module *module = parse(text);
    propane_program *p = NULL;
    EXPECT_OK(propane_program_compile(device, module, NULL, &p, &err));
    propane_module_free(module);
    return p;
}

static propane_buffer *buffer_for(propane_device *d, const propane_io *io) {
    propane_buffer *b = NULL;
    EXPECT(io != NULL);
    EXPECT_OK(propane_buffer_create(d, io->bytes, &b, &err));
    return b;
}

static propane_event *event_create(propane_device *d) {
    propane_event *event = NULL;
    EXPECT_OK(propane_event_create(d, &event, &err));
    return event;
}

/* The add program with its buffers: x = first, first+1, ...; y = 10, 20, ... */
typedef struct adder {
    propane_device *device;
    propane_program *program;
    propane_buffer *x, *y, *total;
    propane_request *request;
} adder;

static void fill(propane_buffer *b, const propane_io *io, float first, float step) {
    float values[6];
    for (int i = 0; i < 6; i++) values[i] = first + step * (float)i;
    EXPECT_OK(propane_buffer_write(b, io, PROPANE_FP32, values, 6, &err));
}

static adder adder_on(propane_device *d, propane_program *p, float first) {
    adder a = {.device = d, .program = p};
    a.x = buffer_for(d, propane_program_find(p, "x"));
    a.y = buffer_for(d, propane_program_find(p, "y"));
    a.total = buffer_for(d, propane_program_find(p, "total"));
    fill(a.x, propane_program_find(p, "x"), first, 1);
    fill(a.y, propane_program_find(p, "y"), 10, 10);
    propane_binding bindings[] = {{"total", a.total}, {"y", a.y}, {"x", a.x}};
    EXPECT_OK(propane_request_create(p, bindings, 3, &a.request, &err));
    return a;
}

static adder adder_create(void) {
    propane_device *d = conformance_open();
    return adder_on(d, conformance_compile(d, add_program), 0);
}

static void adder_free_parts(adder *a) {
    propane_request_free(a->request);
    propane_buffer_free(a->x);
    propane_buffer_free(a->y);
    propane_buffer_free(a->total);
}

static void adder_free(adder *a) {
    adder_free_parts(a);
    propane_program_free(a->program);
    propane_device_close(a->device);
}

static bool computes(void) { return !excuse_for("values_of_small_programs"); }

/* Expects total[i] = first + i + 10 + 10 i, if the device computes. */
static void expect_sum(const adder *a, float first) {
    if (!computes()) return;
    float values[6];
    EXPECT_OK(propane_buffer_read(a->total, propane_program_find(a->program, "total"), PROPANE_FP32, values, 6, &err));
    for (int i = 0; i < 6; i++)
        EXPECT_MSG(values[i] == first + 10 + 11 * (float)i, "total[%d] is %g, not %g", i, (double)values[i],
                   (double)(first + 10 + 11 * (float)i));
}

static void hold(adder *a, propane_event *gate, uint64_t value) {
    propane_event_point wait = {gate, value};
    EXPECT_OK(propane_request_events(a->request, &wait, 1, NULL, 0, &err));
}

void conformance_run_on(const char *uri, const char *text, const float *const *inputs, float *output, int output_count,
                        propane_completion *done) {
    propane_device *d = open_uri(uri);
    propane_program *p = conformance_compile(d, text);
    int in = propane_program_input_count(p), out = propane_program_output_count(p);
    propane_binding bindings[16];
    EXPECT(in + out <= 16);
    for (int i = 0; i < in + out; i++) {
        const propane_io *io = i < in ? propane_program_input(p, i) : propane_program_output(p, i - in);
        bindings[i] = (propane_binding){io->name, buffer_for(d, io)};
        if (i < in)
            EXPECT_OK(
                propane_buffer_write(bindings[i].buffer, io, PROPANE_FP32, inputs[i], propane_io_count(io), &err));
    }
    propane_request *request = NULL;
    EXPECT_OK(propane_request_create(p, bindings, in + out, &request, &err));
    EXPECT_OK(propane_submit(&request, 1, &err));
    EXPECT_OK(propane_wait(request, done, &err));
    EXPECT_OK(propane_buffer_read(bindings[in].buffer, propane_program_output(p, 0), PROPANE_FP32, output, output_count,
                                  &err));
    propane_request_free(request);
    for (int i = 0; i < in + out; i++) propane_buffer_free(bindings[i].buffer);
    propane_program_free(p);
    propane_device_close(d);
}

void conformance_run(const char *text, const float *const *inputs, float *output, int output_count) {
    conformance_run_on(here->uri, text, inputs, output, output_count, NULL);
}

/* ---- devices and programs -------------------------------------------------------------------------------------------- */

CONFORM(opens_describes_and_closes) {
    for (int i = 0; i < 3; i++) {
        propane_device *d = conformance_open(), *second = conformance_open();
        const propane_device_info *info = propane_device_describe(d);
        EXPECT_TEXT(info->uri, here->uri);
        EXPECT(info->summary && *info->summary);
        const propane_device_info *other = propane_device_describe(second);
        EXPECT_TEXT(other->uri, info->uri);
        EXPECT(info->queue_depth >= 1 && other->queue_depth == info->queue_depth);
        EXPECT(other->compile_limit == info->compile_limit && other->simulated == info->simulated);
        propane_device_close(second);
        propane_device_close(d);
    }
    int listed = 0;
    for (int i = 0; i < propane_driver_count(); i++) {
        EXPECT(*propane_driver_name(i) && *propane_driver_summary(i));
        listed += strncmp(propane_driver_name(i), here->uri, strcspn(here->uri, ":")) == 0;
    }
    EXPECT(listed == 1);
}

CONFORM(unknown_devices_are_refused_by_name) {
    propane_device *d = NULL;
    EXPECT_FAIL(propane_device_open("abacus", &d, &err), PROPANE_ERR_NOT_FOUND,
                "unknown device 'abacus'; the devices are ");
    EXPECT(strstr(err.text, "null") != NULL);
    char uri[100];
    snprintf(uri, sizeof uri, "%s:no-such-thing", here->uri);
    EXPECT_FAIL(propane_device_open(uri, &d, &err), err.status, "no-such-thing");
    EXPECT(d == NULL);
}

CONFORM(programs_describe_their_inputs_and_outputs) {
    propane_device *d = conformance_open();
    propane_program *p = conformance_compile(d, add_program); /* its module has already been freed */
    EXPECT(propane_program_input_count(p) == 2 && propane_program_output_count(p) == 1);
    EXPECT_TEXT(propane_program_input(p, 0)->name, "x");
    EXPECT_TEXT(propane_program_input(p, 1)->name, "y");
    EXPECT(propane_program_input(p, 2) == NULL && propane_program_output(p, -1) == NULL);
    EXPECT(propane_program_find(p, "total") == propane_program_output(p, 0));
    EXPECT(propane_program_find(p, "z") == NULL);
    const propane_io *io = propane_program_find(p, "x");
    EXPECT(io->dtype == PROPANE_FP32 && io->rank == 2 && io->dim[0] == 2 && io->dim[1] == 3);
    EXPECT(io->stride[1] >= 4 && io->stride[0] >= 3 * io->stride[1]);
    EXPECT(io->bytes >= (size_t)(io->stride[0] + 2 * io->stride[1] + 4));
    propane_program_free(p);
    propane_program_free(NULL);
    propane_device_close(d);
}

CONFORM(functions_are_chosen_by_name) {
    propane_device *d = conformance_open();
    propane_module *module = parse(two_functions);
    propane_program *p = NULL;
    propane_compile_options options = {.size = sizeof options, .function = "second"};
    EXPECT_OK(propane_program_compile(d, module, &options, &p, &err));
    EXPECT_TEXT(propane_program_output(p, 0)->name, "twice");
    propane_program_free(p);
    options.function = "third";
    EXPECT_FAIL(propane_program_compile(d, module, &options, &p, &err), err.status, "third");
    EXPECT(err.status != PROPANE_OK && p == NULL);
    EXPECT_FAIL(propane_program_compile(d, module, NULL, &p, &err), err.status, "first");
    EXPECT(err.status != PROPANE_OK && p == NULL);
    options = (propane_compile_options){.size = sizeof options, .function = "first", .threads = -1};
    EXPECT_FAIL(propane_program_compile(d, module, &options, &p, &err), PROPANE_ERR_INVALID, "threads is -1");
    options.size = 0;
    EXPECT_FAIL(propane_program_compile(d, module, &options, &p, &err), PROPANE_ERR_INVALID, "size field is 0");
    EXPECT_FAIL(propane_program_compile(d, NULL, NULL, &p, &err), PROPANE_ERR_INVALID, "module must not be NULL");
    propane_module_free(module);
    propane_device_close(d);
}

CONFORM(refusals_explain) {
    propane_device *d = conformance_open();
    propane_program *p = NULL;
    propane_module *module = parse(add_program);
    EXPECT_OK(propane_program_supported(d, module, NULL, &err));
    EXPECT_OK(propane_program_supported(d, module, NULL, NULL));
    propane_module_free(module);

    EXPECT_FAIL(
        propane_module_parse(returns_parameter, strlen(returns_parameter), "conformance.mil", NULL, &module, &err),
        PROPANE_ERR_INVALID, "result 'x' is also a parameter"); /* otherwise bindings by name would be ambiguous */

    module = parse(wide_integers);
    EXPECT_FAIL(propane_program_supported(d, module, NULL, &err), PROPANE_ERR_UNSUPPORTED,
                "input 'numbers' has type int64");
    EXPECT_FAIL(propane_program_compile(d, module, NULL, &p, &err), PROPANE_ERR_UNSUPPORTED, "cast it");
    propane_module_free(module);
    EXPECT(p == NULL);
    propane_device_close(d);
}

/* ---- bindings ------------------------------------------------------------------------------------------------------------ */

CONFORM(bindings_are_checked) {
    adder a = adder_create();
    propane_buffer *small = NULL;
    EXPECT_OK(propane_buffer_create(a.device, 4, &small, &err));
    propane_request *r = NULL;
    propane_binding good[] = {{"x", a.x}, {"y", a.y}, {"total", a.total}, {"z", a.y}};
    propane_binding bindings[4];
#define TRY_WITH(index, name_, buffer_, count, part)                                                                   \
    do {                                                                                                               \
        memcpy(bindings, good, sizeof good);                                                                           \
        bindings[index] = (propane_binding){name_, buffer_};                                                           \
        EXPECT_FAIL(propane_request_create(a.program, bindings, count, &r, &err), PROPANE_ERR_INVALID, part);          \
        EXPECT(r == NULL);                                                                                             \
    } while (0)
    TRY_WITH(0, "x", a.x, 2, "'total': this output is not bound");
    TRY_WITH(0, "x", a.x, 0, "'x': this input is not bound");
    TRY_WITH(0, "x", a.x, -1, "count is -1");
    TRY_WITH(3, "z", a.y, 4, "'z': the program has no such input or output; it has x, y, total");
    TRY_WITH(3, "x", a.x, 4, "'x': bound twice");
    TRY_WITH(1, "x", a.y, 3, "'x': bound twice");
    TRY_WITH(0, NULL, a.x, 3, "name is missing");
    TRY_WITH(0, "x", NULL, 3, "'x': its buffer is missing");
    TRY_WITH(1, "y", small, 3, "'y': the buffer has 4 bytes");
    TRY_WITH(2, "total", small, 3, "'total': the buffer has 4 bytes");
    propane_buffer_free(small);
    adder_free(&a);
}

/* A driver that is the host itself accepts memory from anywhere; any other one refuses it. */
CONFORM(buffers_of_another_device_work_or_are_refused) {
    adder a = adder_create();
    propane_device *other = conformance_open();
    propane_buffer *foreign = buffer_for(other, propane_program_find(a.program, "x"));
    fill(foreign, propane_program_find(a.program, "x"), 7, 1);
    propane_request *r = NULL;
    propane_binding bindings[] = {{"x", foreign}, {"y", a.y}, {"total", a.total}};
    propane_status status = propane_request_create(a.program, bindings, 3, &r, &err);
    if (status != PROPANE_OK) {
        EXPECT_FAIL(status, PROPANE_ERR_INVALID, "'x': its buffer belongs to another device");
    } else {
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        expect_sum(&a, 7);
        propane_request_free(r);
    }
    propane_buffer_free(foreign);
    propane_device_close(other);
    adder_free(&a);
}

/* The caller's own memory, if the device is the host. */
CONFORM(wrapped_memory_works_or_is_refused) {
    adder a = adder_create();
    const propane_io *x = propane_program_find(a.program, "x");
    propane_buffer *wrapped = NULL;
    char *memory = mem_pages_alloc(x->bytes);
    EXPECT(memory);
    propane_status status = propane_buffer_wrap(a.device, memory, x->bytes, &wrapped, &err);
    if (status != PROPANE_OK) {
        EXPECT_FAIL(status, PROPANE_ERR_UNSUPPORTED, "has separate memory");
    } else {
        propane_request *r = NULL;
        propane_binding bindings[] = {{"x", wrapped}, {"y", a.y}, {"total", a.total}};
        void *seen = NULL;
        fill(wrapped, x, 7, 1);
        EXPECT_OK(propane_buffer_lock(wrapped, false, &seen, &err));
        EXPECT(seen == memory);
        propane_buffer_unlock(wrapped);
        EXPECT_OK(propane_request_create(a.program, bindings, 3, &r, &err));
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        expect_sum(&a, 7);
        propane_request_free(r);
        propane_buffer_free(wrapped);
        EXPECT_FAIL(propane_buffer_wrap(a.device, memory + 4, 4, &wrapped, &err), PROPANE_ERR_INVALID,
                    "must be aligned to 16 bytes");
        EXPECT_FAIL(propane_buffer_wrap(a.device, memory, 0, &wrapped, &err), PROPANE_ERR_INVALID, "0 bytes");
    }
    mem_pages_free(memory, x->bytes);
    adder_free(&a);
}

CONFORM(one_buffer_may_feed_several_inputs) {
    adder a = adder_create();
    propane_request *r = NULL;
    propane_binding bindings[] = {{"x", a.x}, {"y", a.x}, {"total", a.total}};
    EXPECT_OK(propane_request_create(a.program, bindings, 3, &r, &err));
    EXPECT_OK(propane_submit(&r, 1, &err));
    EXPECT_OK(propane_wait(r, NULL, &err));
    float values[6];
    EXPECT_OK(propane_buffer_read(a.total, propane_program_output(a.program, 0), PROPANE_FP32, values, 6, &err));
    for (int i = 0; i < 6 && computes(); i++) EXPECT(values[i] == 2 * (float)i);
    propane_request_free(r);
    adder_free(&a);
}

/* An output may share an input's buffer if the program allows it; the result is then the same. */
CONFORM(an_output_over_an_input_is_right_or_refused) {
    adder a = adder_create();
    propane_request *r = NULL;
    propane_binding bindings[] = {{"x", a.x}, {"y", a.y}, {"total", a.x}};
    propane_status status = propane_request_create(a.program, bindings, 3, &r, &err);
    if (status != PROPANE_OK) {
        EXPECT_FAIL(status, PROPANE_ERR_INVALID, "output 'total' is bound to the buffer of input 'x'");
    } else {
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        propane_buffer *total = a.total;
        a.total = a.x;
        expect_sum(&a, 0);
        a.total = total;
        propane_request_free(r);
    }
    adder_free(&a);
}

CONFORM(programs_share_a_buffer_without_a_copy) {
    adder a = adder_create();
    propane_program *p = conformance_compile(a.device, scale_program);
    propane_buffer *z = buffer_for(a.device, propane_program_output(p, 0));
    propane_request *r = NULL;
    propane_binding bindings[] = {{"total", a.total}, {"z", z}};
    EXPECT_OK(propane_request_create(p, bindings, 2, &r, &err));
    propane_request *chain[] = {a.request, r};
    for (int round = 0; round < 10; round++) {
        fill(a.x, propane_program_find(a.program, "x"), (float)round, 1);
        EXPECT_OK(propane_submit(chain, 2, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        float values[6];
        EXPECT_OK(propane_buffer_read(z, propane_program_output(p, 0), PROPANE_FP32, values, 6, &err));
        for (int i = 0; i < 6 && computes(); i++) EXPECT(values[i] == 2 * ((float)round + 10 + 11 * (float)i));
        EXPECT_OK(propane_wait(a.request, NULL, &err));
    }
    propane_request_free(r);
    propane_buffer_free(z);
    propane_program_free(p);
    adder_free(&a);
}

/* ---- buffers --------------------------------------------------------------------------------------------------------------- */

CONFORM(buffers_are_zeroed_and_keep_what_the_host_writes) {
    propane_device *d = conformance_open();
    static const size_t sizes[] = {1, 64, 4097, 3 << 20};
    for (int s = 0; s < 4; s++) {
        propane_buffer *b = NULL;
        EXPECT_OK(propane_buffer_create(d, sizes[s], &b, &err));
        EXPECT(propane_buffer_bytes(b) == sizes[s]);
        void *memory = NULL;
        EXPECT_OK(propane_buffer_lock(b, true, &memory, &err));
        unsigned char *bytes = memory, any = 0;
        for (size_t i = 0; i < sizes[s]; i++) any |= bytes[i];
        EXPECT(any == 0);
        for (size_t i = 0; i < sizes[s]; i++) bytes[i] = (unsigned char)(i * 31 + 7);
        propane_buffer_unlock(b);
        EXPECT_OK(propane_buffer_lock(b, false, &memory, &err));
        bytes = memory;
        size_t kept = 0;
        for (size_t i = 0; i < sizes[s]; i++) kept += bytes[i] == (unsigned char)(i * 31 + 7);
        EXPECT(kept == sizes[s]);
        propane_buffer_unlock(b);
        propane_buffer_free(b);
    }
    propane_buffer *b = NULL;
    EXPECT_FAIL(propane_buffer_create(d, 0, &b, &err), PROPANE_ERR_INVALID, "0 bytes");
    EXPECT_FAIL(propane_buffer_create(d, SIZE_MAX, &b, &err), PROPANE_ERR_INVALID, "bytes");
    EXPECT(b == NULL);
    propane_buffer_free(NULL);
    propane_device_close(d);
}

/* [3, 4] with rows of 64 bytes, as an engine pads them. */
CONFORM(padded_rows_are_written_and_read) {
    propane_device *d = conformance_open();
    propane_buffer *b = NULL;
    propane_io io = {
        .name = "padded", .dtype = PROPANE_FP16, .rank = 2, .dim = {3, 4}, .stride = {64, 2}, .bytes = 192};
    EXPECT_OK(propane_buffer_create(d, io.bytes, &b, &err));
    float values[12], back[12];
    for (int i = 0; i < 12; i++) values[i] = (float)i - 5.5f;
    EXPECT_OK(propane_buffer_write(b, &io, PROPANE_FP32, values, 12, &err));
    EXPECT_OK(propane_buffer_read(b, &io, PROPANE_FP32, back, 12, &err));
    EXPECT(memcmp(values, back, sizeof values) == 0);
    void *memory = NULL;
    EXPECT_OK(propane_buffer_lock(b, false, &memory, &err));
    for (int byte = 0; byte < 192; byte++) {
        uint16_t bits;
        memcpy(&bits, (char *)memory + (byte & ~1), 2);
        if (byte % 64 < 8)
            EXPECT(fp16_to_f32(bits) == values[byte / 64 * 4 + byte % 64 / 2]);
        else
            EXPECT(bits == 0); /* the padding stays unchanged */
    }
    propane_buffer_unlock(b);
    /* Gaps between columns and interleaved rows, so that no two neighbours are dense. */
    propane_io sparse = {.name = "sparse", .dtype = PROPANE_INT16, .rank = 3, .dim = {2, 1, 3}, .stride = {2, 99, 8}};
    int32_t numbers[6] = {1, -2, 3, -32768, 32767, 0}, again[6];
    EXPECT_OK(propane_buffer_write(b, &sparse, PROPANE_INT32, numbers, 6, &err));
    EXPECT_OK(propane_buffer_read(b, &sparse, PROPANE_INT32, again, 6, &err));
    EXPECT(memcmp(numbers, again, sizeof numbers) == 0);
    propane_io scalar = {.name = "scalar", .dtype = PROPANE_FP32};
    EXPECT_OK(propane_buffer_write(b, &scalar, PROPANE_FP16, (uint16_t[]){0x3c00}, 1, &err));
    EXPECT_OK(propane_buffer_read(b, &scalar, PROPANE_FP32, back, 1, &err));
    EXPECT(back[0] == 1);
    propane_buffer_free(b);
    propane_device_close(d);
}

CONFORM(conversions_round_to_even_and_lose_nothing_silently) {
    propane_device *d = conformance_open();
    propane_buffer *b = NULL;
    EXPECT_OK(propane_buffer_create(d, 64, &b, &err));
    propane_io half = {.name = "half", .dtype = PROPANE_FP16, .rank = 1, .dim = {6}, .stride = {2}};
    propane_io byte = {.name = "byte", .dtype = PROPANE_UINT8, .rank = 1, .dim = {6}, .stride = {1}};
    propane_io whole = {.name = "whole", .dtype = PROPANE_INT32, .rank = 1, .dim = {6}, .stride = {4}};
    float values[6] = {2049, 2051, 65519, 65520, 1e-8f, -0.0f}, back[6];
    static const float rounded[6] = {2048, 2052, 65504, INFINITY, 0, -0.0f};
    EXPECT_OK(propane_buffer_write(b, &half, PROPANE_FP32, values, 6, &err));
    EXPECT_OK(propane_buffer_read(b, &half, PROPANE_FP32, back, 6, &err));
    EXPECT(memcmp(back, rounded, sizeof back) == 0);
    int32_t numbers[6] = {0, 1, 2, 253, 254, 255};
    EXPECT_OK(propane_buffer_write(b, &byte, PROPANE_INT32, numbers, 6, &err));
    EXPECT_OK(propane_buffer_read(b, &byte, PROPANE_FP32, back, 6, &err));
    for (int i = 0; i < 6; i++) EXPECT(back[i] == (float)numbers[i]);
    numbers[4] = 256;
    EXPECT_FAIL(propane_buffer_write(b, &byte, PROPANE_INT32, numbers, 6, &err), PROPANE_ERR_INVALID,
                "write 'byte': element 4 is 256, outside the range of uint8 (0..255)");
    EXPECT_FAIL(propane_buffer_write(b, &byte, PROPANE_FP32, values, 6, &err), PROPANE_ERR_INVALID, "fp32 to uint8");
    EXPECT_FAIL(propane_buffer_read(b, &half, PROPANE_INT32, numbers, 6, &err), PROPANE_ERR_INVALID, "fp16 to int32");
    EXPECT_FAIL(propane_buffer_write(b, &half, PROPANE_FP32, values, 5, &err), PROPANE_ERR_INVALID,
                "5 elements were given, but its shape has 6");
    int32_t large[6] = {16777217, -16777217, INT32_MAX, INT32_MIN, 5, -5};
    EXPECT_OK(propane_buffer_write(b, &whole, PROPANE_INT32, large, 6, &err));
    EXPECT_OK(propane_buffer_read(b, &whole, PROPANE_FP32, back, 6, &err));
    EXPECT(back[0] == 16777216 && back[2] == 2147483648.0f && back[5] == -5);
    whole.stride[0] = 16;
    EXPECT_FAIL(propane_buffer_write(b, &whole, PROPANE_INT32, large, 6, &err), PROPANE_ERR_INVALID,
                "it needs 84 bytes, but the buffer has 64");
    whole.stride[0] = INT64_MAX / 2;
    EXPECT_FAIL(propane_buffer_read(b, &whole, PROPANE_INT32, large, 6, &err), PROPANE_ERR_INVALID, "stride");
    propane_buffer_free(b);
    propane_device_close(d);
}

/* ---- requests -------------------------------------------------------------------------------------------------------------- */

CONFORM(completions_are_filled_and_may_be_asked_for_again) {
    adder a = adder_create();
    EXPECT_FAIL(propane_wait(a.request, NULL, &err), PROPANE_ERR_INVALID, "never submitted");
    propane_completion first = {.size = sizeof first, .status = PROPANE_ERR_IO},
                       second = {.size = sizeof second, .status = PROPANE_ERR_IO};
    const int64_t begin = clock_ns();
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    EXPECT_OK(propane_wait(a.request, &first, &err));
    const int64_t passed = clock_ns() - begin;
    EXPECT_OK(propane_wait(a.request, &second, &err));
    EXPECT_FAIL(propane_wait(a.request, &(propane_completion){0}, &err), PROPANE_ERR_INVALID, "size field is 0");
    EXPECT(first.status == PROPANE_OK && first.device_ns >= 0); /* negative if unknown */
    EXPECT_MSG(first.simulated || first.device_ns <= passed, "%lld ns on the device in %lld",
               (long long)first.device_ns, (long long)passed);
    EXPECT(first.simulated == propane_device_describe(a.device)->simulated);
    EXPECT(second.status == PROPANE_OK && second.device_ns == first.device_ns && second.energy_j == first.energy_j);
    expect_sum(&a, 0);
    adder_free(&a);
}

/* All or none succeed, whether a device makes one compiled program of them or several. */
CONFORM(programs_may_be_compiled_at_once) {
    static const char *const sources[] = {add_program, matmul_program, half_program};
    propane_device *d = conformance_open();
    propane_module *modules[3];
    propane_compile_item items[3] = {{NULL}};
    propane_compile_report report = {.size = sizeof report};
    for (int k = 0; k < 3; k++) {
        EXPECT_OK(propane_module_parse(sources[k], strlen(sources[k]), "several.mil", NULL, &modules[k], &err));
        items[k].module = modules[k];
    }
    EXPECT_OK(propane_program_compile_all(d, items, 0, NULL, &report, &err));
    EXPECT_OK(propane_program_compile_all(d, items, 3, NULL, &report, &err));
    EXPECT(report.compiles >= 1 && report.failed < 0 && report.how[0]);
    for (int k = 0; k < 3; k++) {
        EXPECT(items[k].program && propane_program_input_count(items[k].program) == 2);
        EXPECT(propane_program_output_count(items[k].program) == 1);
    }
    adder a = adder_on(d, items[0].program, 3);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    EXPECT_OK(propane_wait(a.request, NULL, &err));
    expect_sum(&a, 3);
    adder_free_parts(&a);
    for (int k = 0; k < 3; k++) propane_program_free(items[k].program);
    items[1].function = "nothing";
    EXPECT_FAIL(propane_program_compile_all(d, items, 3, NULL, &report, &err), PROPANE_ERR_NOT_FOUND, "nothing");
    EXPECT(report.failed == 1 && !items[0].program && !items[1].program && !items[2].program);
    for (int k = 0; k < 3; k++) propane_module_free(modules[k]);
    propane_device_close(d);
}

/* A request that would wait for ever does not prevent closing the device, and is reported as cancelled. */
CONFORM(closing_cancels_what_waits_for_an_event) {
    propane_device *d = conformance_open();
    propane_program *p = conformance_compile(d, add_program);
    propane_event *never = event_create(d);
    adder held = adder_on(d, p, 1), free = adder_on(d, p, 2);
    propane_request *chain[] = {held.request, free.request};
    hold(&held, never, 1);
    EXPECT_OK(propane_submit(chain, 2, &err));
    propane_device_close(d);
    EXPECT_FAIL(propane_wait(held.request, NULL, &err), PROPANE_ERR_CANCELLED, "waiting for an event");
    EXPECT_OK(propane_wait(free.request, NULL, &err));
    expect_sum(&free, 2);
    adder_free_parts(&held);
    adder_free_parts(&free);
    propane_event_free(never);
    propane_program_free(p);
}

CONFORM(the_queue_takes_its_depth_and_no_more) {
    enum { MOST = 256 };
    propane_device *d = conformance_open();
    propane_program *p = conformance_compile(d, add_program);
    propane_event *gate = event_create(d);
    int depth = propane_device_describe(d)->queue_depth;
    EXPECT(depth < MOST);
    adder jobs[MOST];
    propane_request *chain[MOST];
    for (int i = 0; i <= depth; i++) {
        jobs[i] = adder_on(d, p, (float)i);
        chain[i] = jobs[i].request;
    }
    hold(&jobs[0], gate, 1);
    EXPECT_OK(propane_submit(chain, depth - 1, &err));
    EXPECT_FAIL(propane_submit(chain + depth - 1, 2, &err), PROPANE_ERR_LIMIT, "no room for 2 more");
    EXPECT_OK(propane_submit(chain + depth - 1, 1, &err));
    EXPECT_FAIL(propane_submit(chain + depth, 1, &err), PROPANE_ERR_LIMIT, "no room for 1 more");
    EXPECT_FAIL(propane_submit(chain, 1, &err), PROPANE_ERR_LIMIT, "");
    propane_event_signal(gate, 1);
    for (int i = 0; i < depth; i++) EXPECT_OK(propane_wait(chain[i], NULL, &err));
    EXPECT_OK(propane_submit(chain + depth, 1, &err));
    EXPECT_OK(propane_wait(chain[depth], NULL, &err));
    for (int i = 0; i <= depth; i++) expect_sum(&jobs[i], (float)i);
    for (int i = 0; i <= depth; i++) adder_free_parts(&jobs[i]);
    propane_event_free(gate);
    propane_program_free(p);
    propane_device_close(d);
}

CONFORM(a_request_in_flight_is_refused) {
    adder a = adder_create();
    propane_event *gate = event_create(a.device);
    hold(&a, gate, 1);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    EXPECT_FAIL(propane_submit(&a.request, 1, &err), PROPANE_ERR_INVALID, "already in flight");
    EXPECT_FAIL(propane_request_events(a.request, NULL, 0, NULL, 0, &err), PROPANE_ERR_INVALID, "in flight");
    propane_event_signal(gate, 1);
    EXPECT_OK(propane_wait(a.request, NULL, &err));
    expect_sum(&a, 0);
    propane_event_free(gate);
    adder_free(&a);
}

static void *signal_later(void *event) {
    struct timespec span = {.tv_nsec = 5000000};
    nanosleep(&span, NULL);
    propane_event_signal(event, 1);
    return NULL;
}

/* The device reads what the host writes before it signals. */
CONFORM(the_device_waits_for_the_host) {
    adder a = adder_create();
    propane_event *gate = event_create(a.device);
    hold(&a, gate, 1);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    fill(a.x, propane_program_find(a.program, "x"), 100, 1);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, signal_later, gate) == 0);
    EXPECT_OK(propane_wait(a.request, NULL, &err)); /* it helps, but must not hang before the signal */
    pthread_join(thread, NULL);
    expect_sum(&a, 100);
    propane_event_free(gate);
    adder_free(&a);
}

CONFORM(requests_signal_and_wait_for_one_another) {
    adder a = adder_create();
    propane_device *other = conformance_open();
    adder b = adder_on(other, conformance_compile(other, add_program), 50);
    propane_event *event = event_create(a.device);
    for (uint64_t round = 1; round <= 20; round++) {
        propane_event_point point = {event, round};
        EXPECT_OK(propane_request_events(a.request, NULL, 0, &point, 1, &err));
        EXPECT_OK(propane_request_events(b.request, &point, 1, NULL, 0, &err));
        EXPECT_OK(propane_submit(&b.request, 1, &err));
        EXPECT_OK(propane_submit(&a.request, 1, &err));
        EXPECT_OK(propane_event_wait(event, round, -1, &err));
        EXPECT_OK(propane_wait(b.request, NULL, &err));
        EXPECT_OK(propane_wait(a.request, NULL, &err)); /* it has signalled, but may not be complete yet */
        EXPECT(propane_event_value(event) == round);
    }
    expect_sum(&a, 0);
    expect_sum(&b, 50);
    EXPECT_FAIL(propane_event_wait(event, 21, 1, &err), PROPANE_ERR_LIMIT, "value is 20 and has not reached 21");
    adder_free(&b);
    propane_event_free(event);
    adder_free(&a);
}

static void expect_no_allocations(adder *a) {
    EXPECT_OK(propane_submit(&a->request, 1, &err));
    EXPECT_OK(propane_wait(a->request, NULL, &err));
    uint64_t before = mem_alloc_count();
    for (int i = 0; i < 1000; i++) {
        EXPECT_OK(propane_submit(&a->request, 1, &err));
        EXPECT_OK(propane_wait(a->request, NULL, &err));
    }
    EXPECT_MSG(mem_alloc_count() == before, "%llu allocations in 1,000 runs",
               (unsigned long long)(mem_alloc_count() - before));
}

CONFORM(a_request_is_used_a_thousand_times_without_allocating) {
    adder a = adder_create();
    expect_no_allocations(&a);
    expect_sum(&a, 0);
    adder_free_parts(&a);
    propane_program_free(a.program);
    a = adder_on(a.device, conformance_compile(a.device, product_program), 0);
    expect_no_allocations(&a);
    adder_free(&a);
}

typedef struct share {
    adder *base;
    int number;
} share;

static void *submit_many(void *context) {
    const share *s = context;
    float first = (float)(100 * s->number);
    adder a = adder_on(s->base->device, s->base->program, first),
          b = adder_on(s->base->device, s->base->program, first + 1);
    propane_request *chain[] = {a.request, b.request};
    for (int i = 0; i < 100; i++) {
        propane_error e = {0};
        EXPECT(propane_submit(chain, 2, &e) == PROPANE_OK);
        EXPECT(propane_wait(chain[i & 1], NULL, &e) == PROPANE_OK);
        EXPECT(propane_wait(chain[~i & 1], NULL, &e) == PROPANE_OK);
    }
    expect_sum(&a, first);
    expect_sum(&b, first + 1);
    adder_free_parts(&a);
    adder_free_parts(&b);
    return NULL;
}

CONFORM(several_threads_submit) {
    enum { THREADS = 4 };
    adder a = adder_create();
    pthread_t threads[THREADS];
    share shares[THREADS];
    for (int i = 0; i < THREADS; i++) {
        shares[i] = (share){&a, i};
        EXPECT(pthread_create(&threads[i], NULL, submit_many, &shares[i]) == 0);
    }
    for (int i = 0; i < 50; i++) { /* compiling at the same time is allowed */
        propane_program_free(conformance_compile(a.device, i % 2 ? matmul_program : half_program));
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    adder_free(&a);
}

CONFORM(free_waits_for_what_is_in_flight) {
    adder a = adder_create();
    propane_event *gate = event_create(a.device);
    hold(&a, gate, 1);
    EXPECT_OK(propane_submit(&a.request, 1, &err));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, signal_later, gate) == 0);
    propane_request_free(a.request);
    EXPECT(propane_event_value(gate) == 1);
    pthread_join(thread, NULL);
    a.request = NULL;
    expect_sum(&a, 0);
    propane_event_free(gate);
    adder_free(&a);
}

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

CONFORM(values_of_small_programs) {
    static const float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0.5f, -2, 1e6f, 0, -5, 1e-3f};
    float total[6];
    conformance_run(add_program, (const float *const[]){x, y}, total, 6);
    for (int i = 0; i < 6; i++) EXPECT(total[i] == x[i] + y[i]);

    static const float a[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, b[8] = {1, -1, 2, 0, 3, 1, 4, 2};
    static const float product[6] = {30, 10, 70, 18, 110, 26}; /* integers, which are exact on any engine */
    float c[6];
    conformance_run(matmul_program, (const float *const[]){a, b}, c, 6);
    for (int i = 0; i < 6; i++)
        EXPECT_MSG(c[i] == product[i], "c[%d] is %g, not %g", i, (double)c[i], (double)product[i]);

    static const float u[5] = {1, 1.5f, -3, 300, 0.0009765625f}, v[5] = {2, 1.5f, 0.5f, 400, 1.0009765625f};
    float w[5];
    conformance_run(half_program, (const float *const[]){u, v}, w, 5);
    EXPECT(w[0] == 2 && w[1] == 2.25f && w[2] == -1.5f);
    EXPECT(w[3] == INFINITY || w[3] == 65504); /* 120,000 is out of range for fp16; some engines saturate */
    EXPECT(w[4] == fp16_to_f32(fp16_from_f64((double)u[4] * (double)v[4])));
}

/* ---- the suite ------------------------------------------------------------------------------------------------------------- */

static const test_case cases[] = {
    T(opens_describes_and_closes),
    T(unknown_devices_are_refused_by_name),
    T(programs_describe_their_inputs_and_outputs),
    T(functions_are_chosen_by_name),
    T(refusals_explain),
    T(bindings_are_checked),
    T(buffers_of_another_device_work_or_are_refused),
    T(wrapped_memory_works_or_is_refused),
    T(one_buffer_may_feed_several_inputs),
    T(an_output_over_an_input_is_right_or_refused),
    T(programs_share_a_buffer_without_a_copy),
    T(buffers_are_zeroed_and_keep_what_the_host_writes),
    T(padded_rows_are_written_and_read),
    T(conversions_round_to_even_and_lose_nothing_silently),
    T(completions_are_filled_and_may_be_asked_for_again),
    T(closing_cancels_what_waits_for_an_event),
    T(programs_may_be_compiled_at_once),
    T(the_queue_takes_its_depth_and_no_more),
    T(a_request_in_flight_is_refused),
    T(the_device_waits_for_the_host),
    T(requests_signal_and_wait_for_one_another),
    T(a_request_is_used_a_thousand_times_without_allocating),
    T(several_threads_submit),
    T(free_waits_for_what_is_in_flight),
    T(values_of_small_programs),
};

enum { CASES = sizeof cases / sizeof cases[0], MOST_CASES = 100 };

int conformance_main(const conformance_driver *driver, int argc, char **argv) {
    static test_case all[MOST_CASES];
    here = driver;
    for (int i = 0; i < driver->excuse_count; i++) {
        int k = 0;
        while (k < CASES && strcmp(cases[k].name, driver->excuses[i].test) != 0) k++;
        if (k < CASES && driver->excuses[i].reason && *driver->excuses[i].reason) continue;
        fprintf(stderr, "%s: the excuse for '%s' names no test or gives no reason\n", driver->title,
                driver->excuses[i].test);
        return 1;
    }
    if (CASES + driver->more_count > MOST_CASES) return 1;
    memcpy(all, cases, sizeof cases);
    for (int i = 0; i < driver->more_count; i++) all[CASES + i] = driver->more[i];
    return test_main(driver->title, all, CASES + driver->more_count, argc, argv);
}
