/* SPDX-License-Identifier: MIT
 * The ane driver against the stand-in (tests/standin): the conformance suite, this driver's own guarantees, and each
 * fault that the stand-in can simulate. Nothing here proves that the driver works on Apple's hardware.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ane/driver/ane.h"
#include "ane/driver/remembered.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "drivers/conformance.h"
#include "support/ane_rig.h"
#include "train/weight_mode.h"
#include "train/weight_mode_check.h"

static propane_error err;

/* ---- the stand-in ----------------------------------------------------------------------------------------------------------- */

static void *library;

static void *exported(const char *name) {
    if (!library) library = dlopen(getenv("PROPANE_ANE_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    EXPECT_MSG(library, "%s", dlerror());
    void *found = dlsym(library, name);
    EXPECT_MSG(found, "%s", name);
    return found;
}

static void set(const char *key, const char *value) {
    void (*f)(const char *, const char *);
    void *found = exported("standin_set");
    memcpy(&f, &found, sizeof f);
    f(key, value);
}

static long get(const char *counter) {
    long (*f)(const char *);
    void *found = exported("standin_get");
    memcpy(&f, &found, sizeof f);
    return f(counter);
}

static const char *last_violation(void) {
    const char *(*f)(void);
    void *found = exported("standin_last_violation");
    memcpy(&f, &found, sizeof f);
    return f();
}

static void expect_clean(void) { EXPECT_MSG(get("violations") == 0, "%s", last_violation()); }

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

#define PROGRAM(body) CONFORMANCE_HEAD "    func main<ios18>(" body "}\n"

static const char add_half[] =
    PROGRAM("tensor<fp16, [1, 4, 1, 8]> x, tensor<fp16, [1, 4, 1, 8]> y) {\n"
            "        tensor<fp16, [1, 4, 1, 8]> z = add(x = x, y = y)[name = string(\"z\")];\n"
            "    } -> (z);\n");

/* The names are not in alphabetical order, so binding by position would give the difference the wrong sign. */
static const char subtract[] =
    PROGRAM("tensor<fp16, [1, 2, 1, 32]> q, tensor<fp16, [1, 2, 1, 32]> k) {\n"
            "        tensor<fp16, [1, 2, 1, 32]> z = sub(x = q, y = k)[name = string(\"z\")];\n"
            "        tensor<fp16, [1, 2, 1, 32]> a = sub(x = k, y = q)[name = string(\"a\")];\n"
            "    } -> (z, a);\n");

static const char uneven[] =
    PROGRAM("tensor<fp16, [1, 400, 1, 64]> large, tensor<fp16, [1, 1, 1, 64]> small) {\n"
            "        tensor<fp16, [1, 400, 1, 64]> z = add(x = large, y = small)[name = string(\"z\")];\n"
            "    } -> (z);\n");

/* `spare` is not a symbol of the compiled program. */
static const char unused[] =
    PROGRAM("tensor<fp16, [1, 2, 1, 32]> spare, tensor<fp16, [1, 2, 1, 32]> x) {\n"
            "        tensor<fp16, [1, 2, 1, 32]> z = add(x = x, y = x)[name = string(\"z\")];\n"
            "    } -> (z);\n");

typedef struct job {
    propane_device *device;
    propane_program *program;
    propane_buffer *buffers[8];
    propane_request *request;
    int in, out;
} job;

static const propane_io *io_at(const job *j, int i) {
    return i < j->in ? propane_program_input(j->program, i) : propane_program_output(j->program, i - j->in);
}

static propane_status compile(propane_device *d, const char *source, propane_program **out) {
    propane_module *m = NULL;
    EXPECT_OK(propane_module_parse(source, strlen(source), "t.mil", NULL, &m, &err));
    propane_status status = propane_program_compile(d, m, NULL, out, &err);
    propane_module_free(m);
    return status;
}

static propane_status start(job *j, const char *uri, const char *source) {
    *j = (job){0};
    PROPANE_TRY(propane_device_open(uri, &j->device, &err));
    PROPANE_TRY(compile(j->device, source, &j->program));
    j->in = propane_program_input_count(j->program);
    j->out = propane_program_output_count(j->program);
    propane_binding bindings[8];
    for (int i = 0; i < j->in + j->out; i++) {
        PROPANE_TRY(propane_buffer_create(j->device, io_at(j, i)->bytes, &j->buffers[i], &err));
        bindings[i] = (propane_binding){io_at(j, i)->name, j->buffers[i]};
    }
    return propane_request_create(j->program, bindings, j->in + j->out, &j->request, &err);
}

static propane_status once(job *j) {
    PROPANE_TRY(propane_submit(&j->request, 1, &err));
    return propane_wait(j->request, NULL, &err);
}

static void put(job *j, int i, float first, float step) {
    float values[40000];
    int64_t n = propane_io_count(io_at(j, i));
    for (int64_t k = 0; k < n; k++) values[k] = first + step * (float)k;
    EXPECT_OK(propane_buffer_write(j->buffers[i], io_at(j, i), PROPANE_FP32, values, n, &err));
}

static void take(job *j, int i, float *values) {
    EXPECT_OK(
        propane_buffer_read(j->buffers[i], io_at(j, i), PROPANE_FP32, values, propane_io_count(io_at(j, i)), &err));
}

static void end(job *j) {
    propane_request_free(j->request);
    for (int i = 0; i < 8; i++) propane_buffer_free(j->buffers[i]);
    propane_program_free(j->program);
    propane_device_close(j->device);
}

static int entries(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static int files_left(void) { return entries(getenv("TMPDIR")); }

static void empty_temporary_folder(void) {
    EXPECT_OK(file_remove_tree(getenv("TMPDIR"), &err));
    EXPECT(mkdir(getenv("TMPDIR"), 0700) == 0);
}

/* Counts folders of programs, in TMPDIR and in the stand-in system's user folder; some belong to other tests. */
static int folders_there(void) {
    char folder[1200];
    const char *machine = getenv("PROPANE_STANDIN_MACHINE"), *at = NULL;
    for (const char *p = machine; p && (p = strstr(p, "temporary=")) != NULL; p++) at = p; /* the last one is valid */
    EXPECT(at != NULL);
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(at + 10, ","), at + 10);
    return files_left() + entries(folder);
}

/* Checks that everything has been released; the one object left is the driver's empty dictionary. */
static void expect_nothing_left(void) {
    expect_clean();
    EXPECT_MSG(get("objects") == 1, "%ld objects are left", get("objects"));
    EXPECT_MSG(get("surfaces") == 0, "%ld surfaces are left", get("surfaces"));
    EXPECT_MSG(get("programs") == 0, "%ld programs are left", get("programs"));
    EXPECT_MSG(get("locks") == 0 && get("pools") == 0, "%ld locks, %ld pools", get("locks"), get("pools"));
    EXPECT_MSG(files_left() == 0, "%d files are left in %s", files_left(), getenv("TMPDIR"));
}

/* ---- promises ----------------------------------------------------------------------------------------------------------------- */

static void add_once(const char *uri) {
    job j;
    float z[32];
    EXPECT_OK(start(&j, uri, add_half));
    put(&j, 0, 1, 1);
    put(&j, 1, 100, 2);
    EXPECT_OK(once(&j));
    take(&j, 2, z);
    for (int i = 0; i < 32; i++) EXPECT(z[i] == 101 + 3 * (float)i);
    const propane_io *io = io_at(&j, 0);
    EXPECT_MSG(io->stride[3] == 2 && io->stride[1] == 64 && io->bytes == 256, "strides %d %d, %zu bytes",
               (int)io->stride[3], (int)io->stride[1], io->bytes);
    end(&j);
    expect_nothing_left();
}

TEST(the_memory_route_adds) { add_once("ane:memory"); }
TEST(the_client_route_adds) { add_once("ane:client"); }
TEST(the_canonical_dialect_adds) { add_once("ane:memory?dialect=canonical"); }

TEST(attributes_need_not_be_there) {
    set("attributes", "nil");
    add_once("ane");
    add_once("ane:client");
}

TEST(a_model_may_name_no_folder) {
    set("path", "nil");
    add_once("ane");
}

/* No engine works on a locked surface. The surfaces bound to the cpu device's program are locked while it runs, written
 * if they are results, and unlocked again, even if a later one of them cannot be locked. */
TEST(surfaces_that_another_device_works_on_are_unlocked_again) {
    propane_device *cpu = NULL, *ane = NULL;
    propane_program *p = NULL;
    propane_request *r = NULL;
    propane_binding bindings[] = {{"x", NULL}, {"y", NULL}, {"z", NULL}};
    char number[24];
    float values[32];
    EXPECT_OK(propane_device_open("cpu", &cpu, &err));
    EXPECT_OK(propane_device_open("ane", &ane, &err));
    EXPECT_OK(compile(cpu, add_half, &p));
    for (int i = 0; i < 3; i++) {
        const propane_io *io = i < 2 ? propane_program_input(p, i) : propane_program_output(p, 0);
        EXPECT_OK(propane_buffer_create(ane, io->bytes, &bindings[i].buffer, &err));
        for (int k = 0; k < 32; k++) values[k] = (float)(k + i);
        EXPECT_OK(propane_buffer_write(bindings[i].buffer, io, PROPANE_FP32, values, 32, &err));
    }
    EXPECT_OK(propane_request_create(p, bindings, 3, &r, &err));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        EXPECT_MSG(get("locks") == 0, "run %d leaves %ld surfaces locked", i, get("locks"));
    }
    EXPECT_OK(propane_buffer_read(bindings[2].buffer, propane_program_output(p, 0), PROPANE_FP32, values, 32, &err));
    for (int k = 0; k < 32; k++) EXPECT(values[k] == (float)(2 * k + 1));
    set("lock", "fail");
    for (int i = 0; i < 3; i++) {
        snprintf(number, sizeof number, "%ld", get("lock_calls") + i + 1);
        set("lock_at", number);
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_FAIL(propane_wait(r, NULL, &err), PROPANE_ERR_DEVICE, "cannot be locked");
        EXPECT_MSG(get("locks") == 0, "lock %d fails: %ld surfaces stay locked", i, get("locks"));
    }
    propane_request_free(r);
    for (int i = 0; i < 3; i++) propane_buffer_free(bindings[i].buffer);
    propane_program_free(p);
    propane_device_close(ane);
    propane_device_close(cpu);
    expect_nothing_left();
}

static void subtract_once(const char *uri) {
    job j;
    float z[64], a[64];
    EXPECT_OK(start(&j, uri, subtract));
    put(&j, 0, 5, 1);
    put(&j, 1, 3, 0);
    EXPECT_OK(once(&j));
    take(&j, 2, z);
    take(&j, 3, a);
    for (int i = 0; i < 64; i++) EXPECT(z[i] == 2 + (float)i && a[i] == -2 - (float)i);
    end(&j);
    expect_nothing_left();
}

TEST(names_are_bound_whatever_the_order_of_symbols) {
    subtract_once("ane");
    set("order", "declared");
    subtract_once("ane");
    subtract_once("ane:client");
}

TEST(inputs_that_are_not_used_are_left_out) {
    job j;
    float z[64];
    EXPECT_OK(start(&j, "ane", unused));
    put(&j, 1, 2, 1);
    EXPECT_OK(once(&j));
    take(&j, 2, z);
    EXPECT(z[0] == 4 && z[63] == 130);
    end(&j);
    expect_nothing_left();
}

/* C11: the small surface grows to the size of the large one and keeps its content. */
TEST(surfaces_are_made_even) {
    job j;
    static float z[25600];
    set("sizes", "equal");
    EXPECT_OK(start(&j, "ane:memory?sizes=any", uneven));
    EXPECT_FAIL(once(&j), PROPANE_ERR_DEVICE, "status 0x1d: ");
    end(&j);
    EXPECT_OK(start(&j, "ane", uneven)); /* not proved, so sizes are equal */
    put(&j, 0, 0, 0);
    put(&j, 1, 1, 1);
    EXPECT_OK(once(&j));
    take(&j, 2, z);
    for (int i = 0; i < 25600; i++) EXPECT(z[i] == 1 + (float)(i % 64));
    end(&j);
    expect_nothing_left();
}

static const ane_api *the_api(void) {
    const ane_api *a;
    EXPECT_OK(ane_api_get(&a, &err));
    return a;
}

static long try_sizes(int route, const char *words) {
    text t = {0};
    EXPECT_OK(ane_try_sizes(route, &t, &err));
    EXPECT_MSG(strstr(t.data, words), "%s", t.data);
    text_deinit(&t);
    return get("surface_bytes");
}

static long bytes_of_uneven(const char *uri) {
    job j;
    static float z[25600];
    EXPECT_OK(start(&j, uri, uneven));
    put(&j, 0, 0, 0);
    put(&j, 1, 1, 1);
    EXPECT_OK(once(&j));
    take(&j, 2, z);
    for (int i = 0; i < 25600; i++) EXPECT(z[i] == 1 + (float)(i % 64));
    long bytes = get("surface_bytes");
    end(&j);
    return bytes;
}

/* Once a trial has shown that sizes may differ, no surface grows. A proof for one route does not apply to the other. */
TEST(surfaces_stay_as_they_are_where_that_is_proved) {
    set("sizes", "equal");
    try_sizes(0, "; the number, size or order");
    long even = bytes_of_uneven("ane");
    set("sizes", "any");
    EXPECT(bytes_of_uneven("ane") == even);
    try_sizes(0, "accepted");
    long any = bytes_of_uneven("ane");
    EXPECT_MSG(any < even, "%ld and %ld bytes", any, even);
    EXPECT(bytes_of_uneven("ane:client") == even && bytes_of_uneven("ane:memory?sizes=equal") == even);
    EXPECT(bytes_of_uneven("ane:client?sizes=any") == any);
    try_sizes(1, "accepted");
    EXPECT(bytes_of_uneven("ane:client") == any);
    set("sizes", "equal");
    EXPECT(bytes_of_uneven("ane") == even); /* refused during work: made equal, and remembered */
    EXPECT(!ane_remembered_yes(the_api(), 0, ANE_FACT_sizes) && ane_remembered_yes(the_api(), 1, ANE_FACT_sizes));
    try_sizes(1, "0x1d");
    EXPECT(bytes_of_uneven("ane:client") == even);
    expect_nothing_left();
}

/* A buffer that is bound to two programs makes the others grow, too; requests queued earlier continue. */
TEST(growing_reaches_the_neighbours) {
    job small, large;
    float z[64];
    propane_request *bridge = NULL;
    EXPECT_OK(start(&small, "ane", unused));
    put(&small, 1, 1, 0);
    EXPECT_OK(once(&small));
    EXPECT_OK(start(&large, "ane", uneven));
    propane_program *p = NULL;
    propane_buffer *big = NULL;
    EXPECT_OK(compile(small.device, uneven, &p));
    EXPECT_OK(propane_buffer_create(small.device, propane_program_input(p, 0)->bytes, &big, &err));
    propane_binding bindings[] = {{"large", big}, {"small", small.buffers[1]}, {"z", big}};
    bindings[2].buffer = NULL;
    EXPECT_OK(propane_buffer_create(small.device, propane_program_output(p, 0)->bytes, &bindings[2].buffer, &err));
    void *memory = NULL;
    EXPECT_OK(propane_buffer_lock(small.buffers[1], false, &memory, &err));
    EXPECT_FAIL(propane_request_create(p, bindings, 3, &bridge, &err), PROPANE_ERR_INVALID, "but it is locked");
    propane_buffer_unlock(small.buffers[1]);
    EXPECT_OK(propane_request_create(p, bindings, 3, &bridge, &err));
    EXPECT_OK(once(&small));
    take(&small, 2, z);
    EXPECT(z[0] == 2);
    EXPECT_OK(propane_submit(&bridge, 1, &err));
    EXPECT_OK(propane_wait(bridge, NULL, &err));
    propane_request_free(bridge);
    propane_buffer_free(bindings[2].buffer);
    propane_buffer_free(big);
    propane_program_free(p);
    end(&small);
    end(&large);
    expect_nothing_left();
}

/* Writes a program whose constants go into a weight file: y = x + c. */
static void constant_program(char *out, size_t size, int value) {
    snprintf(out, size, "%s",
             CONFORMANCE_HEAD "    func main<ios18>(tensor<fp16, [1, 1, 1, 32]> x) {\n"
                              "        tensor<fp16, [1, 1, 1, 32]> c = const()[name = string(\"c\"), val = "
                              "tensor<fp16, [1, 1, 1, 32]>([[[[");
    char *at = strstr(out, "([[[[") + 5;
    for (int i = 0; i < 32; i++) at += snprintf(at, size - (size_t)(at - out), "%s%d", i ? ", " : "", value + i);
    snprintf(at, size - (size_t)(at - out),
             "]]]])];\n        tensor<fp16, [1, 1, 1, 32]> y = add(x = x, y = c)[name = string(\"y\")];\n    } -> "
             "(y);\n}\n");
}

/* y = x * c0 + c1 + c2: constants of different sizes that are not multiples of 64 bytes. */
static const char three_constants[] =
    PROGRAM("tensor<fp16, [1, 3, 1, 7]> x) {\n"
            "        tensor<fp16, [1, 3, 1, 7]> c0 = const()[name = string(\"c0\"), val = tensor<fp16, [1, 3, 1, 7]>("
            "[[[[1, 2, 3, 4, 5, 6, 7]], [[1, 2, 3, 4, 5, 6, 7]], [[1, 2, 3, 4, 5, 6, 7]]]])];\n"
            "        tensor<fp32, [1, 3, 1, 7]> c1 = const()[name = string(\"c1\"), val = tensor<fp32, [1, 3, 1, 7]>("
            "[[[[1, 1, 1, 1, 1, 1, 1]], [[2, 2, 2, 2, 2, 2, 2]], [[3, 3, 3, 3, 3, 3, 3]]]])];\n"
            "        tensor<fp16, [1, 3, 1, 7]> c2 = const()[name = string(\"c2\"), val = tensor<fp16, [1, 3, 1, 7]>("
            "[[[[100, 200, 300, 400, 500, 600, 700]], [[100, 200, 300, 400, 500, 600, 700]], "
            "[[100, 200, 300, 400, 500, 600, 700]]]])];\n"
            "        tensor<fp16, [1, 3, 1, 7]> a = mul(x = x, y = c0)[name = string(\"a\")];\n"
            "        tensor<fp16, [1, 3, 1, 7]> h = cast(x = c1, dtype = string(\"fp16\"))[name = string(\"h\")];\n"
            "        tensor<fp16, [1, 3, 1, 7]> b = add(x = a, y = h)[name = string(\"b\")];\n"
            "        tensor<fp16, [1, 3, 1, 7]> y = add(x = b, y = c2)[name = string(\"y\")];\n"
            "    } -> (y);\n");

static uint64_t whole(const uint8_t *p, int bytes) {
    uint64_t v = 0;
    for (int i = bytes; i > 0; i--) v = v << 8 | p[i - 1];
    return v;
}

/* Checks the single file of three_constants, byte by byte, and the record offsets in its text. */
static void expect_one_file(int route) {
    ane_options o;
    ane_source s;
    propane_module *m = NULL;
    EXPECT_OK(ane_options_parse(route ? "client" : "memory", &o, &err));
    EXPECT_OK(propane_module_parse(three_constants, strlen(three_constants), "t.mil", NULL, &m, &err));
    const mil_function *f = m->functions;
    EXPECT_OK(ane_source_create(&f, 1, &o, &s, &err));
    const uint8_t *p = (const uint8_t *)s.weights.data;
    EXPECT(s.weights.length == 64 + 3 * (64 + 2 * 64) - 2 * 64 && whole(p, 4) == 3 && whole(p + 4, 4) == 2);
    const uint64_t at[] = {64, 192, 384}, bytes[] = {42, 84, 42}, code[] = {1, 2, 1};
    for (int k = 0; k < 3; k++) {
        const uint8_t *r = p + at[k];
        char named[80];
        EXPECT(whole(r, 4) == 0xDEADBEEF && whole(r + 4, 4) == code[k] && whole(r + 8, 8) == bytes[k]);
        EXPECT_MSG(whole(r + 16, 8) == at[k] + 64, "record %d: its data is said to be at %d", k, (int)whole(r + 16, 8));
        for (uint64_t i = 24; i < 64; i++) EXPECT(r[i] == 0);
        for (uint64_t i = 64 + bytes[k]; i % 64; i++) EXPECT(r[i] == 0);
        snprintf(named, sizeof named, "\"@model_path/%s\"), offset = uint64(%d)", s.weights_path, (int)at[k]);
        EXPECT_MSG(strstr(s.program.data, named), "%s in %s", named, s.program.data);
    }
    EXPECT(strcmp(s.weights_path, route ? "weights2.bin" : "weights/weights2.bin") == 0);
    ane_source_deinit(&s);
    propane_module_free(m);
}

TEST(all_weights_go_into_one_file) {
    static const char *const uris[] = {"ane:memory?dispatch=standard", "ane:client?dispatch=standard"};
    job j;
    float y[21];
    for (int route = 0; route < 2; route++) {
        expect_one_file(route);
        EXPECT_OK(start(&j, uris[route], three_constants));
        put(&j, 0, 1, 0);
        EXPECT_OK(once(&j));
        take(&j, 1, y);
        for (int i = 0; i < 21; i++) EXPECT(y[i] == 101 * (float)(i % 7 + 1) + 1 + (float)(i / 7));
        EXPECT_MSG(get("weight_files") == 1, "%ld files", get("weight_files"));
        end(&j);
    }
    expect_nothing_left();
}

TEST(equal_programs_are_compiled_once) {
    propane_device *d = NULL;
    propane_program *p[3] = {NULL};
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    for (int i = 0; i < 3; i++) EXPECT_OK(compile(d, add_half, &p[i]));
    EXPECT_MSG(get("compiles") == 1, "%ld compiles", get("compiles"));
    for (int i = 0; i < 3; i++) propane_program_free(p[i]);
    EXPECT_OK(compile(d, add_half, &p[0]));
    EXPECT(get("compiles") == 1);
    propane_program_free(p[0]);
    propane_device_close(d);
    expect_nothing_left();
}

TEST(the_compile_budget_is_kept) {
    char source[2000];
    propane_device *d = NULL;
    set("system", "26");
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    EXPECT(propane_device_describe(d)->compile_limit == 119);
    for (int i = 0; i < 120; i++) {
        propane_program *p = NULL;
        constant_program(source, sizeof source, i);
        if (i < 119) {
            EXPECT_OK(compile(d, source, &p));
            propane_program_free(p);
        } else {
            EXPECT_FAIL(compile(d, source, &p), PROPANE_ERR_LIMIT,
                        "would be compile 120 of this process, and after about 119");
            EXPECT(strstr(err.text, "write a checkpoint and exec()"));
        }
    }
    EXPECT(get("compiles") == 119);
    propane_device_close(d);
    EXPECT_OK(propane_device_open("ane:memory?budget=130&dispatch=standard", &d, &err));
    EXPECT(propane_device_describe(d)->compile_limit == 11);
    propane_device_close(d);
    expect_nothing_left();
}

TEST(ten_thousand_evaluations_leave_nothing) {
    job j;
    EXPECT_OK(start(&j, "ane:memory?dispatch=standard", add_half));
    put(&j, 0, 1, 1);
    EXPECT_OK(once(&j));
    long objects = get("objects"), requests = get("requests");
    for (int i = 0; i < 10000; i++) EXPECT_OK(once(&j));
    EXPECT_MSG(get("objects") == objects, "%ld objects more", get("objects") - objects);
    EXPECT_MSG(get("requests") == requests && requests == 1, "%ld requests", get("requests"));
    EXPECT(get("evaluations") == 10001);
    end(&j);
    expect_nothing_left();
}

static void forget(void) {
    bool there;
    EXPECT_OK(ane_forget(&there, &err));
}

static void try_ways(int route) {
    text words = {0};
    EXPECT_OK(ane_try_ways(route, &words, &err));
    EXPECT(words.data && strstr(words.data, " evaluation is used: standard "));
    text_deinit(&words);
}

static void choose_way(const char *uri, const char *chosen, const char *also) {
    job j;
    float z[32];
    EXPECT_OK(start(&j, uri, add_half));
    const char *note = propane_device_describe(j.device)->note;
    EXPECT_MSG(strncmp(note, chosen, strlen(chosen)) == 0 && strstr(note, also), "%s", note);
    for (int i = 0; i < 40; i++) {
        put(&j, 0, (float)i, 1);
        EXPECT_OK(once(&j));
        take(&j, 2, z);
        EXPECT(z[5] == (float)(i + 5));
    }
    end(&j);
    EXPECT(get("tasks") == 0);
    expect_nothing_left();
}

/* A device runs no trials, so methods that would crash or hang are never called. */
TEST(a_device_uses_the_standard_way_and_tries_nothing) {
    forget();
    set("direct", "wrong");
    set("realtime", "wrong");
    propane_device *d = NULL;
    EXPECT_OK(propane_device_open("ane", &d, &err));
    EXPECT(get("compiles") == 0 && get("evaluations") == 0);
    propane_device_close(d);
    choose_way("ane", "standard evaluation is used, 'propane devices' tries the other methods", "");
}

TEST(a_way_to_evaluate_can_be_asked_for) {
    set("realtime", "works");
    choose_way("ane:memory?dispatch=direct", "direct evaluation is used, as asked for", "");
    choose_way("ane:client?dispatch=realtime", "real-time evaluation is used, as asked for", "");
    try_ways(0);
    choose_way("ane", "", "standard 0.");
    try_ways(1);
    choose_way("ane:client", "", "real-time 0.");
    set("direct", "fail");
    job j;
    EXPECT_OK(start(&j, "ane:memory?dispatch=direct", add_half));
    EXPECT_FAIL(once(&j), PROPANE_ERR_DEVICE, "the engine failed (direct evaluation)");
    end(&j);
    expect_nothing_left();
}

/* The times are far apart, because a busy machine lengthens sleeps. */
TEST(the_fastest_way_is_taken) {
    set("realtime", "works");
    set("standard_ns", "40000000");
    set("realtime_ns", "10000000");
    try_ways(0);
    choose_way("ane", "direct evaluation is used", "real-time ");
    set("direct_ns", "50000000");
    try_ways(1);
    choose_way("ane:client", "real-time evaluation is used", "direct ");
    choose_way("ane", "direct evaluation is used", "real-time ");
}

TEST(a_way_that_is_not_faster_is_not_taken) {
    set("realtime", "works");
    set("realtime_ns", "2000000");
    set("direct_ns", "2000000");
    try_ways(0);
    choose_way("ane", "standard evaluation is used", "direct ");
}

TEST(a_way_that_computes_wrong_is_not_taken) {
    set("standard_ns", "2000000");
    set("direct", "wrong");
    set("realtime", "task");
    try_ways(0);
    choose_way("ane", "standard evaluation is used", "real-time cannot be used (ane: the engine failed (real-time ");
    choose_way("ane", "standard evaluation is used",
               "direct cannot be used (element 0 of the result of function 0 is not written)");
}

TEST(real_time_may_do_without_a_task) {
    set("standard_ns", "2000000");
    set("direct", "fail");
    set("realtime", "untasked");
    try_ways(1);
    choose_way("ane:client", "real-time evaluation is used", " ms (beginRealTimeTask returns NO)");
}

/* Findings before a trial's crash are kept, and the method that crashed is not used. */
TEST(a_trial_that_crashes_leaves_the_safe_way) {
    forget();
    pid_t child = fork();
    if (child == 0) {
        text words = {0};
        set("compile", "crash");
        signal(SIGSEGV, SIG_DFL);
        (void)!ane_try_ways(0, &words, &err);
        _exit(0);
    }
    int how = 0;
    EXPECT(child > 0 && waitpid(child, &how, 0) == child && WIFSIGNALED(how));
    empty_temporary_folder();
    choose_way("ane", "standard evaluation is used", "");
    child = fork();
    if (child == 0) {
        text words = {0};
        set("standard_ns", "20000000");
        set("realtime", "crash");
        signal(SIGSEGV, SIG_DFL);
        (void)!ane_try_ways(0, &words, &err);
        _exit(0);
    }
    EXPECT(child > 0 && waitpid(child, &how, 0) == child && WIFSIGNALED(how));
    empty_temporary_folder();
    choose_way("ane", "direct evaluation is used", "real-time cannot be used (its trial did not finish)");
}

TEST(a_way_that_fails_at_work_is_left) {
    job j;
    float z[32];
    set("standard_ns", "2000000");
    set("realtime", "fail");
    try_ways(0);
    EXPECT_OK(start(&j, "ane", add_half));
    EXPECT(strstr(propane_device_describe(j.device)->note, "direct evaluation is used"));
    set("direct", "fail");
    put(&j, 0, 1, 1);
    EXPECT_OK(once(&j));
    take(&j, 2, z);
    EXPECT(z[3] == 4);
    end(&j);
    choose_way("ane", "standard evaluation is used, direct evaluation failed in use: ", "");
    forget(); /* the answer is cached in the process and in the file */
    choose_way("ane", "standard evaluation is used", "");
}

/* ---- several functions in one program ----------------------------------------------------------------------------------------- */

enum { SEVERAL = 4 };

typedef struct several {
    propane_device *device;
    propane_module *modules[SEVERAL];
    propane_compile_item items[SEVERAL];
    propane_compile_report report;
} several;

/* Compiles add_half, subtract, and two programs that differ only in their constants. */
static propane_status compile_several(several *s, const char *uri) {
    static char constants[2][2000];
    const char *sources[SEVERAL] = {add_half, subtract, constants[0], constants[1]};
    *s = (several){.report.size = sizeof s->report};
    for (int k = 0; k < 2; k++) constant_program(constants[k], sizeof constants[k], 10 * k + 1);
    for (int k = 0; k < SEVERAL; k++) {
        EXPECT_OK(propane_module_parse(sources[k], strlen(sources[k]), "t.mil", NULL, &s->modules[k], &err));
        s->items[k].module = s->modules[k];
    }
    EXPECT_OK(propane_device_open(uri, &s->device, &err));
    return propane_program_compile_all(s->device, s->items, SEVERAL, NULL, &s->report, &err);
}

static void bind_several(several *s, int k, job *j) {
    propane_binding bindings[8];
    *j = (job){.device = s->device, .program = s->items[k].program};
    j->in = propane_program_input_count(j->program);
    j->out = propane_program_output_count(j->program);
    for (int i = 0; i < j->in + j->out; i++) {
        EXPECT_OK(propane_buffer_create(j->device, io_at(j, i)->bytes, &j->buffers[i], &err));
        bindings[i] = (propane_binding){io_at(j, i)->name, j->buffers[i]};
    }
    EXPECT_OK(propane_request_create(j->program, bindings, j->in + j->out, &j->request, &err));
}

/* Runs the programs in any order, with some freed before the last one runs. */
static void run_several(several *s) {
    float z[64], a[64];
    job j;
    static const int order[] = {3, 0, 1, 2};
    for (int n = 0; n < SEVERAL; n++) {
        int k = order[n];
        bind_several(s, k, &j);
        put(&j, 0, 5, 1);
        if (j.in > 1) put(&j, 1, 3, 0);
        EXPECT_OK(once(&j));
        take(&j, j.in, z);
        if (j.out > 1) take(&j, j.in + 1, a);
        for (int i = 0; i < 32; i++) {
            float x = 5 + (float)i, want = k == 0 ? x + 3 : k == 1 ? x - 3 : x + (float)(k == 2 ? 1 : 11) + (float)i;
            EXPECT_MSG(z[i] == want && (k != 1 || a[i] == -want), "program %d, element %d: %g", k, i, (double)z[i]);
        }
        propane_request_free(j.request);
        for (int i = 0; i < 8; i++) propane_buffer_free(j.buffers[i]);
        propane_program_free(j.program);
    }
}

static void end_modules(several *s) {
    for (int k = 0; k < SEVERAL; k++) propane_module_free(s->modules[k]);
    propane_device_close(s->device);
}

static void end_several(several *s) {
    end_modules(s);
    expect_nothing_left();
}

static void several_on(const char *uri, int procedures, long compiles, const char *how) {
    several s;
    long before = get("compiles");
    EXPECT_OK(compile_several(&s, uri));
    EXPECT_MSG(strstr(s.report.how, how), "%s", s.report.how);
    EXPECT_MSG(s.report.procedures == procedures, "%d procedures", s.report.procedures);
    EXPECT_MSG(get("compiles") - before == compiles && s.report.compiles == compiles, "%ld compiles, %d reported",
               get("compiles") - before, s.report.compiles);
    run_several(&s);
    end_several(&s);
}

TEST(several_functions_take_one_compile) {
    several_on("ane:memory?procedures=on&dispatch=standard", 4, 1, "4 procedures of 1 compiled program, not proved");
    several_on("ane:client?procedures=on&dispatch=standard", 4, 1, "4 procedures of 1 compiled program");
    several_on("ane:memory?procedures=off&dispatch=standard", 0, 4, "a program each, as asked for");
    set("order", "declared");
    several_on("ane:client?procedures=on&dispatch=direct", 4, 1, "4 procedures");
    set("attributes", "nil");
    set("order", "");
    several_on("ane:client?procedures=on&dispatch=standard", 4, 1, "4 procedures");
}

/* The default: one compile for the proof, once per process and route, and one for the group. */
TEST(procedures_are_proved_first) {
    several_on("ane:memory?dispatch=standard", 4, 2, "4 procedures of 1 compiled program");
    several_on("ane:memory?dispatch=standard", 4, 1, "4 procedures of 1 compiled program");
    several_on("ane:client?dispatch=standard", 4, 2, "4 procedures of 1 compiled program");
}

TEST(without_procedures_each_has_its_program) {
    set("procedures", "refused");
    several_on("ane:memory?dispatch=standard", 0, 5,
               "a program each, because procedures do not work on this system: ane: Apple's");
    set("procedures", "first");
    several_on(
        "ane:client?dispatch=standard", 0, 5,
        "a program each, because procedures do not work on this system: element 1 of the result of function 1 is");
}

TEST(an_index_that_fails_is_no_proof) {
    set("procedures", "fail");
    several_on("ane:memory?dispatch=standard", 0, 5,
               "a program each, because procedures do not work on this system: ane: the engine");
}

/* The proof is compile 1, the group compile 2. */
TEST(a_group_that_is_refused_becomes_smaller_ones) {
    set("compile", "failed");
    set("compile_at", "2");
    several_on("ane:memory?dispatch=standard", 4, 4,
               "4 procedures of 2 compiled programs, because a group of 4 fails: ane: Apple's compiler");
    several s;
    set("compile_at", "5");
    EXPECT_FAIL(compile_several(&s, "ane:memory?dispatch=standard&procedures=on"), PROPANE_ERR_UNSUPPORTED,
                "refuses 'main and 3 others'");
    EXPECT(s.report.failed == -1 && !s.items[0].program);
    end_several(&s);
    set("compile_at", "8");
    EXPECT_FAIL(compile_several(&s, "ane:memory?dispatch=standard&procedures=off"), PROPANE_ERR_UNSUPPORTED, "refuses");
    EXPECT_MSG(s.report.failed == 2 && !s.items[0].program, "item %d", s.report.failed);
    end_several(&s);
}

/* The programs after it are tried in the same size: 30 functions in programs of at most 3, after 30, 15 and 7. */
TEST(a_limit_of_functions_is_found_once) {
    enum { FUNCTIONS = 30 };
    static propane_compile_item items[FUNCTIONS];
    propane_compile_report report = {.size = sizeof report};
    propane_device *d = NULL;
    set("procedures", "3");
    for (int k = 0; k < FUNCTIONS; k++) {
        char source[2000];
        propane_module *m = NULL;
        constant_program(source, sizeof source, k);
        EXPECT_OK(propane_module_parse(source, strlen(source), "t.mil", NULL, &m, &err));
        items[k].module = m;
    }
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard&pause=0", &d, &err));
    EXPECT_OK(propane_program_compile_all(d, items, FUNCTIONS, NULL, &report, &err));
    EXPECT_MSG(strncmp(report.how, "30 procedures of 10 compiled programs, because a group of 30 fails: ", 66) == 0,
               "%s", report.how);
    EXPECT_MSG(report.compiles == 14 && report.procedures == 30 && get("programs") == 10, "%d compiles, %ld programs",
               report.compiles, get("programs"));
    for (int k = 0; k < FUNCTIONS; k++) {
        propane_program_free(items[k].program);
        propane_module_free((propane_module *)(uintptr_t)items[k].module);
    }
    propane_device_close(d);
    expect_nothing_left();
}

/* A machine without free slots does not accept smaller groups either: one load fails, and the message names the
 * holder of the slots. */
TEST(a_full_machine_is_no_reason_for_smaller_groups) {
    enum { FIRST = 60 };
    static propane_program *p[FIRST];
    several s;
    propane_device *d = NULL;
    char source[2000], places[24];
    set("system", "26");
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard&procedures=off&budget=0", &d, &err));
    snprintf(places, sizeof places, "%d", FIRST);
    set("pool", places);
    for (int k = 0; k < FIRST; k++) {
        constant_program(source, sizeof source, 100 + k);
        EXPECT_OK(compile(d, source, &p[k]));
    }
    long refused = get("refused_loads");
    EXPECT_FAIL(compile_several(&s, "ane:memory?dispatch=standard&procedures=on&budget=0"), PROPANE_ERR_LIMIT,
                "this process has 60 programs loaded: it uses most of the slots");
    end_modules(&s);
    EXPECT_FAIL(compile_several(&s, "ane:memory?dispatch=standard&budget=0"), PROPANE_ERR_LIMIT,
                "it uses most of the slots");
    EXPECT_MSG(get("refused_loads") - refused == 2, "%ld loads", get("refused_loads") - refused);
    end_modules(&s);
    for (int k = 0; k < FIRST; k++) propane_program_free(p[k]);
    propane_device_close(d);
    expect_nothing_left();
}

/* A refused function is named, whatever other functions were in its group. */
TEST(a_function_that_is_refused_is_found) {
    static const char bad[] =
        PROGRAM("tensor<fp16, [1, 2, 1, 32]> x) {\n"
                "        tensor<fp16, [1, 2, 1, 32]> z = gelu(x = x)[name = string(\"z\")];\n    } -> (z);\n");
    propane_compile_item items[5] = {{NULL}};
    propane_compile_report report = {.size = sizeof report};
    propane_device *d = NULL;
    for (int k = 0; k < 5; k++) {
        const char *source = k == 3 ? bad : k % 2 ? subtract : add_half;
        propane_module *m = NULL;
        EXPECT_OK(propane_module_parse(source, strlen(source), "t.mil", NULL, &m, &err));
        items[k].module = m;
    }
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard&pause=0&defaults=left", &d, &err));
    EXPECT_FAIL(propane_program_compile_all(d, items, 5, NULL, &report, &err), PROPANE_ERR_UNSUPPORTED, "refuses");
    EXPECT_MSG(report.failed == 3 && get("programs") == 0, "item %d", report.failed);
    for (int k = 0; k < 5; k++) {
        EXPECT(!items[k].program);
        propane_module_free((propane_module *)(uintptr_t)items[k].module);
    }
    propane_device_close(d);
    expect_nothing_left();
}

/* Requests that name a missing procedure or symbol: the stand-in's rules, and the driver's messages. */
TEST(a_wrong_index_is_an_error) {
    const ane_api *a;
    ane_options o;
    ane_rig r;
    propane_completion done = {.size = sizeof done};
    EXPECT_OK(ane_options_parse("memory?dispatch=standard", &o, &err));
    EXPECT_OK(ane_api_get(&a, &err));
    for (int n = 0; n < 3; n++) {
        EXPECT_OK(ane_rig_open(a, &o, 3, &r, &err));
        ane_order *order = &((ane_program *)r.programs[1].impl)->order;
        EXPECT(order->procedure == 1 && order->inputs.symbol[0] == 1 && order->inputs.count == 1);
        if (n == 1) order->procedure = 3;
        if (n == 2) order->inputs.symbol[0] = 0; /* symbol of the first procedure */
        if (n == 0)
            EXPECT_OK(ane_rig_run(&r, 1, 0, &done, &err));
        else
            EXPECT_FAIL(ane_rig_run(&r, 1, 0, &done, &err), PROPANE_ERR_DEVICE,
                        "the index of a procedure or symbol is wrong: procedures=off");
        ane_rig_close(&r);
    }
    expect_nothing_left();
}

/* ---- statistics ---------------------------------------------------------------------------------------------------------------- */

static int64_t engine_time(const char *uri) {
    job j;
    propane_completion done = {.size = sizeof done};
    EXPECT_OK(start(&j, uri, add_half));
    EXPECT_OK(propane_submit(&j.request, 1, &err));
    EXPECT_OK(propane_wait(j.request, &done, &err));
    EXPECT(done.device_ns > 0 && done.engine_ns < done.device_ns);
    end(&j);
    expect_nothing_left();
    return done.engine_ns;
}

TEST(the_engines_own_time_is_reported_where_it_is_given) {
    EXPECT(engine_time("ane") == -1);
    EXPECT(engine_time("ane:memory?statistics=on") == -1); /* the mask is not kept */
    set("statistics", "kept");
    EXPECT(engine_time("ane:memory?statistics=on") == -1);
    set("statistics", "gives");
    EXPECT(engine_time("ane:memory?statistics=off") == -1);
    EXPECT(engine_time("ane:memory?statistics=on") > 0);
    EXPECT(engine_time("ane:client?statistics=on") > 0);
    set("statistics", "array");
    EXPECT(engine_time("ane:memory?statistics=on") > 0);
    set("statistics", "strange");
    EXPECT(engine_time("ane:memory?statistics=on") == -1);
}

/* Omitted arguments are written: the stand-in refuses gelu without a mode, as an engine has been seen to do. */
TEST(defaults_are_written) {
    static const char gelu[] =
        PROGRAM("tensor<fp16, [1, 2, 1, 32]> x) {\n"
                "        tensor<fp16, [1, 2, 1, 32]> g = gelu(x = x)[name = string(\"g\")];\n"
                "        tensor<fp16, [1, 4, 1, 32]> z = concat(values = (g, g), axis = 1)[name = "
                "string(\"z\")];\n"
                "    } -> (z);\n");
    job j;
    float z[128];
    EXPECT_FAIL(start(&j, "ane:memory?defaults=left", gelu), PROPANE_ERR_UNSUPPORTED, "err=(");
    end(&j);
    EXPECT_OK(start(&j, "ane", gelu));
    put(&j, 0, 0, 0);
    EXPECT_OK(once(&j));
    take(&j, 1, z);
    EXPECT(z[0] == 0 && z[127] == 0);
    end(&j);
    EXPECT_FAIL(start(&j, "ane:memory?literals=inline", gelu), PROPANE_ERR_UNSUPPORTED, "literal in the argument list");
    end(&j);
    expect_nothing_left();
}

/* A failed compile delays the next one. */
TEST(compiles_are_paced_after_a_failure) {
    job j;
    struct timespec before, after;
    set("compile", "failed");
    set("compile_at", "1");
    EXPECT_FAIL(start(&j, "ane:memory?pause=1&dispatch=standard", add_half), PROPANE_ERR_UNSUPPORTED,
                "CompilationFailure");
    end(&j);
    clock_gettime(CLOCK_MONOTONIC, &before);
    EXPECT_OK(start(&j, "ane:memory?pause=1&dispatch=standard", add_half));
    clock_gettime(CLOCK_MONOTONIC, &after);
    end(&j);
    double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    EXPECT_MSG(seconds > 0.8, "%g s", seconds);
    expect_nothing_left();
}

TEST(every_weight_mode_is_proved) {
    for (int k = 0; k < WEIGHT_MODE_COUNT; k++) {
        if (k == WEIGHT_MODE_PATCHED) continue;
        EXPECT_OK(weight_mode_check("ane", weight_mode_name((weight_mode)k), &err));
        EXPECT_OK(weight_mode_check("ane:client", weight_mode_name((weight_mode)k), &err));
    }
    EXPECT_FAIL(weight_mode_check("ane", "gold", &err), PROPANE_ERR_INVALID,
                "it must be one of inputs|packed|baked|reload|patched");
    EXPECT_FAIL(weight_mode_check("ane", "patched", &err), PROPANE_ERR_UNSUPPORTED, "cannot overwrite constants");
    EXPECT_FAIL(weight_mode_check("cpu", "reload", &err), PROPANE_ERR_UNSUPPORTED,
                "cannot use a compiled program again");
    EXPECT_OK(weight_mode_check("cpu", "packed", &err));
    set("reload", "baked");
    EXPECT_FAIL(weight_mode_check("ane", "reload", &err), PROPANE_ERR_DEVICE, "as with the previous weights");
    EXPECT_OK(weight_mode_check("ane", "baked", &err));
    expect_nothing_left();
}

/* Loading a compiled program with other weights is not a compile. Programs that differ from the donor's are refused. */
TEST(a_donor_saves_the_compile) {
    char first[2000], second[2000];
    propane_device *d = NULL;
    propane_program *p[3] = {NULL};
    propane_module *m = NULL;
    constant_program(first, sizeof first, 1);
    constant_program(second, sizeof second, 2);
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    EXPECT_OK(compile(d, first, &p[0]));
    propane_compile_options options = {.size = sizeof options, .donor = p[0]};
    EXPECT_OK(propane_module_parse(second, strlen(second), "t.mil", NULL, &m, &err));
    EXPECT_OK(propane_program_compile(d, m, &options, &p[1], &err));
    propane_module_free(m);
    EXPECT(get("compiles") == 1 && get("programs") == 2);
    EXPECT_OK(propane_module_parse(add_half, strlen(add_half), "t.mil", NULL, &m, &err));
    EXPECT_FAIL(propane_program_compile(d, m, &options, &p[2], &err), PROPANE_ERR_INVALID, "its text differs");
    EXPECT_OK(compile(d, add_half, &p[2]));
    options.donor = p[2];
    propane_program *same = NULL;
    EXPECT_OK(propane_program_compile(d, m, &options, &same, &err)); /* without weights, nothing is patched */
    EXPECT(get("compiles") == 2 && get("programs") == 4);
    propane_module_free(m);
    propane_program_free(same);
    for (int i = 0; i < 3; i++) propane_program_free(p[i]);
    propane_device_close(d);
    expect_nothing_left();
}

TEST(options_are_checked) {
    propane_device *d = NULL;
    EXPECT_FAIL(propane_device_open("ane:core-ml", &d, &err), PROPANE_ERR_INVALID,
                "the routes are ane:memory and ane:client");
    EXPECT_FAIL(propane_device_open("ane:memory?dispatch=warp", &d, &err), PROPANE_ERR_INVALID,
                "unknown value dispatch=warp; it must be standard, direct, realtime, auto");
    EXPECT_FAIL(propane_device_open("ane:memory?qos=64", &d, &err), PROPANE_ERR_INVALID,
                "unknown value qos=64; it must be a number from 0 to 63");
    EXPECT_FAIL(propane_device_open("ane:client?speed=9", &d, &err), PROPANE_ERR_INVALID,
                "unknown option 'speed'; the options are dispatch");
    EXPECT_OK(propane_device_open("ane:client?qos=33&budget=0&pause=1&sizes=any", &d, &err));
    EXPECT(propane_device_describe(d)->compile_limit == 0);
    propane_device_close(d);
}

/* The list shows what was found, with its encoding. */
TEST(the_list_of_symbols_is_complete) {
    text t = {0};
    set("hide_method", "beginRealTimeTask");
    set("encoding", "numANECores");
    ane_api_list(&t);
    EXPECT(t.data &&
           strstr(t.data, "there    method -[_ANEInMemoryModel compileWithQoS:options:error:] B36@0:8I16@20^@28"));
    EXPECT(strstr(t.data, "missing  method -[_ANEClient beginRealTimeTask] B@: (optional)"));
    EXPECT(strstr(t.data, "differs  method +[_ANEDeviceInfo numANECores]"));
    EXPECT(strstr(t.data, "there    function objc_msgSend"));
    text_deinit(&t);
}

/* ---- faults ----------------------------------------------------------------------------------------------------------------------- */

typedef struct known_error {
    const char *domain; /* after com.apple.appleneuralengine; NULL for NSCocoaErrorDomain */
    long code;
    const char *text;
    long underlying, stage; /* -1 if not reported */
    bool has_status;
    int64_t status;
    bool transient;
    const char *hint; /* part of the hint; "" if there is none */
} known_error;

static const known_error known_errors[] = {
    {".compiler", 1, "ANECCompile() FAILED err=(InvalidMILProgram)", -1, -1, false, 0, false, "propane check"},
    {".compiler", 10, "verifyBundleAtPath: invalid model", -1, -1, false, 0, false, "C37b"},
    {"", 8, "Failed with status=0x1d : statusType=0x9: Program Inference error", -1, -1, true, 0x1d, false,
     "C11 to C13"},
    {"", 8, "Failed with status=0x1D : statusType=0x9", -1, -1, true, 0x1d, false, "C11 to C13"},
    {"", 8, "Failed with status=0x2 : statusType=0x9", -1, -1, true, 2, false, "index of a procedure"},
    {"", 8, "Failed with status=0x29 : statusType=0x1d", -1, -1, true, 0x29, false, "at run time"},
    {"", 9, "Failed with status=0x29 in 0x1d, 0x2, 0x20004", -1, -1, true, 0x29, false, ""},
    {"", 42, "evaluate: IOSurface smaller than the model expects (underlying=0x1D)", 0x1d, -1, true, 0x1d, false,
     "C11 to C13"},
    {"", 42, "words of a later system", -1, -1, false, 0, false, "C11 to C13"},
    {"", 34, "Failed with status=0x12 : statusType=0x9: Request cancelled", -1, -1, true, 0x12, false, "power state"},
    {"", 54, "Program load failed", 5, 1, true, 5, true, "slots for loaded programs"},
    {"", 55, "Program load failed: device not ready (transient; retry)", 7, 3, true, 7, true, ""},
    {"", 6, "Program load failure (0x20004)", -1, -1, true, 0x20004, false, "too large (C7)"},
    {"", 6, "Program load failure (0x50004)", -1, -1, true, 0x50004, false, "too many programs"},
    {"", 6, "a program (0x20001) that the word 0x20004 names", 0x20001, 2, true, 0x20001, false, ""},
    {"", 3, "not permitted", 0xfffffff2, -1, true, -14, false, "entitlement"},
    {NULL, 4097, "the connection was interrupted", -1, -1, false, 0, false, "connection"},
    {NULL, 4, "no such file", -1, -1, false, 0, false, ""},
};

TEST(errors_are_reported_by_their_numbers) {
    const ane_api *a;
    ane_id (*make)(const char *, long, const char *, long, long);
    void *found = exported("standin_error");
    memcpy(&make, &found, sizeof make);
    EXPECT_OK(ane_api_get(&a, &err));
    void *pool = a->objc_autoreleasePoolPush();
    for (size_t i = 0; i < sizeof known_errors / sizeof known_errors[0]; i++) {
        const known_error *t = &known_errors[i];
        char domain[100], line[900], start_of[120];
        ane_failure f;
        snprintf(domain, sizeof domain, "%s%s", t->domain ? "com.apple.appleneuralengine" : "NSCocoaErrorDomain",
                 t->domain ? t->domain : "");
        ane_error_read(a, make(domain, t->code, t->text, t->underlying, t->stage), &f);
        EXPECT_MSG(strcmp(f.domain, domain) == 0 && f.code == t->code && strcmp(f.description, t->text) == 0, "%s",
                   f.description);
        EXPECT_MSG(f.has_status == t->has_status && f.status == t->status, "%s: status %lld", t->text,
                   (long long)f.status);
        EXPECT(f.transient == t->transient && f.has_stage == (t->stage >= 0) && (!f.has_stage || f.stage == t->stage));
        const char *hint = ane_failure_hint(&f);
        EXPECT_MSG(*t->hint ? strstr(hint, t->hint) != NULL : !*hint, "%s: '%s'", t->text, hint);
        snprintf(start_of, sizeof start_of, "%s, code %ld%s", domain, t->code, t->has_status ? ", status " : ": ");
        EXPECT_MSG(strncmp(ane_failure_print(&f, line, sizeof line), start_of, strlen(start_of)) == 0, "%s", line);
    }
    ane_failure none;
    char line[40];
    ane_error_read(a, NULL, &none);
    EXPECT(strcmp(ane_failure_print(&none, line, sizeof line), "no reason was given") == 0 && !none.transient);
    a->objc_autoreleasePoolPop(pool);
    expect_clean();
}

TEST(the_system_is_reported) {
    static const int versions[3][3] = {{15, 5, 0}, {26, 3, 1}, {27, 0, 1}};
    const char *const systems[] = {"15", "26", "27"}, *const builds[] = {"24F74", "25D2128", "26A434"};
    const ane_api *a;
    ane_system_version v;
    EXPECT_OK(ane_api_get(&a, &err));
    for (int i = 0; i < 3; i++) {
        set("system", systems[i]);
        EXPECT(ane_system(a, &v) && v.major == versions[i][0] && v.minor == versions[i][1]);
        EXPECT_MSG(v.patch == versions[i][2] && strcmp(v.build, builds[i]) == 0, "%d, %s", v.patch, v.build);
    }
    expect_nothing_left();
}

typedef struct fault {
    const char *key, *value, *uri;
    propane_status status;
    const char *part; /* expected part of the message */
} fault;

static const fault faults[] = {
    {"engine", "no", "ane", PROPANE_ERR_UNSUPPORTED, "this machine has no Neural Engine"},
    {"hide_class", "_ANERequest", "ane", PROPANE_ERR_UNSUPPORTED, "the class _ANERequest is missing"},
    {"hide_class", "_ANEInMemoryModel", "ane", PROPANE_ERR_UNSUPPORTED,
     "_ANEInMemoryModel is missing; this version of the system is not supported; 'ane:client' may work"},
    {"hide_class", "_ANEClient", "ane:client", PROPANE_ERR_UNSUPPORTED, "the class _ANEClient is missing"},
    {"hide_method", "loadWithQoS:options:error:", "ane", PROPANE_ERR_UNSUPPORTED,
     "-[_ANEInMemoryModel loadWithQoS:options:error:] is missing"},
    {"encoding", "evaluateWithQoS:options:request:error:", "ane", PROPANE_ERR_UNSUPPORTED,
     "has the type '{strange=dd}24@0:8f16', not 'B@:I@@^', so calling it would be unsafe"},
    {"encoding", "objectWithIOSurface:", "ane", PROPANE_ERR_UNSUPPORTED,
     "+[_ANEIOSurfaceObject objectWithIOSurface:] has the type"},
    {"descriptor", "nil", "ane", PROPANE_ERR_DEVICE, "_ANEInMemoryModelDescriptor rejects the program"},
    {"model", "nil", "ane", PROPANE_ERR_DEVICE, "_ANEInMemoryModel rejects the descriptor"},
    {"model", "nil", "ane:client", PROPANE_ERR_DEVICE, "_ANEModel rejects the folder"},
    {"client", "nil", "ane:client", PROPANE_ERR_DEVICE, "_ANEClient returns no connection"},
    {"compile", "invalid", "ane", PROPANE_ERR_UNSUPPORTED, "com.apple.appleneuralengine.compiler, code 1"},
    {"compile", "invalid", "ane:client", PROPANE_ERR_UNSUPPORTED, "InvalidMILProgram"},
    {"compile", "failed", "ane", PROPANE_ERR_UNSUPPORTED, "CompilationFailure"},
    {"compile", "silent", "ane", PROPANE_ERR_UNSUPPORTED, "no reason was given"},
    {"load", "always", "ane", PROPANE_ERR_DEVICE, "compiled but cannot be loaded: com.apple.appleneuralengine, code 6"},
    {"load", "large", "ane:client", PROPANE_ERR_DEVICE, "weights are too large (C7)"},
    {"attributes", "strange", "ane", PROPANE_ERR_DEVICE,
     "reports input number 0 as 'i000_x_x', which the program does not have"},
    {"attributes", "shapes", "ane", PROPANE_ERR_DEVICE, "which lacks the dimension of 8"},
    {"attributes", "params", "ane", PROPANE_ERR_DEVICE, "which lacks the dimension of 8"},
    {"attributes", "rows", "ane", PROPANE_ERR_DEVICE, "reports rows of 8 bytes for 8 elements of 2"},
    {"surface", "nil", "ane", PROPANE_ERR_MEMORY, "the system creates no IOSurface"},
    {"wrap", "nil", "ane", PROPANE_ERR_MEMORY, "_ANEIOSurfaceObject rejects the IOSurface"},
    {"lock", "fail", "ane", PROPANE_ERR_DEVICE, "cannot be locked"},
    {"request", "nil", "ane", PROPANE_ERR_DEVICE, "_ANERequest rejects 2 inputs and 1 outputs"},
    {"evaluate", "0x1d", "ane", PROPANE_ERR_DEVICE, "status 0x1d: "},
    {"evaluate", "0x2", "ane:client", PROPANE_ERR_DEVICE,
     "the index of a procedure or symbol is wrong: procedures=off"},
    {"evaluate", "silent", "ane", PROPANE_ERR_DEVICE, "the engine failed: no reason was given"},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

static void try_fault(const fault *f) {
    job j;
    set(f->key, f->value);
    propane_status status = start(&j, f->uri, add_half);
    if (status == PROPANE_OK) status = once(&j);
    EXPECT_MSG(status == f->status && strstr(err.text, f->part), "%s=%s on %s: %s: '%s', want '...%s...'", f->key,
               f->value, f->uri, propane_status_name(status), err.text, f->part);
    EXPECT_MSG(strncmp(err.text, "ane: ", 5) == 0, "%s", err.text);
    end(&j);
    expect_clean();
    EXPECT_MSG(get("objects") <= 1 && get("surfaces") == 0 && get("programs") == 0 && get("pools") == 0,
               "%s=%s: %ld objects, %ld surfaces, %ld programs, %ld pools are left", f->key, f->value, get("objects"),
               get("surfaces"), get("programs"), get("pools"));
    EXPECT_MSG(files_left() == 0, "%s=%s: files are left", f->key, f->value);
}

/* Each request for memory fails in turn, and none of the failures leaves anything behind. */
static propane_status add_in_short_memory(const propane_module *m, const char *uri, job *j) {
    *j = (job){0};
    PROPANE_TRY(propane_device_open(uri, &j->device, &err));
    PROPANE_TRY(propane_program_compile(j->device, m, NULL, &j->program, &err));
    propane_binding bindings[3];
    for (int i = 0; i < 3; i++) {
        j->in = 2;
        PROPANE_TRY(propane_buffer_create(j->device, io_at(j, i)->bytes, &j->buffers[i], &err));
        bindings[i] = (propane_binding){io_at(j, i)->name, j->buffers[i]};
    }
    PROPANE_TRY(propane_request_create(j->program, bindings, 3, &j->request, &err));
    return once(j);
}

static void try_short_memory(const char *uri) {
    propane_module *m = NULL;
    int n = 0;
    EXPECT_OK(propane_module_parse(add_half, strlen(add_half), "t.mil", NULL, &m, &err));
    for (propane_status status = PROPANE_ERR_MEMORY; status != PROPANE_OK;) {
        job j;
        EXPECT(++n < 1000);
        mem_fail_at((uint64_t)n);
        status = add_in_short_memory(m, uri, &j);
        mem_fail_at(0);
        end(&j);
        EXPECT_MSG(status == PROPANE_OK || status == PROPANE_ERR_MEMORY, "request %d: %s", n, err.text);
    }
    EXPECT_MSG(n > 20, "%d", n);
    propane_module_free(m);
}

TEST(memory_that_runs_out_leaves_nothing) {
    try_short_memory("ane:memory?dispatch=standard");
    expect_nothing_left();
}

/* The trial's folder is removed while memory is short, and that may fail; it is then left to the system. */
TEST(memory_that_runs_out_in_a_trial_leaves_nothing) {
    int n = 0;
    for (propane_status status = PROPANE_ERR_MEMORY; status != PROPANE_OK;) {
        text words = {0};
        EXPECT(++n < 1000);
        mem_fail_at((uint64_t)n);
        status = ane_try_ways(n % 2, &words, &err);
        mem_fail_at(0);
        EXPECT_MSG(status == PROPANE_OK || status == PROPANE_ERR_MEMORY, "request %d: %s", n, err.text);
        text_deinit(&words);
    }
    EXPECT_MSG(n > 20, "%d", n);
    expect_clean();
    EXPECT(get("objects") == 1 && get("surfaces") == 0 && get("programs") == 0 && get("pools") == 0);
    empty_temporary_folder();
}

/* Uses one process per fault, because loaded classes are never looked up again. */
TEST(every_fault_ends_in_its_message) {
    for (int i = 0; i < FAULTS; i++) {
        pid_t child = fork();
        if (child == 0) {
            try_fault(&faults[i]);
            _exit(0);
        }
        int how = 0;
        EXPECT(child > 0 && waitpid(child, &how, 0) == child);
        EXPECT_MSG(WIFEXITED(how) && WEXITSTATUS(how) == 0, "fault %d, %s=%s on %s: see above", i, faults[i].key,
                   faults[i].value, faults[i].uri);
    }
}

/* ---- loads that may succeed a moment later ------------------------------------------------------------------------------- */

/* There is a single slot for all programs, and a freed slot is not available at once. */
TEST(a_load_without_a_place_is_tried_again) {
    propane_device *d = NULL;
    propane_program *p[2] = {NULL};
    set("pool", "1");
    set("texts", "new");
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    EXPECT_OK(compile(d, add_half, &p[0]));
    propane_program_free(p[0]);
    long refused = get("refused_loads");
    EXPECT_OK(compile(d, subtract, &p[1]));
    EXPECT_MSG(get("refused_loads") == refused + 1 && get("compiles") == 2, "%ld", get("refused_loads") - refused);
    propane_program_free(p[1]);
    propane_device_close(d);
    expect_nothing_left();
}

static bool is_enough(void *context) { return ++*(int *)context > 1; }

TEST(waiting_for_a_place_can_be_stopped) {
    propane_device *d = NULL;
    propane_program *p[2] = {NULL};
    int asked = 0;
    set("pool", "1");
    set("texts", "new");
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    EXPECT_OK(compile(d, add_half, &p[0]));
    propane_set_interrupt(is_enough, &asked);
    EXPECT_FAIL(compile(d, subtract, &p[1]), PROPANE_ERR_CANCELLED, "ane: stopped while 'main' was waiting");
    propane_set_interrupt(NULL, NULL);
    EXPECT(asked == 2 && get("refused_loads") < 5);
    propane_program_free(p[0]);
    propane_device_close(d);
    expect_nothing_left();
}

/* Nothing indicates that a retry would succeed, so there is one try. */
TEST(a_load_that_fails_is_not_tried_again) {
    job j;
    set("load", "once");
    EXPECT_FAIL(start(&j, "ane:memory?dispatch=standard", add_half), PROPANE_ERR_DEVICE,
                "compiled but cannot be loaded: com.apple");
    end(&j);
    set("load", "");
    set("system", "26"); /* its error does not contain such a hint */
    set("pool", "1");
    propane_device *d = NULL;
    propane_program *p[2] = {NULL};
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    EXPECT_OK(compile(d, add_half, &p[0]));
    long refused = get("refused_loads");
    EXPECT_FAIL(compile(d, subtract, &p[1]), PROPANE_ERR_LIMIT, "status 0x50004");
    EXPECT_MSG(strstr(err.text, "; this process has 1 program loaded: other processes use the rest"), "%s", err.text);
    EXPECT_MSG(get("refused_loads") == refused + 1, "%ld", get("refused_loads") - refused);
    propane_program_free(p[0]);
    propane_device_close(d);
    expect_nothing_left();
}

/* ---- folders, and what a loaded program does not need -------------------------------------------------------------------- */

TEST(files_are_written_to_both_folders_that_the_system_names) {
    job j;
    set("path", "other");
    int before = folders_there();
    add_once("ane:memory?dispatch=standard");
    EXPECT_OK(start(&j, "ane:memory?dispatch=standard", three_constants));
    EXPECT_MSG(folders_there() == before + 2, "%d, %d before", folders_there(), before);
    put(&j, 0, 1, 0);
    EXPECT_OK(once(&j));
    end(&j);
    set("compile", "failed");
    EXPECT_FAIL(start(&j, "ane:memory?dispatch=standard", subtract), PROPANE_ERR_UNSUPPORTED,
                "; the system reports two folders for it: ");
    end(&j);
    EXPECT(folders_there() == before);
    expect_nothing_left();
}

/* The memory route ignores TMPDIR. */
TEST(the_memory_route_does_not_depend_on_tmpdir) {
    char own[1200];
    snprintf(own, sizeof own, "%s", getenv("TMPDIR"));
    setenv("TMPDIR", "/nowhere/at/all", 1);
    job j;
    propane_status status = start(&j, "ane:memory?dispatch=standard", three_constants);
    if (status == PROPANE_OK) status = once(&j);
    end(&j);
    setenv("TMPDIR", own, 1);
    EXPECT_MSG(status == PROPANE_OK, "%s", err.text);
    expect_nothing_left();
}

/* Returns how many objects exist while a program is loaded, and checks the number of files. */
static long loaded_objects(const char *uri, int files) {
    job j, again;
    float y[21];
    int before = folders_there();
    EXPECT_OK(start(&j, uri, three_constants));
    long objects = get("objects");
    EXPECT_MSG(folders_there() == before + files, "%s: %d, %d before", uri, folders_there(), before);
    EXPECT_OK(start(&again, uri, three_constants)); /* the folder may have been removed; it is filled again */
    for (int k = 0; k < 2; k++) {
        put(k ? &j : &again, 0, 1, 0);
        EXPECT_OK(once(k ? &j : &again));
        take(k ? &j : &again, 1, y);
        for (int i = 0; i < 21; i++) EXPECT(y[i] == 101 * (float)(i % 7 + 1) + 1 + (float)(i / 7));
        end(k ? &j : &again);
    }
    EXPECT_MSG(folders_there() == before, "%s: %d, %d before", uri, folders_there(), before);
    expect_nothing_left();
    return objects;
}

TEST(a_loaded_program_keeps_the_values_it_should) {
    long kept = loaded_objects("ane:memory?dispatch=standard&descriptor=keep&folder=keep", 1);
    EXPECT(loaded_objects("ane:memory?dispatch=standard", 1) == kept); /* nothing was tried here */
    EXPECT(loaded_objects("ane:memory?dispatch=standard&folder=drop", 0) == kept);
    long dropped = loaded_objects("ane:memory?dispatch=standard&descriptor=drop&folder=drop", 0);
    EXPECT_MSG(dropped < kept, "%ld of %ld objects", dropped, kept);
    (void)loaded_objects("ane:client?dispatch=standard&descriptor=drop&folder=drop", 0);
    EXPECT_OK(weight_mode_check("ane:memory?descriptor=drop&folder=drop", "reload", &err));
    EXPECT_OK(weight_mode_check("ane:client?descriptor=drop&folder=drop", "reload", &err));
    expect_nothing_left();
}

TEST(what_was_tried_is_dropped) {
    const ane_api *a;
    bool there;
    EXPECT_OK(ane_api_get(&a, &err));
    for (int route = 0; route < 2; route++) {
        text t = {0};
        EXPECT_OK(ane_try_keeping(route, &t, &err));
        EXPECT_MSG(strcmp(t.data, route ? "folder not needed" : "descriptor not needed; folder not needed") == 0, "%s",
                   t.data);
        EXPECT(ane_remembered_yes(a, route, ANE_FACT_folder));
        EXPECT(ane_remembered_yes(a, route, ANE_FACT_descriptor) == !route);
        text_deinit(&t);
    }
    long dropped = loaded_objects("ane:memory?dispatch=standard", 0);
    EXPECT(dropped == loaded_objects("ane:memory?dispatch=standard&descriptor=drop&folder=drop", 0));
    (void)loaded_objects("ane:client?dispatch=standard", 0);
    (void)loaded_objects("ane:client?dispatch=standard&folder=keep", 1);
    EXPECT_OK(ane_forget(&there, &err));
    EXPECT(there);
}

/* ---- attributes ------------------------------------------------------------------------------------------------------------ */

/* The wrapper raises an exception if its own attributes are requested; the inner model has the same information. */
TEST(attributes_are_the_inner_models) {
    set("wrapper", "attributes");
    set("order", "declared");
    subtract_once("ane:memory?dispatch=standard");
}

TEST(without_an_inner_model_the_wrapper_is_asked) {
    set("hide_method", "model");
    set("order", "declared");
    subtract_once("ane:memory?dispatch=standard");
}

/* ---- the budget of compiles ---------------------------------------------------------------------------------------------- */

TEST(there_is_no_wall_on_27) {
    char source[2000];
    propane_device *d = NULL;
    propane_program *p = NULL;
    set("system", "27");
    set("compile", "failed");
    set("compile_at", "121");
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard", &d, &err));
    EXPECT(propane_device_describe(d)->compile_limit == 0);
    for (int i = 0; i < 120; i++) {
        constant_program(source, sizeof source, i);
        EXPECT_OK(compile(d, source, &p));
        propane_program_free(p);
    }
    constant_program(source, sizeof source, 120);
    EXPECT_FAIL(compile(d, source, &p), PROPANE_ERR_UNSUPPORTED, "(C1): use budget=119");
    propane_device_close(d);
    expect_nothing_left();
    EXPECT_OK(propane_device_open("ane:memory?dispatch=standard&budget=119", &d, &err));
    EXPECT_FAIL(compile(d, source, &p), PROPANE_ERR_LIMIT, "would be compile 122 of this process");
    propane_device_close(d);
}

TEST(a_failed_evaluation_fails_that_request_alone) {
    job j;
    set("evaluate", "0x1d");
    set("evaluate_at", "2");
    EXPECT_OK(start(&j, "ane:memory?dispatch=standard", add_half));
    EXPECT_OK(once(&j));
    EXPECT_FAIL(once(&j), PROPANE_ERR_DEVICE, "0x1d");
    EXPECT_OK(once(&j));
    end(&j);
    expect_nothing_left();
}

TEST(a_library_that_is_none_is_refused) {
    propane_device *d = NULL;
    setenv("PROPANE_ANE_LIBRARY", "/nowhere/lib.so", 1);
    EXPECT_FAIL(propane_device_open("ane", &d, &err), PROPANE_ERR_UNSUPPORTED, "/nowhere/lib.so cannot be loaded");
}

TEST(a_missing_function_is_named) {
    propane_device *d = NULL;
    setenv("PROPANE_ANE_LIBRARY", "libm.so.6", 1);
    EXPECT_FAIL(propane_device_open("ane", &d, &err), PROPANE_ERR_UNSUPPORTED, "has no 'objc_getClass'");
}

TEST(without_the_stand_in_it_says_why) {
    propane_device *d = NULL;
#ifdef __APPLE__
    SKIP("a Mac has the real thing");
#endif
    unsetenv("PROPANE_ANE_LIBRARY");
    EXPECT_FAIL(propane_device_open("ane", &d, &err), PROPANE_ERR_UNSUPPORTED,
                "ane: the Apple Neural Engine is available only on macOS");
}

TEST(the_stand_in_is_there) { SKIP("there is no stand-in on this system"); }

int main(int argc, char **argv) {
    static const test_case more[] = {
        T(the_memory_route_adds),
        T(the_client_route_adds),
        T(the_canonical_dialect_adds),
        T(attributes_need_not_be_there),
        T(a_model_may_name_no_folder),
        T(surfaces_that_another_device_works_on_are_unlocked_again),
        T(names_are_bound_whatever_the_order_of_symbols),
        T(inputs_that_are_not_used_are_left_out),
        T(surfaces_are_made_even),
        T(surfaces_stay_as_they_are_where_that_is_proved),
        T(growing_reaches_the_neighbours),
        T(all_weights_go_into_one_file),
        T(equal_programs_are_compiled_once),
        T(the_compile_budget_is_kept),
        T(ten_thousand_evaluations_leave_nothing),
        T(a_device_uses_the_standard_way_and_tries_nothing),
        T(a_way_to_evaluate_can_be_asked_for),
        T(the_fastest_way_is_taken),
        T(a_way_that_is_not_faster_is_not_taken),
        T(a_way_that_computes_wrong_is_not_taken),
        T(real_time_may_do_without_a_task),
        T(a_trial_that_crashes_leaves_the_safe_way),
        T(a_way_that_fails_at_work_is_left),
        T(several_functions_take_one_compile),
        T(procedures_are_proved_first),
        T(without_procedures_each_has_its_program),
        T(an_index_that_fails_is_no_proof),
        T(a_group_that_is_refused_becomes_smaller_ones),
        T(a_limit_of_functions_is_found_once),
        T(a_full_machine_is_no_reason_for_smaller_groups),
        T(a_function_that_is_refused_is_found),
        T(a_wrong_index_is_an_error),
        T(the_engines_own_time_is_reported_where_it_is_given),
        T(defaults_are_written),
        T(compiles_are_paced_after_a_failure),
        T(every_weight_mode_is_proved),
        T(a_donor_saves_the_compile),
        T(options_are_checked),
        T(the_list_of_symbols_is_complete),
        T(memory_that_runs_out_leaves_nothing),
        T(memory_that_runs_out_in_a_trial_leaves_nothing),
        T(every_fault_ends_in_its_message),
        T(errors_are_reported_by_their_numbers),
        T(the_system_is_reported),
        T(a_load_without_a_place_is_tried_again),
        T(waiting_for_a_place_can_be_stopped),
        T(a_load_that_fails_is_not_tried_again),
        T(files_are_written_to_both_folders_that_the_system_names),
        T(the_memory_route_does_not_depend_on_tmpdir),
        T(a_loaded_program_keeps_the_values_it_should),
        T(what_was_tried_is_dropped),
        T(attributes_are_the_inner_models),
        T(without_an_inner_model_the_wrapper_is_asked),
        T(there_is_no_wall_on_27),
        T(a_failed_evaluation_fails_that_request_alone),
        T(a_library_that_is_none_is_refused),
        T(a_missing_function_is_named),
        T(without_the_stand_in_it_says_why),
    };
    static const test_case none[] = {T(the_stand_in_is_there)};
    if (!ane_rig_enter(argv[0])) return test_main("drivers/ane", none, 1, argc, argv);
    static const conformance_driver driver = {
        .title = "drivers/ane", .uri = "ane", .more = more, .more_count = sizeof more / sizeof more[0]};
    int code = conformance_main(&driver, argc, argv);
    ane_rig_leave();
    return code;
}
